"""What the installed torch can do: the only place that asks for its version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import torch
from packaging.version import Version

__all__ = [
    "GATES",
    "ONEDNN_LINEAR",
    "TORCH_RELEASE",
    "TORCH_VERSION",
    "Gate",
    "allow_in_files",
    "autocast_dtype",
    "autocast_enabled",
    "in_onnx_export",
    "is_compiling",
    "is_dynamo_compiling",
    "is_jit_tracing",
    "is_traced",
    "reached",
    "run_while_tracing",
]

F = TypeVar("F", bound=Callable[..., Any])

TORCH_VERSION: str = torch.__version__
"""As torch says it, for people to read."""

TORCH_RELEASE: tuple[int, ...] = Version(TORCH_VERSION).release
"""Compared instead of the version itself: Debian's 1.13 calls itself ``1.13.0a0``, which is below 1.13."""


def reached(goal: str, version: str) -> bool:
    """Whether *version* is *goal* or comes after it; a pre-release of *goal* does not."""
    return Version(goal) <= Version(version)


class Gate(NamedTuple):
    """Something that works from one torch on, told to users by ``doctor`` and ``docs/compatibility.md``.

    Attributes:
        since: the first minor release of torch that has it.
        what: what works from there on.
        before: what happens under an older torch.
    """

    since: tuple[int, int]
    what: str
    before: str

    @property
    def open(self) -> bool:
        """Whether the installed torch is new enough."""
        return self.since <= TORCH_RELEASE

    def __str__(self) -> str:
        if self.open:
            return f"{self.what}: yes"
        major, minor = self.since
        return f"{self.what}: needs torch >= {major}.{minor}, here is {TORCH_VERSION}; {self.before}"


GATES: dict[str, Gate] = {
    "transforms": Gate(
        (2, 0), "torch.func transforms through every call", "torch.func does not exist, torch.autograd works"
    ),
    "tracing": Gate(
        (2, 4),
        "legacy calls under torch.compile(fullgraph=True), which warn while they are traced",
        "torch refuses fullgraph=True; without it the graph breaks at the call, which warns when it runs",
    ),
    "onnx": Gate(
        (2, 8),
        "torch.onnx.export(dynamo=True) of every kind of call that ONNX can say",
        "that exporter finds no function for our operator; torch.onnx.export(dynamo=False) works",
    ),
    "files": Gate(
        (2, 4),
        "torch.load(weights_only=True) of descriptors, weights, states and batches",
        "torch refuses the file; it reads state_dicts, or all of ours with weights_only=False",
    ),
}
"""Everything whose behaviour depends on torch's version."""


ONEDNN_LINEAR: bool = TORCH_RELEASE >= (2, 1)
"""Whether oneDNN's linear operator serves alone: 2.0 has it, but refuses it without an activation to fuse."""


def _never() -> bool:
    return False


is_compiling: Callable[[], bool] = torch.compiler.is_compiling if GATES["tracing"].open else _never
"""Whether torch.compile is tracing; always False before 2.4, whose compilers cannot trace our calls whole."""

is_dynamo_compiling: Callable[[], bool] = (
    torch.compiler.is_dynamo_compiling if GATES["tracing"].open else _never
)
"""Whether torch.compile is tracing our Python code, where a symbolic size looks like a plain number."""


is_jit_tracing: Callable[[], bool] = torch.jit.is_tracing  # type: ignore[attr-defined]  # public, but not said so
"""Whether TorchScript's tracer records, as for ``torch.onnx.export(dynamo=False)``."""


def is_traced() -> bool:
    """Whether a compiler or TorchScript's tracer records: values may not be read, and no loop may run over T."""
    return is_compiling() or is_jit_tracing()


def run_while_tracing(function: F) -> F:
    """Makes torch.compile run *function*, which returns a constant, and leave it out of the graph."""
    # What torch.compiler.assume_constant_result() does, without importing the compiler for it (a second).
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001  # see above
    return function


# Torch's compiler would take torch's own answer to be False, whatever it is.
@run_while_tracing
def in_onnx_export() -> bool:
    """Whether ``torch.onnx.export`` records, by either exporter."""
    return torch.onnx.is_in_onnx_export()


def allow_in_files(classes: Iterable[Any]) -> None:
    """Lets ``torch.load(weights_only=True)`` build *classes*, which must be harmless whatever a file says."""
    if GATES["files"].open:
        torch.serialization.add_safe_globals(list(classes))


def _autocast_before_2_4(device_type: str) -> bool:
    on_cpu: bool = torch.is_autocast_cpu_enabled()
    return on_cpu if device_type == "cpu" else torch.is_autocast_enabled()


autocast_enabled: Callable[[str], bool] = (
    torch.is_autocast_enabled if TORCH_RELEASE >= (2, 4) else _autocast_before_2_4
)
"""Whether autocast is on for a type of device."""


def _autocast_dtype_before_2_4(device_type: str) -> torch.dtype:
    dtype: torch.dtype = (
        torch.get_autocast_cpu_dtype() if device_type == "cpu" else torch.get_autocast_gpu_dtype()
    )
    return dtype


autocast_dtype: Callable[[str], torch.dtype] = (
    torch.get_autocast_dtype if TORCH_RELEASE >= (2, 4) else _autocast_dtype_before_2_4
)
"""The dtype that autocast computes in on a type of device."""
