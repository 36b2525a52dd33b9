"""What cuDNN cannot do, asked before it is called: its own messages say little or nothing.

The rules were measured on cuDNN 9.0 to 9.28; each names its reason in words.
"""

from __future__ import annotations

from ctypes import c_float

import torch

from ...descriptor import Bias, RNNDescriptor
from ..base import Algorithm
from .library import version, words

__all__ = ["MOST_STEPS", "takes_empty_rows", "why_not"]

MOST_STEPS = 65535
"""What one call takes; more run in stretches."""

_WIDEST = {  # hidden size up to which a persistent kernel exists, by gates
    Algorithm.PERSIST_STATIC: {1: 2048, 3: 1536, 4: 1536},
    Algorithm.PERSIST_STATIC_SMALL_H: {1: 256, 3: 128, 4: 128},  # as its backward pass has it
}
_SINCE = {torch.bfloat16: 91300}
"""The cuDNN that a dtype came with."""

_EMPTY_ROWS_SINCE = 90200
_MOST_FEATURES = 2**31 - 1


def why_not(d: RNNDescriptor, dtype: torch.dtype, algorithm: Algorithm, dense: bool) -> str | None:
    """None if cuDNN can run this, else the reason why not.

    Args:
        d: what is computed.
        dtype: of the data.
        algorithm: never ``"auto"``.
        dense: whether every row has T steps.
    """
    reason = _never(d, dtype)
    if reason is not None or algorithm is Algorithm.STANDARD:
        return reason
    return _not_persistent(d, dtype, algorithm, dense) or _too_wide(d, algorithm)


def takes_empty_rows() -> bool:
    """Whether padded rows may be without a step, which cuDNN 9.1 refuses."""
    return version() >= _EMPTY_ROWS_SINCE or not version()


def _never(d: RNNDescriptor, dtype: torch.dtype) -> str | None:
    """What no algorithm can."""
    needed = _SINCE.get(dtype, 0)
    if 0 < version() < needed:
        return f"cuDNN {words(version())} has no {_name(dtype)}, which came with {words(needed)}"
    if dtype is torch.float64 and any(c_float(bound).value != bound for bound in d.cell_clip or ()):
        return f"cuDNN keeps the bounds of a clip in float32, where {d.cell_clip} would be rounded"
    if d.input_size > _MOST_FEATURES:
        return f"cuDNN takes up to {_MOST_FEATURES} features, and input_size is {d.input_size}"
    return None


def _not_persistent(d: RNNDescriptor, dtype: torch.dtype, algorithm: Algorithm, dense: bool) -> str | None:
    name, dynamic = algorithm.value, algorithm is Algorithm.PERSIST_DYNAMIC
    found = (
        (not dense, f"cuDNN's {name!r} has no lengths"),
        (d.bias is not Bias.DOUBLE, f"cuDNN's {name!r} has double bias only"),
        (d.proj_size > 0, f"cuDNN's {name!r} has no projection"),
        (dtype is torch.float64 and not dynamic, f"cuDNN's {name!r} has no float64"),
        (dtype is torch.bfloat16, f"cuDNN's {name!r} has no bfloat16 and would run another without a word"),
        (dynamic, f"{name!r} is not built here yet"),
    )
    return next((text for applies, text in found if applies), None)


def _too_wide(d: RNNDescriptor, algorithm: Algorithm) -> str | None:
    widest = _WIDEST[algorithm][d.gates]
    if d.hidden_size <= widest:
        return None
    return f"cuDNN's {algorithm.value!r} takes H up to {widest} for this cell, and H is {d.hidden_size}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
