"""Plain arrays as tensors: checked for kind, dtype and shape before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidTypeError, bad_shape

__all__ = ["expect_one_dtype", "expect_shape", "read_array"]


def read_array(name: str, array: Any) -> Tensor:
    """*array*, a tensor, NumPy array or nested list, as a detached floating-point tensor.

    Raises:
        InvalidTypeError: torch cannot read it, or it holds no floating-point numbers.
    """
    try:
        tensor = torch.as_tensor(_readable(array)).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidTypeError(
            f"{name} is a {type(array).__name__}, which torch cannot read: {error}."
        ) from None
    if not tensor.is_floating_point():
        raise InvalidTypeError(f"{name} has dtype {tensor.dtype}; expected a floating-point dtype.")
    if tensor.layout is not torch.strided:
        raise InvalidTypeError(
            f"{name} has layout {tensor.layout}; expected a dense one, as to_dense() gives."
        )
    return tensor


def _readable(array: Any) -> Any:
    """NumPy's view of what has one, as torch takes it: writable, of this machine's byte order, without steps back."""
    if isinstance(array, Tensor) or not hasattr(array, "__array__"):
        return array
    values = array.__array__()
    if values.dtype.name == "bfloat16":  # of ml_dtypes: torch has the numbers, but does not know the type
        return torch.as_tensor(values.astype(values.dtype, order="C").view("int16")).view(torch.bfloat16)
    return values.astype(values.dtype.newbyteorder("="), order="C")


def expect_shape(name: str, tensor: Tensor, shape: tuple[int, ...], meaning: str) -> None:
    """Refuses another shape; *meaning* says the expected one in letters, such as ``[I, 4*H]``.

    Raises:
        InvalidValueError: the shape is another.
    """
    if tensor.shape != shape:
        raise bad_shape(name, tensor, f"{list(shape)}, {meaning}")


def expect_one_dtype(tensors: Mapping[str, Tensor]) -> None:
    """Refuses a mixture of dtypes, both named.

    Raises:
        InvalidTypeError: there is more than one.
    """
    first, dtype = next((name, tensor.dtype) for name, tensor in tensors.items())
    for name, tensor in tensors.items():
        if tensor.dtype != dtype:
            raise InvalidTypeError(f"{first} is {dtype}, but {name} is {tensor.dtype}; expected one dtype.")
