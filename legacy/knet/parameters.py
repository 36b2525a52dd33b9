"""The parameters of the old layer style: initial values, and each gate's part of the flat ``w``.

``w`` has the core's flat layout with double bias: in it the old matrices, one a gate and transposed, lie one after
the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from rnncompat import InvalidTypeError, InvalidValueError, RNNDescriptor, Slot, layout_of

__all__ = ["Initial", "all_parameters", "draw_parameters", "parameter", "xavier"]

Initial = Callable[[torch.dtype, tuple[int, ...]], Tensor]
"""Makes the first values of one matrix ``(in, H)`` or bias ``(H,)``, given the dtype and that size."""

FORGET = (2, 6)
"""The ids of an LSTM's forget biases, on the input side and on the recurrent side."""


def xavier(dtype: torch.dtype, size: tuple[int, ...]) -> Tensor:
    """Uniform in ±sqrt(6 / (in + H)), by torch's generator."""
    bound = math.sqrt(6 / sum(size))
    return torch.empty(size, dtype=dtype, device="cpu").uniform_(-bound, bound)


def zeros(dtype: torch.dtype, size: tuple[int, ...]) -> Tensor:
    """Zeros."""
    return torch.zeros(size, dtype=dtype, device="cpu")


def ones(dtype: torch.dtype, size: tuple[int, ...]) -> Tensor:
    """Ones."""
    return torch.ones(size, dtype=dtype, device="cpu")


def draw_parameters(
    descriptor: RNNDescriptor,
    dtype: torch.dtype,
    winit: Initial | None = None,
    binit: Initial | None = None,
    finit: Initial | None = None,
) -> Tensor:
    """First values of ``w``, ``(1, 1, n)``, drawn on the CPU in the order of ``rnnparams``; forget biases last."""
    w = torch.empty(1, 1, layout_of(descriptor).size, dtype=dtype, device="cpu")
    for view in all_parameters(descriptor, w):
        if view is not None:
            name, initial = ("winit", winit or xavier) if view.dim() == 2 else ("binit", binit or zeros)
            view.copy_(_drawn(name, initial, view))
    if descriptor.has_cell_state:
        for layer in range(1, descriptor.num_pseudo_layers + 1):
            for view in (parameter(descriptor, w, layer, gate, 2) for gate in FORGET):
                assert view is not None  # biases always exist
                view.copy_(_drawn("finit", finit or ones, view))
    return w


def _drawn(name: str, initial: Initial, like: Tensor) -> Tensor:
    values = initial(like.dtype, tuple(like.shape))
    if not isinstance(values, Tensor) or values.shape != like.shape:
        got = f"shape {list(values.shape)}" if isinstance(values, Tensor) else f"a {type(values).__name__}"
        raise InvalidValueError(f"{name} gave {got}; expected a tensor of shape {list(like.shape)}.")
    return values


def all_parameters(descriptor: RNNDescriptor, w: Tensor) -> Iterator[Tensor | None]:
    """Every matrix by (layer, id), then every bias in the same order; None where skip input has no matrix."""
    for part in (1, 2):
        for layer in range(1, descriptor.num_pseudo_layers + 1):
            for gate in range(1, 2 * descriptor.gates + 1):
                yield parameter(descriptor, w, layer, gate, part)


def parameter(descriptor: RNNDescriptor, w: Tensor, layer: int, gate: int, part: int) -> Tensor | None:
    """The live view of one gate's matrix ``(in, H)`` (*part* 1) or bias ``(H,)`` (*part* 2); all count from 1."""
    for name, value, limit in (
        ("layer", layer, descriptor.num_pseudo_layers),
        ("id", gate, 2 * descriptor.gates),
        ("par", part, 2),
    ):
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidTypeError(f"{name} is a {type(value).__name__}; expected a whole number.")
        if not 1 <= value <= limit:
            raise InvalidValueError(f"{name} is {value}; expected a whole number from 1 to {limit}.")
    kind = f"{('weight', 'bias')[part - 1]}_{'ih' if gate <= descriptor.gates else 'hh'}"
    slot = _slots(descriptor)[layer - 1].get(kind)
    if slot is None:
        return None
    size = slot.size // descriptor.gates
    start = slot.offset + (gate - 1) % descriptor.gates * size
    view = w.flatten()[start : start + size]
    return view if part == 2 else view.view(descriptor.hidden_size, -1).t()


def _slots(descriptor: RNNDescriptor) -> list[dict[str, Slot]]:
    layout = layout_of(descriptor)
    return layout.by_pseudo_layer(layout.slots)
