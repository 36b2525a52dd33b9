"""Dropout between layers, drawn alike for every backend."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["dropout_between_layers"]


def dropout_between_layers(y: Tensor, p: float) -> Tensor:
    """Drops values of one layer's output ``[T, B, D*P]`` and scales the rest by 1/(1-p).

    The mask comes from torch's generator in padded time-major order whatever the backend runs on, so
    a seed gives the same bits everywhere, ``torch.nn``'s dense CPU modules included. Dropped values are
    selected away, not multiplied: with p = 1 even an infinity becomes zero.
    """
    scale = F.dropout(torch.ones_like(y, requires_grad=False), p, training=True)
    return torch.where(scale > 0, y * scale, torch.zeros_like(y))
