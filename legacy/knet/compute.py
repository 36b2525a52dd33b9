"""One call of the old layer style through the core: the old shapes in, ``rnn_forward`` inside, the old shapes out.

Old arrays have features first, ``(X, B, T)``, and states ``(H, B, L*D)``; the core has them last.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNState,
    RNNWeights,
    UnsupportedError,
    rnn_forward,
)
from rnncompat.versions import autocast_enabled

__all__ = ["LayerOutput", "check_input", "full_state", "run_layer"]


class LayerOutput(NamedTuple):
    """``y (H*D[, B[, T]])``, the final ``h (H, B, L*D)``, and ``c`` alike (None unless LSTM)."""

    y: Tensor
    h: Tensor
    c: Tensor | None


def run_layer(
    descriptor: RNNDescriptor,
    w: Tensor,
    x: Tensor,
    hx: Tensor | None,
    cx: Tensor | None,
    batch_sizes: Any,
    *,
    training: bool,
    algorithm: str = "auto",
) -> LayerOutput:
    """Runs a checked *x* from the states given (None is zero), packed if *batch_sizes* are given."""
    if autocast_enabled(w.device.type):  # the old interface knew none
        with torch.autocast(w.device.type, enabled=False):
            return run_layer(descriptor, w, x, hx, cx, batch_sizes, training=training, algorithm=algorithm)
    sizes = None if batch_sizes is None else read_sizes(batch_sizes, x.numel() // descriptor.input_size)
    steps = x.reshape(*x.shape, *(1,) * (3 - x.dim())).permute(2, 1, 0)  # [T, B, X]
    batch = steps.shape[1] if sizes is None else sizes[0]
    options: dict[str, Any] = {
        "state": _state(descriptor, hx, cx, batch, x),
        "training": training,
        "algorithm": algorithm,
    }
    weights = RNNWeights(descriptor, w.flatten())
    if sizes is None:
        rows, after = rnn_forward(descriptor, weights, steps, **options)
    else:
        packed = PackedSequence(steps.reshape(-1, descriptor.input_size), torch.tensor(sizes, device="cpu"))
        output, after = rnn_forward(descriptor, weights, packed, **options)
        rows = output.data  # [sum(B), H*D]
    y = rows.reshape(*steps.shape[:2], descriptor.output_size).permute(2, 1, 0)  # [H*D, B, T]
    return LayerOutput(
        y.reshape(descriptor.output_size, *x.shape[1:]).contiguous(),
        after.h.permute(2, 1, 0).contiguous(),
        None if after.c is None else after.c.permute(2, 1, 0).contiguous(),
    )


def check_input(descriptor: RNNDescriptor, x: object) -> None:
    """Refuses what is no array of 1 to 3 dimensions with the features first."""
    if not isinstance(x, Tensor):
        raise InvalidTypeError(f"x is a {type(x).__name__}; expected a tensor.")
    if x.dim() not in (1, 2, 3) or x.shape[0] != descriptor.input_size:
        raise InvalidValueError(
            f"x is of shape {list(x.shape)}; expected (X,), (X, B) or (X, B, T) with X = "
            f"{descriptor.input_size}: features first."
        )


def read_sizes(sizes: Any, columns: int) -> list[int]:
    """The batch size of each step, checked against the number of columns of x."""
    read = sizes.tolist() if hasattr(sizes, "tolist") else sizes
    if not isinstance(read, (list, tuple)) or not all(type(size) is int for size in read):
        raise InvalidTypeError(f"batchSizes is {read!r}; expected a list of whole numbers.")
    falling = all(before >= after for before, after in pairwise(read))
    if not read or read[-1] < 1 or not falling or sum(read) != columns:
        raise InvalidValueError(
            f"batchSizes is {list(read)} for {columns} columns of x; expected the batch size of each step, at "
            "least 1, never growing, which together are the number of columns."
        )
    return list(read)


def _state(
    descriptor: RNNDescriptor, hx: Tensor | None, cx: Tensor | None, batch: int, like: Tensor
) -> RNNState | None:
    """The state as the core takes it, or None for zeros."""
    if cx is not None and not descriptor.has_cell_state:
        raise UnsupportedError(
            f"c is given, but the cell is {descriptor.cell.value!r}, which has no cell state. Leave it at None."
        )
    if hx is None and cx is None:
        return None
    zeros = like.new_zeros(descriptor.hidden_size, batch, descriptor.num_pseudo_layers)
    h = full_state(descriptor, "h", zeros if hx is None else hx, batch)
    c = full_state(descriptor, "c", zeros if cx is None else cx, batch)
    return RNNState(h.permute(2, 1, 0), c.permute(2, 1, 0) if descriptor.has_cell_state else None)


def full_state(descriptor: RNNDescriptor, name: str, state: Tensor, batch: int) -> Tensor:
    """A state of 1 to 3 dimensions as ``(H, B, L*D)``: dimensions of size 1 at the end may be left out."""
    expected = (descriptor.hidden_size, batch, descriptor.num_pseudo_layers)
    if not isinstance(state, Tensor):
        raise InvalidTypeError(f"{name} is a {type(state).__name__}; expected a tensor {expected} or None.")
    if (*state.shape, *(1,) * (3 - state.dim())) != expected:
        raise InvalidValueError(
            f"{name} is of shape {list(state.shape)}; expected (H, B, L*D) = {expected}; "
            "dimensions of size 1 at the end may be left out."
        )
    return state.reshape(expected)
