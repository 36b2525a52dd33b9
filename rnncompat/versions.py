"""What the installed torch can do: the only place that asks for its version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import torch
from packaging.version import Version

__all__ = [
    "GATES",
    "TORCH_RELEASE",
    "TORCH_VERSION",
    "Gate",
    "allow_in_files",
    "autocast_enabled",
    "is_compiling",
    "run_while_tracing",
    "traces_transform_question",
]

F = TypeVar("F", bound=Callable[..., Any])

TORCH_VERSION: str = torch.__version__
"""As torch says it, for people to read."""

TORCH_RELEASE: tuple[int, ...] = Version(TORCH_VERSION).release
"""Compared instead of the version itself: Debian's 1.13 calls itself ``1.13.0a0``, which is below 1.13."""


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
    "files": Gate(
        (2, 4),
        "torch.load(weights_only=True) of descriptors, weights, states and batches",
        "torch refuses the file; it reads state_dicts, or all of ours with weights_only=False",
    ),
    "transform_question": Gate(
        (2, 5),
        "fused kernels inside torch.compile",
        "compiled calls run on plain operations, with the same numbers",
    ),
}
"""Everything whose behaviour depends on torch's version."""


def _never() -> bool:
    return False


is_compiling: Callable[[], bool] = torch.compiler.is_compiling if GATES["tracing"].open else _never
"""Whether torch.compile is tracing; always False before 2.4, whose compilers cannot trace our calls whole."""


def run_while_tracing(function: F) -> F:
    """Makes torch.compile run *function*, which returns a constant, and leave it out of the graph."""
    if not GATES["tracing"].open:
        return function
    marked: F = torch.compiler.assume_constant_result(function)  # type: ignore[no-untyped-call]  # torch's own gap
    return marked


_TRACES_QUESTION = GATES["transform_question"].open  # a plain bool: the compilers meant here trace no more


def traces_transform_question() -> bool:
    """Whether a compiler, if one runs, can trace the question if a torch.func transform is running."""
    return _TRACES_QUESTION or not is_compiling()


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
