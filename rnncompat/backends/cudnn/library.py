"""The cuDNN library that torch has loaded, its functions, and their errors in words.

Signatures by hand from the documentation of cuDNN 9; a header is not needed, nor a compiler.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import lru_cache
from typing import Any

import torch

from ...errors import RNNCompatError

__all__ = ["CudnnError", "call", "create", "version", "why_missing", "words"]

_P = c_void_p
_NAME = "libcudnn.so.9"
_OLDEST = 90000

_SIGNATURES: dict[str, list[Any]] = {
    "cudnnCreate": [_P],
    "cudnnDestroy": [_P],
    "cudnnSetStream": [_P, _P],
    "cudnnCreateTensorDescriptor": [_P],
    "cudnnDestroyTensorDescriptor": [_P],
    "cudnnSetTensorNdDescriptor": [_P, c_int, c_int, POINTER(c_int), POINTER(c_int)],
    "cudnnCreateDropoutDescriptor": [_P],
    "cudnnDestroyDropoutDescriptor": [_P],
    "cudnnSetDropoutDescriptor": [_P, _P, c_float, _P, c_size_t, c_uint64],
    "cudnnCreateRNNDescriptor": [_P],
    "cudnnDestroyRNNDescriptor": [_P],
    "cudnnSetRNNDescriptor_v8": [_P, *[c_int] * 8, *[c_int32] * 4, _P, c_uint32],
    "cudnnRNNSetClip_v9": [_P, c_int, c_double, c_double],
    "cudnnCreateRNNDataDescriptor": [_P],
    "cudnnDestroyRNNDataDescriptor": [_P],
    "cudnnSetRNNDataDescriptor": [_P, c_int, c_int, c_int, c_int, c_int, POINTER(c_int), _P],
    "cudnnGetRNNTempSpaceSizes": [_P, _P, c_int, _P, _P, _P],
    "cudnnGetRNNWeightSpaceSize": [_P, _P, _P],
    "cudnnRNNForward": [_P, _P, c_int, *[_P] * 11, *[c_size_t, _P] * 3],
    "cudnnRNNBackwardData_v8": [*[_P] * 16, *[c_size_t, _P] * 3],
    "cudnnRNNBackwardWeights_v8": [_P, _P, c_int, *[_P] * 7, *[c_size_t, _P] * 3],
}


class CudnnError(RNNCompatError, RuntimeError):
    """A call of cuDNN failed, which our own checks should have foreseen."""


@lru_cache(maxsize=1)
def _load() -> tuple[Any, str | None]:
    """The library, or None and the reason why there is none."""
    if torch.version.cuda is None or not torch.backends.cudnn.is_available():  # type: ignore[no-untyped-call]  # torch's own gap
        return None, "torch has no cuDNN here"
    try:
        # This makes torch load it, so that the name below finds that very copy.
        found = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]  # torch's own gap
        if found is not None and found < _OLDEST:
            return None, f"torch has cuDNN {words(found)} here, and it needs {words(_OLDEST)} or newer"
        library = ctypes.CDLL(_NAME)
    except (OSError, RuntimeError) as error:  # RuntimeError: of torch, where it finds one that is not its own
        return None, f"cuDNN cannot be loaded: {str(error).strip()}"
    return _bind(library)


def _bind(library: Any) -> tuple[Any, str | None]:
    """The library with the types of its functions, or None and what it lacks."""
    library.cudnnGetVersion.argtypes, library.cudnnGetVersion.restype = [], c_size_t
    missing = [name for name in _SIGNATURES if not hasattr(library, name)]
    if missing:
        return None, f"cuDNN {words(library.cudnnGetVersion())} has no function {missing[0]}"
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int
    library.cudnnGetErrorString.argtypes, library.cudnnGetErrorString.restype = [c_int], c_char_p
    return library, None


def why_missing() -> str | None:
    """None if the library is there, else the reason why not."""
    return _load()[1]


@lru_cache(maxsize=1)
def version() -> int:
    """As cuDNN itself counts, 91002 for 9.10.2; 0 where there is none."""
    library, _ = _load()
    return 0 if library is None else int(library.cudnnGetVersion())


def words(number: int) -> str:
    """A version as people write it.

    Example:
        >>> words(91002), words(8902)
        ('9.10', '8.9')
    """
    major, rest = divmod(number, 10000 if number >= _OLDEST else 1000)
    return f"{major}.{rest // 100}"


def call(name: str, *arguments: Any) -> None:
    """Calls a function of cuDNN.

    Raises:
        CudnnError: it failed.
    """
    library, _ = _load()
    status = getattr(library, name)(*arguments)
    if status:
        raise CudnnError(f"{name} failed: {library.cudnnGetErrorString(status).decode()} ({status}).")


def create(kind: str) -> int:
    """The address of a new descriptor, or handle, of *kind*."""
    made = c_void_p()
    call(f"cudnnCreate{kind}", ctypes.byref(made))
    assert made.value is not None
    return made.value
