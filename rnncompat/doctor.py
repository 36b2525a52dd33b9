"""``doctor``: what is installed, which backends work here, and a self-test of each against the definition."""

from __future__ import annotations

import itertools
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

_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
_LENGTHS = {torch.float64: [7, 0, 3, 5], torch.float32: [5, 0, 4, 3] * 25}
"""By dtype. In float32 there are 300 steps, as many rows of large products: some libraries are wrong only there."""


@dataclass(frozen=True)
class SelfTest:
    """One backend on one device, against ``reference`` in float64 on the CPU.

    Attributes:
        backend: its name.
        device: type of device.
        difference: largest difference of outputs, states and gradients over the four cells, relative to the
            largest number of each where that is above 1; None if refused.
        reason: why the backend does not run there, if it does not.
        dtype: what it computed in: float64, or float32 on a batch large enough for kernels of their own.
    """

    backend: str
    device: str
    difference: float | None
    reason: str = ""
    dtype: torch.dtype = torch.float64

    @property
    def healthy(self) -> bool:
        """Whether the backend gives the right numbers, or says that it gives none."""
        return self.difference is None or self.difference <= _TOLERANCE[self.dtype]

    def __str__(self) -> str:
        place = f"{self.backend} on {self.device}" + (", float32" if self.dtype is torch.float32 else "")
        if self.difference is None:
            return f"{place}: not available ({self.reason})"
        return f"{place}: {'right' if self.healthy else 'WRONG'}, largest difference {self.difference:.1e}"


@dataclass(frozen=True)
class Report:
    """What :func:`doctor` found; its ``str`` is made for reading and for bug reports.

    Attributes:
        versions: what is installed, by name.
        gates: what depends on the version of torch, and whether it is there.
        tests: one entry for each backend, device and dtype.
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
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # float32 is to be told from rounding
        tests = [_test(*case) for case in itertools.product(BACKENDS, devices, _TOLERANCE)]
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


def _test(backend: str, device: str, dtype: torch.dtype) -> SelfTest:
    try:
        differences = [_difference(cell, backend, device, dtype) for cell in Cell]
    except UnsupportedError as refusal:
        return SelfTest(backend, device, None, str(refusal), dtype)
    return SelfTest(backend, device, max(differences), dtype=dtype)


def _difference(cell: Cell, backend: str, device: str, dtype: torch.dtype) -> float:
    lengths = _LENGTHS[dtype]
    try:
        actual, cut = _run(cell, lengths, backend, device, dtype), True
    except UnsupportedError:
        actual, cut = _run(cell, lengths, backend, device, dtype, cut=False), False  # it has no resets
    expected = _run(cell, lengths, "reference", "cpu", torch.float64, cut=cut)
    return max(
        float((e - a).abs().max() / e.abs().max().clamp(min=1)) for e, a in zip(expected, actual, strict=True)
    )


def _run(
    cell: Cell, lengths: list[int], backend: str, device: str, dtype: torch.dtype, *, cut: bool = True
) -> list[Tensor]:
    """Output, final state and gradients of a small network with lengths and, if *cut*, resets, in float64."""
    random = torch.Generator().manual_seed(0)
    descriptor = RNNDescriptor(cell, 3, 5, num_layers=2, bidirectional=True)
    drawn = RNNWeights.init(descriptor, dtype=torch.float64, generator=random)
    steps, batch = max(lengths), len(lengths)
    x = torch.randn(steps, batch, 3, dtype=torch.float64, generator=random).to(device, dtype).requires_grad_()
    resets = torch.rand(steps, batch, generator=random) < 0.2 if cut else None
    weights = drawn.to(device, dtype)
    output, state = rnn_forward(descriptor, weights, x, lengths=lengths, resets=resets, backend=backend)
    results = [output, *(s for s in state if s is not None)]
    gradients = torch.autograd.grad(sum((r * r).sum() for r in results), [x, weights.flat])  # type: ignore[arg-type]  # a tensor
    return [r.detach().cpu().double() for r in (*results, *gradients)]
