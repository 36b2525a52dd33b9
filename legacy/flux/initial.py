"""Flux's initial values."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from typing_extensions import deprecated

from ..warn import warn

__all__ = ["Init", "glorot_uniform", "uniform"]

Init = Callable[..., Tensor]
"""``init(*sizes) -> Tensor``."""


@deprecated(
    "legacy.flux.glorot_uniform() is deprecated since 0.1 and will be removed in 1.0; "
    "use torch.nn.init.xavier_uniform_(). See docs/migrating.md#fluxglorot_uniform",
    category=None,
)
def glorot_uniform(*sizes: int) -> Tensor:
    """Random numbers, uniform in ±sqrt(6 / (fan_in + fan_out)), of torch's default dtype.

    Args:
        *sizes: ``(out, in)``, or ``(n,)``, whose fans are 1 and n.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     legacy.flux.glorot_uniform(5, 3).shape
        torch.Size([5, 3])
    """
    warn("flux.glorot_uniform")
    return uniform(*sizes)


def uniform(*sizes: int) -> Tensor:
    """As :func:`glorot_uniform`, without the warning."""
    fans = sum(sizes) if len(sizes) > 1 else 1 + sizes[0]
    return torch.empty(*sizes).uniform_(-math.sqrt(6 / fans), math.sqrt(6 / fans))
