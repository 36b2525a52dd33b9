"""Blocks of equal entries: how they are written, and how they are summed.

Tensors ``[N, C, *sizes]`` in, new memory out. On a GPU they are torch's own kernels, where these are right, and in
one operation, for a call is dearer there than the work; autograd knows it, as it knows the two plain forms. Which way a CPU takes is a matter of speed only, as ``benchmarks/upsample.py``
measured it, and never changes a forward value. No sum uses atomics: the same call gives the same bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = [
    "repeat_blocks",
    "repeat_on_gpu",
    "repeat_plainly",
    "repeat_recorded",
    "sum_blocks",
    "sum_on_gpu",
    "sum_plainly",
]

Factors = tuple[int, ...]

# Where one way becomes faster than another, on the CPU if nothing else is said.
_ENTRY_BLOCK = 16
"""Bytes of a repeated entry up to which strided copies beat one expanded copy."""
_ROW_BLOCK = 256
"""Bytes of a repeated row up to which they do."""
_WIDE_ROW = 64
"""Entries of a row from which torch's own kernel is the fastest."""
_FEW = 7
"""Addends up to which adding slices beats a reduction."""
_SMALL = 2**15
"""Entries of y up to which a derivative in Python costs more than any way saves."""
_PIECE = 2**18
"""Entries that a thread sums at once: temporaries stay in its cache instead of being as large as y."""
_MANY_CHANNELS = 32
"""Channels, innermost in memory, from which pooling is the fastest."""
_POOLED = 16
"""Entries of a block up to which it is."""
_EXACT = 2**23
"""Entries of an axis up to which torch's upsampling can be right: its float32 index holds no more."""
_MOST = 2**31
"""Entries from which some of torch's kernels on a GPU count wrongly."""

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_HALF = (torch.float16, torch.bfloat16)


def repeat_blocks(x: Tensor, factors: Factors) -> Tensor:
    """Each entry of *x* ``[N, C, *sizes]`` as a block of *factors*; channels_last memory stays so."""
    channels_last = _is_channels_last(x)
    if x.is_cpu and _torch_is_fast(x, factors, channels_last) and _torch_is_right(x, factors):
        return F.interpolate(x, scale_factor=[float(f) for f in factors], mode="nearest")
    repeat = _repeat_axes if x.is_cpu else _repeat_at_once
    if channels_last:
        return repeat(x.movedim(1, -1), 1, factors).movedim(-1, 1)
    return repeat(x, 2, factors)


def repeat_recorded(x: Tensor, factors: Factors) -> Tensor | None:
    """As :func:`repeat_blocks` on the CPU, recorded for autograd by torch's kernel; None where ours are faster."""
    if x.dtype not in (torch.float32, torch.float64) or not _torch_is_right(x, factors):
        return None
    block = math.prod(factors)
    if x.numel() * block > _SMALL and not (block <= 4 and _is_channels_last(x)):
        return None
    repeated: Tensor = _REPEAT[len(factors)](x, None, [float(f) for f in factors])
    return repeated


def repeat_plainly(x: Tensor, factors: Factors) -> Tensor:
    """The same in one expanded copy, always contiguous, which autograd, transforms and compilers know."""
    return _repeat_at_once(x, 2, factors)


def _repeat_at_once(x: Tensor, first: int, factors: Factors) -> Tensor:
    last = first + len(factors)
    before, sizes, after = x.shape[:first], x.shape[first:last], x.shape[last:]
    thin = [n for size in sizes for n in (size, 1)]
    thick = [n for pair in zip(sizes, factors, strict=True) for n in pair]
    blocks = x.reshape(*before, *thin, *after).expand(*before, *thick, *after)
    copied = blocks.clone(memory_format=torch.contiguous_format)
    return copied.reshape(*before, *_times(sizes, factors), *after)


def sum_blocks(y: Tensor, factors: Factors) -> Tensor:
    """The sum of each block of *y*, in its dtype; half types are summed in float32 and rounded once."""
    if math.prod(factors) == 1:
        return y.clone()
    return _sum_on_cpu(y, factors) if y.is_cpu else sum_plainly(y, factors)


def sum_plainly(y: Tensor, factors: Factors) -> Tensor:
    """The same as one reduction, which autograd, transforms and compilers know."""
    lead, sizes = y.shape[:2], _divided(y.shape[2:], factors)
    split = [n for pair in zip(sizes, factors, strict=True) for n in pair]
    axes = [3 + 2 * i for i in range(len(factors))]
    return y.reshape(*lead, *split).sum(axes, dtype=_dtype_of_sum(y, factors)).to(y.dtype)


_DTYPES_ON_GPU = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_REPEAT: dict[int, Any] = {n: getattr(torch._C._nn, f"upsample_nearest{n}d") for n in (1, 2, 3)}
_SUM: dict[int, Any] = {
    n: getattr(torch.ops.aten, f"upsample_nearest{n}d_backward").default for n in (1, 2, 3)
}


def repeat_on_gpu(x: Tensor, factors: Factors) -> Tensor | None:
    """As :func:`repeat_blocks`, recorded for autograd; None where torch's kernel does not serve or is wrong."""
    scales = _scales_on_gpu(x.shape, factors, x.dtype)
    if scales is None:
        return None
    repeated: Tensor = _REPEAT[len(factors)](x, None, scales)
    return repeated


@lru_cache(maxsize=1024)  # a call is as long as its Python here: 1 of 4 µs
def _scales_on_gpu(shape: torch.Size, factors: Factors, dtype: torch.dtype) -> list[float] | None:
    right = _served_on_gpu(shape, dtype) and _index_is_right(tuple(shape[2:]), factors)
    return [float(f) for f in factors] if right else None


@lru_cache(maxsize=1024)
def _served_on_gpu(shape: torch.Size, dtype: torch.dtype) -> bool:
    """Whether torch's kernels on a GPU take such a tensor: they sum by gathering, half types in float32."""
    return dtype in _DTYPES_ON_GPU and 0 < shape.numel() < _MOST


def sum_on_gpu(y: Tensor, factors: Factors) -> Tensor | None:
    """As :func:`sum_blocks`, recorded for autograd; None where torch's kernel does not serve.

    Going backward, torch's index is right for every factor.
    """
    if not _served_on_gpu(y.shape, y.dtype):
        return None
    sizes = [*y.shape[:2], *_divided(y.shape[2:], factors)]
    summed: Tensor = _SUM[len(factors)](y, list(y.shape[2:]), sizes, *(float(f) for f in factors))
    return summed


def _times(sizes: Sequence[int], factors: Factors) -> list[int]:
    return [size * factor for size, factor in zip(sizes, factors, strict=True)]


def _divided(sizes: Sequence[int], factors: Factors) -> list[int]:
    return [size // factor for size, factor in zip(sizes, factors, strict=True)]


def _is_channels_last(t: Tensor) -> bool:
    layout = _CHANNELS_LAST.get(t.dim())
    return layout is not None and not t.is_contiguous() and t.is_contiguous(memory_format=layout)


def _torch_is_fast(x: Tensor, factors: Factors, channels_last: bool) -> bool:
    """Whether torch's own kernel beats copies: on wide rows, and where small blocks hold all channels."""
    if factors[-1] == 1:
        return False  # copies of whole rows
    if channels_last:
        return math.prod(factors) <= 4 and x.dtype in (torch.float32, torch.float64, torch.bfloat16)
    return x.shape[-1] >= _WIDE_ROW and x.dtype in (torch.float32, torch.float64)


def _torch_is_right(x: Tensor, factors: Factors) -> bool:
    """Whether torch's kernel gives the right entries: it takes entry i from ``floor(i * (1 / factor))``.

    In float32 that needs a reciprocal that was not rounded down: with a factor of 41 the first entry comes 42 times.
    """
    return x.numel() > 0 and _index_is_right(tuple(x.shape[2:]), factors)


@lru_cache(maxsize=1024)
def _index_is_right(sizes: Factors, factors: Factors) -> bool:
    return max(_times(sizes, factors)) <= _EXACT and all(_reciprocal(f) * Fraction(f) >= 1 for f in factors)


def _reciprocal(factor: int) -> Fraction:
    """What torch multiplies by: 1 / factor in float32."""
    (rounded,) = struct.unpack("f", struct.pack("f", 1 / factor))
    return Fraction(rounded)


def _repeat_axes(x: Tensor, first: int, factors: Factors) -> Tensor:
    """Axis by axis, the innermost first: it is the dearest an entry, and x is smallest there."""
    if math.prod(factors) == 1:
        return x.clone(memory_format=torch.contiguous_format)
    for axis, factor in reversed(list(enumerate(factors, first))):
        if factor > 1:
            x = _repeat_axis(x, axis, factor)
    return x


def _repeat_axis(x: Tensor, axis: int, factor: int) -> Tensor:
    after = axis + 1
    short = _ENTRY_BLOCK if after == x.dim() else _ROW_BLOCK
    if factor * math.prod(x.shape[after:]) * x.element_size() <= short:
        blocks = x.new_empty(*x.shape[:after], factor, *x.shape[after:])
        for k in range(factor):
            blocks.select(after, k).copy_(x)
    else:
        expanded = x.unsqueeze(after).expand(*x.shape[:after], factor, *x.shape[after:])
        blocks = expanded.clone(memory_format=torch.contiguous_format)
    return blocks.flatten(axis, after)


def _sum_on_cpu(y: Tensor, factors: Factors) -> Tensor:
    if not _is_channels_last(y):
        return _sum_in_pieces(y, 2, factors)
    if _pooling_is_fast(y, factors):
        return _sum_by_pooling(y, factors)
    return _sum_in_pieces(y.movedim(1, -1), 1, factors).movedim(-1, 1)


def _pooling_is_fast(y: Tensor, factors: Factors) -> bool:
    """Whether a piece of memory that holds channels is long enough for pooling's kernel."""
    return (
        y.dim() == 4
        and y.shape[1] >= _MANY_CHANNELS
        and math.prod(factors) <= _POOLED
        and y.dtype in (torch.float32, torch.float64, torch.bfloat16)  # not every torch pools float16
        and y.numel() > 0
    )


def _sum_in_pieces(y: Tensor, first: int, factors: Factors) -> Tensor:
    """A piece of the blocks at a time, one axis after the other from *first* on."""
    last = first + len(factors)
    sizes = _divided(y.shape[first:last], factors)
    shape = [*y.shape[:first], *sizes, *y.shape[last:]]
    inner = [n for pair in zip(sizes[1:], factors[1:], strict=True) for n in pair]
    rows = math.prod(shape[: first + 1])
    blocks = y.reshape(rows, factors[0], *inner, *y.shape[last:])  # [rows, f1, n2, f2, ..., trailing]
    work = _dtype_of_sum(y, factors)
    per_piece = max(1, _PIECE * torch.get_num_threads() // max(1, math.prod(blocks.shape[1:])))
    if rows <= per_piece:
        return _sum_axes(blocks, len(factors), work).to(y.dtype).reshape(shape)
    sums = y.new_empty(shape)
    targets = sums.view(rows, *shape[first + 1 :])
    for piece, target in zip(torch.split(blocks, per_piece), torch.split(targets, per_piece), strict=True):
        target.copy_(_sum_axes(piece, len(factors), work))
    return sums


def _sum_axes(blocks: Tensor, count: int, work: torch.dtype) -> Tensor:
    sums = blocks.to(work)
    for axis in range(1, count + 1):  # each sum takes its axis away, so the next factor is one further on
        sums = _sum_axis(sums, axis)
    return sums


def _sum_axis(blocks: Tensor, axis: int) -> Tensor:
    if blocks.shape[axis] > _FEW:
        return blocks.sum(axis, dtype=blocks.dtype)
    first, *rest = blocks.unbind(axis)
    if not rest:
        return first
    total = first + rest[0]
    for addend in rest[1:]:
        total += addend
    return total


def _dtype_of_sum(y: Tensor, factors: Factors) -> torch.dtype:
    """Two addends of a half type are rounded once anyway."""
    return torch.float32 if y.dtype in _HALF and math.prod(factors) > 2 else y.dtype


def _sum_by_pooling(y: Tensor, factors: Factors) -> Tensor:
    """Average pooling that divides by 1: it reads y once, and sums half types in float32."""
    return F.avg_pool2d(y, factors, divisor_override=1)
