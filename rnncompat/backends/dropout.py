"""Dropout between layers, drawn alike for every backend."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["apply_dropout", "draw_dropout"]


def draw_dropout(like: Tensor, p: float) -> Tensor:
    """0 where a value is dropped and 1/(1-p) elsewhere, of the shape of *like* ``[T, B, D*P]``.

    The numbers come from torch's generator in padded time-major order whatever the backend runs on, so
    a seed gives the same bits everywhere, ``torch.nn``'s dense CPU modules included.
    """
    return F.dropout(torch.ones_like(like, requires_grad=False), p, training=True)


def apply_dropout(y: Tensor, scale: Tensor) -> Tensor:
    """Scales *y*; dropped values are selected away, not multiplied, so that even an infinity becomes zero."""
    return torch.where(scale > 0, y * scale, torch.zeros_like(y))
