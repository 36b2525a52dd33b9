"""Upsampling by whole numbers: each entry becomes a block, and the gradient is the sum of each block.

The two are each other's derivative, so both can be differentiated as often as asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .backends.blocks import (
    repeat_blocks,
    repeat_on_gpu,
    repeat_plainly,
    repeat_recorded,
    sum_blocks,
    sum_on_gpu,
    sum_plainly,
)
from .errors import InvalidTypeError, bad_shape, bad_type, bad_value, check_whole
from .transforms import batched, transforms_active
from .versions import is_traced

__all__ = ["Upsample", "block_sum", "upsample_nearest"]

Factors = tuple[int, ...]


def upsample_nearest(x: Tensor, scale_factor: int | Sequence[int]) -> Tensor:
    """Repeats every entry of *x* a whole number of times along each spatial axis.

    Unlike ``F.interpolate(mode="nearest")``, which computes in float32 where an entry comes from, it is right for
    every factor. The gradient is :func:`block_sum`: no atomics, the same bits each time, differentiable again.

    Args:
        x: ``[N, C, L]``, ``[N, C, H, W]`` or ``[N, C, D, H, W]``, of any dtype, sizes of 0 included. There is no
            form without a batch, which would be ambiguous: pass ``x[None]``.
        scale_factor: a whole number >= 1 for all spatial axes, or one for each.

    Returns:
        A new tensor of x's dtype, each spatial size multiplied; autocast does not change that. It is contiguous,
        or channels_last if x is and no compiler or transform is running. It is a copy even where every factor is 1.

    Raises:
        InvalidTypeError: x is no tensor, or a factor no whole number (2.0 and True are none).
        InvalidValueError: x has another number of axes, a factor is below 1, or there is not one an axis.

    Example:
        >>> import torch, rnncompat
        >>> rnncompat.upsample_nearest(torch.tensor([[[1, 2], [3, 4]]])[None], (2, 3))
        tensor([[[[1, 1, 1, 2, 2, 2],
                  [1, 1, 1, 2, 2, 2],
                  [3, 3, 3, 4, 4, 4],
                  [3, 3, 3, 4, 4, 4]]]])
    """
    _check_tensor("x", x)
    return _upsample(x, _factors_of("x", x, scale_factor))


def block_sum(y: Tensor, scale_factor: int | Sequence[int]) -> Tensor:
    """Sums the blocks that :func:`upsample_nearest` makes: its gradient, as a function.

    Args:
        y: ``[N, C, L]``, ``[N, C, H, W]`` or ``[N, C, D, H, W]`` of numbers; each spatial size divisible by its
            factor.
        scale_factor: a whole number >= 1 for all spatial axes, or one for each.

    Returns:
        A new tensor of y's dtype, each spatial size divided. Blocks of float16 and bfloat16 are summed in float32
        and rounded once; whole numbers wrap around as torch's do.

    Raises:
        InvalidTypeError: y is no tensor of numbers, or a factor no whole number.
        InvalidValueError: y has another number of axes, a factor is below 1 or divides no whole number of times,
            or there is not one an axis.

    Example:
        >>> import torch, rnncompat
        >>> rnncompat.block_sum(torch.arange(6).reshape(1, 1, 6), 3)
        tensor([[[ 3, 12]]])
    """
    _check_tensor("y", y)
    if y.dtype is torch.bool:
        raise InvalidTypeError("y has dtype torch.bool; expected numbers to add. Write `y.long()` to count.")
    factors = _factors_of("y", y, scale_factor)
    for axis, factor in enumerate(factors, 2):
        if y.shape[axis] % factor:
            raise bad_shape("y", y, f"with axis {axis} divisible by its factor {factor}")
    return _block_sum(y, factors)


class Upsample(nn.Module):
    """:func:`upsample_nearest` as a module, without parameters.

    Args:
        scale_factor: a whole number >= 1 for all spatial axes, or one for each.

    Raises:
        InvalidTypeError: a factor is no whole number.
        InvalidValueError: a factor is below 1, or there are not 1 to 3.

    Example:
        >>> import torch, rnncompat
        >>> rnncompat.Upsample(scale_factor=2)(torch.zeros(4, 3, 5, 7)).shape
        torch.Size([4, 3, 10, 14])
    """

    def __init__(self, scale_factor: int | Sequence[int]) -> None:
        super().__init__()
        self.scale_factor: int | Factors = _whole(scale_factor)
        if isinstance(self.scale_factor, tuple) and not 1 <= len(self.scale_factor) <= 3:
            raise bad_value("scale_factor", scale_factor, "a whole number, or one for each of 1 to 3 axes")

    def forward(self, x: Tensor) -> Tensor:
        """Upsamples *x* ``[N, C, L]``, ``[N, C, H, W]`` or ``[N, C, D, H, W]``."""
        return upsample_nearest(x, self.scale_factor)

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        return f"scale_factor={self.scale_factor}"


def _check_tensor(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise bad_type(name, value, "a tensor")
    if not 3 <= value.dim() <= 5:
        hint = f"Add the batch: {name}[None]." if value.dim() == 2 else ""
        raise bad_shape(name, value, "[N, C, L], [N, C, H, W] or [N, C, D, H, W]", hint)


def _whole(scale_factor: object) -> int | Factors:
    if isinstance(scale_factor, (tuple, list)):
        return tuple(check_whole(f"scale_factor[{i}]", f, 1) for i, f in enumerate(scale_factor))
    return check_whole("scale_factor", scale_factor, 1)


def _factors_of(name: str, tensor: Tensor, scale_factor: object) -> Factors:
    """One factor for each spatial axis of *tensor*, the argument *name*."""
    axes = tensor.dim() - 2
    if type(scale_factor) is int and scale_factor >= 1:
        return (scale_factor,) * axes
    factors = _whole(scale_factor)
    if isinstance(factors, int):
        return (factors,) * axes
    if len(factors) != axes:
        expected = f"a whole number or {axes} of them, one for each axis of {name} after the second"
        raise bad_value("scale_factor", factors, expected)
    return factors


def _only_plain(tensor: Tensor) -> bool:
    """Whether something is running that must see plain operations: a compiler, torch.func, forward mode."""
    return is_traced() or transforms_active() or batched((tensor,))


def _recording(tensor: Tensor) -> bool:
    return torch.is_grad_enabled() and tensor.requires_grad


def _upsample(x: Tensor, factors: Factors) -> Tensor:
    if x.is_cuda and not is_traced():
        repeated = repeat_on_gpu(x, factors)
        if repeated is not None:
            return repeated
    if _only_plain(x):
        return repeat_plainly(x, factors)
    if _recording(x):
        repeated = repeat_recorded(x, factors) if x.is_cpu else None
        if repeated is not None:
            return repeated
        return _Upsampled.apply(x, factors)  # type: ignore[no-untyped-call, no-any-return]  # torch's gap
    return repeat_blocks(x, factors)


def _block_sum(y: Tensor, factors: Factors) -> Tensor:
    if y.is_cuda and not is_traced():
        summed = sum_on_gpu(y, factors)
        if summed is not None:
            return summed
    if _only_plain(y):
        return sum_plainly(y, factors)
    if _recording(y):
        return _Summed.apply(y, factors)  # type: ignore[no-untyped-call, no-any-return]  # torch's gap
    return sum_blocks(y, factors)


class _Upsampled(torch.autograd.Function):
    """Autograd's view of upsampling."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factors: Factors) -> Tensor:
        ctx.factors = factors
        return repeat_blocks(x, factors)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        return _block_sum(dy, ctx.factors), None


class _Summed(torch.autograd.Function):
    """Autograd's view of the sum of blocks."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, factors: Factors) -> Tensor:
        ctx.factors = factors
        return sum_blocks(y, factors)

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> tuple[Tensor, None]:
        return _upsample(dx, ctx.factors), None
