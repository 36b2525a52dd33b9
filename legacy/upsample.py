"""The old upsampling of images ``(h, w, c, n)`` and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

import torch
from torch import Tensor
from typing_extensions import deprecated

from rnncompat import InvalidTypeError, InvalidValueError, block_sum, upsample_nearest

from .warn import warn

__all__ = ["upsample", "upsample_gradient"]


@deprecated(
    "legacy.upsample() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.upsample_nearest(). See docs/migrating.md#upsample",
    category=None,
)
def upsample(x: Tensor, stride: Sequence[int], scale: float = 1) -> Tensor:
    """Repeats every pixel *stride* times and multiplies the values by *scale*.

    Args:
        x: ``(h, w, c, n)``.
        stride: how many times taller and wider, two whole numbers.
        scale: a number that multiplies the values; it has nothing to do with sizes.

    Returns:
        A new ``(h * stride[0], w * stride[1], c, n)`` of x's dtype.

    Raises:
        InvalidValueError: x has not four axes, or stride not two entries >= 1.
        InvalidTypeError: stride holds no whole numbers, scale is no plain number, or one that x's dtype cannot
            hold.

    Example:
        >>> import torch
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     legacy.upsample(torch.tensor([[1.0, 2.0]]).reshape(1, 2, 1, 1), (1, 2), 10).flatten()
        tensor([10., 10., 20., 20.])
    """
    warn("upsample")
    factors, scale = _check("x", x, stride, scale)
    return _on_first_axes(upsample_nearest(_first_axes(x * scale), factors), x)


@deprecated(
    "legacy.upsample_gradient() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.block_sum(). See docs/migrating.md#upsample_gradient",
    category=None,
)
def upsample_gradient(dy: Tensor, stride: Sequence[int], scale: float = 1) -> Tensor:
    """The gradient of :func:`upsample`, ``∇upsample`` of old: *scale* times the sum over each block.

    Args:
        dy: ``(h, w, c, n)``, h and w divisible by their stride.
        stride: as it was given to :func:`upsample`.
        scale: as it was given to :func:`upsample`.

    Returns:
        A new ``(h / stride[0], w / stride[1], c, n)`` of dy's dtype, the same bits each time.

    Raises:
        InvalidValueError: dy has not four axes, stride not two entries >= 1, or one that does not divide.
        InvalidTypeError: as :func:`upsample`.

    Example:
        >>> import torch
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     legacy.upsample_gradient(torch.arange(1.0, 7).reshape(3, 2, 1, 1), (3, 1)).flatten()
        tensor([ 9., 12.])
    """
    warn("upsample_gradient")
    factors, scale = _check("dy", dy, stride, scale)
    for axis, factor in enumerate(factors[:2]):
        if dy.shape[axis] % factor:
            raise InvalidValueError(
                f"dy is of shape {list(dy.shape)}; expected axis {axis} divisible by stride[{axis}], {factor}."
            )
    return _on_first_axes(block_sum(_first_axes(dy), factors), dy) * scale


def _first_axes(t: Tensor) -> Tensor:
    """``(h, w, c, n)`` as the core takes it, the other axes as a third one that stays: ``[1, 1, h, w, c*n]``."""
    return t.flatten(2)[None, None]


def _on_first_axes(t: Tensor, like: Tensor) -> Tensor:
    return t[0, 0].reshape(*t.shape[2:4], *like.shape[2:])


def _check(name: str, tensor: object, stride: object, scale: object) -> tuple[tuple[int, int, int], float]:
    """The factors and the scale for the core, or what is wrong with the arguments."""
    if not isinstance(tensor, Tensor):
        raise InvalidTypeError(f"{name} is a {type(tensor).__name__}; expected a tensor (h, w, c, n).")
    if tensor.dim() != 4:
        raise InvalidValueError(f"{name} is of shape {list(tensor.shape)}; expected four axes, (h, w, c, n).")
    if tensor.dtype is torch.bool:
        raise InvalidTypeError(f"{name} has dtype torch.bool; expected numbers. Write `{name}.float()`.")
    return (*_check_stride(stride), 1), _check_scale(name, tensor, scale)


def _check_stride(stride: object) -> tuple[int, int]:
    if not isinstance(stride, (tuple, list)) or len(stride) != 2:
        raise InvalidValueError(f"stride is {stride!r}; expected two whole numbers, such as (2, 2).")
    for i, value in enumerate(stride):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise InvalidTypeError(
                f"stride[{i}] is a {type(value).__name__}; expected a whole number. What multiplies values is scale."
            )
        if int(value) < 1:
            raise InvalidValueError(f"stride[{i}] is {value}; expected a whole number >= 1.")
    return int(stride[0]), int(stride[1])


def _check_scale(name: str, tensor: Tensor, scale: object) -> float:
    if isinstance(scale, bool) or not isinstance(scale, Real):
        raise InvalidTypeError(
            f"scale is a {type(scale).__name__}; expected a plain number that multiplies the values."
        )
    if isinstance(scale, Integral):
        return int(scale)
    if not tensor.is_floating_point() and not tensor.is_complex():
        raise InvalidTypeError(
            f"{name} has dtype {tensor.dtype}, which cannot hold its values times {scale!r}; expected a whole "
            f"scale. Convert {name} first, for instance with `{name}.float()`."
        )
    return float(scale)
