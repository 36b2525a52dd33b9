"""Dropout between layers, drawn once a call and alike for every backend."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..descriptor import RNNDescriptor
from .precision import dtype_of_work

__all__ = ["apply_dropout", "draw_dropout"]


def draw_dropout(d: RNNDescriptor, x: Tensor) -> tuple[Tensor, ...]:
    """For each boundary between layers ``[T, B, D*P]``: 0 where a value is dropped, 1/(1-p) elsewhere.

    The numbers come from torch's generator in padded time-major order whatever the backend runs on, so
    a seed gives the same bits everywhere, ``torch.nn``'s dense CPU modules included.
    """
    if not d.dropout:
        return ()
    ones = torch.ones(*x.shape[:2], d.output_size, dtype=dtype_of_work(x), device=x.device)
    return tuple(F.dropout(ones, d.dropout, training=True) for _ in range(d.num_layers - 1))


def apply_dropout(y: Tensor, scale: Tensor) -> Tensor:
    """Scales *y*; dropped values are selected away, not multiplied, so that even an infinity becomes zero."""
    return torch.where(scale > 0, y * scale, torch.zeros_like(y))
