"""Which algorithm and which arithmetic a request runs by."""

from __future__ import annotations

import torch

from ..base import Algorithm, Request
from .enums import MathType

__all__ = ["algorithm_of", "math_of"]


def algorithm_of(request: Request) -> Algorithm:
    """The one asked for, or the standard one."""
    return Algorithm.STANDARD if request.algorithm is Algorithm.AUTO else request.algorithm


def math_of(dtype: torch.dtype) -> MathType:
    """As torch's own switch says: it is on for cuDNN unless the user turns it off."""
    if dtype is torch.float32:
        return MathType.DEFAULT if torch.backends.cudnn.allow_tf32 else MathType.FMA
    return MathType.DEFAULT if dtype is torch.float64 else MathType.TENSOR_OP
