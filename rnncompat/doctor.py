"""``doctor``: what is installed, which backends work here, and a self-test of each against the definition."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import torch
from torch import Tensor

from ._version import __version__
from .backends import BACKENDS
from .descriptor import Cell, RNNDescriptor
from .errors import UnsupportedError
from .functional import rnn_forward
from .versions import GATES, TORCH_VERSION, Gate
from .weights import RNNWeights

__all__ = ["Report", "SelfTest", "doctor"]

_TOLERANCE = 1e-10


@dataclass(frozen=True)
class SelfTest:
    """One backend on one device, against ``reference`` on the CPU, in float64.

    Attributes:
        backend: its name.
        device: type of device.
        difference: largest difference of outputs, states and gradients over the four cells; None if refused.
        reason: why the backend does not run there, if it does not.
    """

    backend: str
    device: str
    difference: float | None
    reason: str = ""

    @property
    def healthy(self) -> bool:
        """Whether the backend gives the right numbers, or says that it gives none."""
        return self.difference is None or self.difference <= _TOLERANCE

    def __str__(self) -> str:
        place = f"{self.backend} on {self.device}"
        if self.difference is None:
            return f"{place}: not available ({self.reason})"
        return f"{place}: {'right' if self.healthy else 'WRONG'}, largest difference {self.difference:.1e}"


@dataclass(frozen=True)
class Report:
    """What :func:`doctor` found; its ``str`` is made for reading and for bug reports.

    Attributes:
        versions: what is installed, by name.
        gates: what depends on the version of torch, and whether it is there.
        tests: one entry for each backend and device.
    """

    versions: dict[str, str]
    gates: tuple[Gate, ...]
    tests: tuple[SelfTest, ...]

    @property
    def healthy(self) -> bool:
        """Whether every backend that runs gives the right numbers."""
        return all(test.healthy for test in self.tests)

    def __str__(self) -> str:
        lines = [f"{name}: {version}" for name, version in self.versions.items()]
        return "\n".join([*lines, *map(str, self.gates), *map(str, self.tests)])


def doctor() -> Report:
    """Looks at the installation and tests every backend on every kind of device there is.

    Returns:
        Versions, and for each backend and device the largest difference from the reference.

    Example:
        >>> report = doctor()
        >>> report.healthy
        True
    """
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    tests = [_test(backend, device) for backend in BACKENDS for device in devices]
    return Report(_versions(), tuple(GATES.values()), tuple(tests))


def _versions() -> dict[str, str]:
    found = {
        "rnncompat": __version__,
        "Python": platform.python_version(),
        "torch": TORCH_VERSION,
        "CUDA": torch.version.cuda,
        "cuDNN": torch.backends.cudnn.version() if torch.cuda.is_available() else None,  # type: ignore[no-untyped-call]  # torch's own gap
        "oneDNN": "yes" if torch.backends.mkldnn.is_available() else None,  # type: ignore[no-untyped-call]  # likewise
        "GPU": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
    return {name: "none" if value is None else str(value) for name, value in found.items()}


def _test(backend: str, device: str) -> SelfTest:
    try:
        differences = [_difference(cell, backend, device) for cell in Cell]
    except UnsupportedError as refusal:
        return SelfTest(backend, device, None, str(refusal))
    return SelfTest(backend, device, max(differences))


def _difference(cell: Cell, backend: str, device: str) -> float:
    expected, actual = _run(cell, "reference", "cpu"), _run(cell, backend, device)
    return max(float((e - a).abs().max()) for e, a in zip(expected, actual, strict=True))


def _run(cell: Cell, backend: str, device: str) -> list[Tensor]:
    """Output, final state and gradients of a small network with lengths and resets."""
    random = torch.Generator().manual_seed(0)
    descriptor = RNNDescriptor(cell, 3, 5, num_layers=2, bidirectional=True)
    drawn = RNNWeights.init(descriptor, dtype=torch.float64, generator=random)
    x = torch.randn(7, 4, 3, dtype=torch.float64, generator=random).to(device).requires_grad_()
    resets = torch.rand(7, 4, generator=random) < 0.2
    weights = drawn.to(device)
    output, state = rnn_forward(descriptor, weights, x, lengths=[7, 0, 3, 5], resets=resets, backend=backend)
    results = [output, *(s for s in state if s is not None)]
    gradients = torch.autograd.grad(sum((r * r).sum() for r in results), [x, weights.flat])  # type: ignore[arg-type]  # a tensor
    return [r.detach().cpu() for r in (*results, *gradients)]
