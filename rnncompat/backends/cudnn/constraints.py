"""What cuDNN cannot do, asked before it is called: its own messages say little or nothing.

The rules were measured on cuDNN 9.19; each names its reason in words.
"""

from __future__ import annotations

import struct

import torch

from ...descriptor import Bias, RNNDescriptor
from ..base import Algorithm

__all__ = ["MOST_STEPS", "why_not"]

MOST_STEPS = 65535
"""What one call takes; more run in stretches."""

_WIDEST = {  # hidden size up to which a persistent kernel exists, by gates
    Algorithm.PERSIST_STATIC: {1: 2048, 3: 1536, 4: 1536},
    Algorithm.PERSIST_STATIC_SMALL_H: {1: 256, 3: 128, 4: 128},  # as its backward pass has it
}


def why_not(d: RNNDescriptor, dtype: torch.dtype, algorithm: Algorithm, dense: bool) -> str | None:
    """None if cuDNN can run this, else the reason why not.

    Args:
        d: what is computed.
        dtype: of the data.
        algorithm: never ``"auto"``.
        dense: whether every row has T steps.
    """
    if dtype is torch.float64 and any(_rounded(bound) != bound for bound in d.cell_clip or ()):
        return f"cuDNN keeps the bounds of a clip in float32, where {d.cell_clip} would be rounded"
    if algorithm is Algorithm.STANDARD:
        return None
    name = algorithm.value
    found = (
        (algorithm is Algorithm.PERSIST_DYNAMIC, f"{name!r} is not built here yet"),
        (not dense, f"cuDNN's {name!r} has no lengths"),
        (d.bias is not Bias.DOUBLE, f"cuDNN's {name!r} has double bias only"),
        (d.proj_size > 0, f"cuDNN's {name!r} has no projection"),
        (dtype is torch.float64, f"cuDNN's {name!r} has no float64"),
        (dtype is torch.bfloat16, f"cuDNN's {name!r} has no bfloat16 and would run another without a word"),
    )
    reason = next((text for applies, text in found if applies), None)
    return reason or _too_wide(d, algorithm)


def _rounded(bound: float) -> float:
    """The float32 nearest to *bound*."""
    (value,) = struct.unpack("f", struct.pack("f", bound))
    return float(value)


def _too_wide(d: RNNDescriptor, algorithm: Algorithm) -> str | None:
    widest = _WIDEST[algorithm][d.gates]
    if d.hidden_size <= widest:
        return None
    return f"cuDNN's {algorithm.value!r} takes H up to {widest} for this cell, and H is {d.hidden_size}"
