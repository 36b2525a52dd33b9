"""Autocast, by one rule for all cells: input, weights and state go to its dtype, and so does the result."""

from __future__ import annotations

import torch
from torch import Tensor

from .state import RNNState, StateLike
from .versions import autocast_dtype, autocast_enabled
from .weights import LayerWeights

__all__ = ["cast_for_autocast"]

Layers = tuple[LayerWeights, ...]


def cast_for_autocast(x: Tensor, layers: Layers, state: StateLike) -> tuple[Tensor, Layers, StateLike]:
    """The arguments as a call under autocast takes them: unchanged where it is off, float64 unchanged always.

    Args:
        x: ``[T, B, I]``.
        layers: one entry a pseudo-layer.
        state: as the caller gave it.
    """
    device = x.device.type
    if not autocast_enabled(device):
        return x, layers, state
    dtype = autocast_dtype(device)
    weights = tuple(LayerWeights(*[_cast(t, dtype) for t in layer]) for layer in layers)  # type: ignore[arg-type]  # weight_hh is set
    return _cast(x, dtype), weights, _cast_state(state, dtype)  # type: ignore[return-value]  # x is set


def _cast(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if not isinstance(tensor, Tensor) or tensor.dtype is torch.float64 or not tensor.is_floating_point():
        return tensor
    return tensor.to(dtype)


def _cast_state(state: StateLike, dtype: torch.dtype) -> StateLike:
    if isinstance(state, Tensor):
        return _cast(state, dtype)
    if not isinstance(state, tuple) or len(state) != 2:
        return state  # none, or something that the check of states refuses
    return RNNState(*[_cast(part, dtype) for part in state])  # type: ignore[arg-type]  # as above
