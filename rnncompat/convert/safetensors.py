"""Weights in a safetensors file: the flat buffer, with the descriptor and the version of the layout beside it.

Nothing in such a file can run, and a part of it need not be read: with ``mmap=True`` the pages of the file are the
memory of the weights. Needs the extra ``io``: ``pip install 'rnncompat[io]'``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..descriptor import RNNDescriptor, restore
from ..errors import InvalidTypeError, InvalidValueError, RNNCompatError, UnsupportedError
from ..layout import LAYOUT_VERSION, layout_of
from ..weights import RNNWeights
from .extras import require
from .file_format import FileFormat, Reading
from .given import on_cpu
from .result import Converted

__all__ = ["FILE", "load_weights", "save_weights"]

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
_TENSOR = "flat"
_PURPOSE = "A safetensors file"
_LAYOUT, _DESCRIPTOR = "rnncompat.layout", "rnncompat.descriptor"
_OURS = str(LAYOUT_VERSION)


def save_weights(path: str | os.PathLike[str], descriptor: RNNDescriptor, weights: RNNWeights) -> None:
    """Writes weights and what they belong to; an older file gives way only when the new one is whole.

    Args:
        path: where to; ``.safetensors`` is the usual ending.
        descriptor: the network; all its options are kept.
        weights: its weights, of any device.

    Raises:
        UnsupportedError: safetensors or NumPy is not installed.
        InvalidTypeError: weights of another dtype than float64, float32, bfloat16 or float16.
        InvalidValueError: weights of another network.
        OSError: the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> descriptor = RNNDescriptor("lstm", 3, 5, cell_clip=(-1, 1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "policy.safetensors")
        ...     save_weights(path, descriptor, RNNWeights.init(descriptor))
        ...     load_weights(path).descriptor
        RNNDescriptor('lstm', 3, 5, cell_clip=(-1.0, 1.0))
    """
    names = ("safetensors", "safetensors.torch", "numpy")  # the library writes through NumPy
    library, for_torch, _ = (require(name, "io", _PURPOSE) for name in names)
    flat = on_cpu(descriptor, weights).flat
    if flat.dtype not in _DTYPES.values():
        raise InvalidTypeError(f"weights have dtype {flat.dtype}; expected one of {list(_DTYPES.values())}.")
    _, (options,) = descriptor.__reduce__()
    metadata = {_LAYOUT: _OURS, _DESCRIPTOR: json.dumps(options)}
    # Beside it first: whoever has mapped the old file keeps its pages.
    unfinished = Path(f"{os.fspath(path)}.part")
    unfinished.touch()
    try:
        for_torch.save_file({_TENSOR: flat}, unfinished, metadata)
        unfinished.replace(path)
    except library.SafetensorError as error:
        raise OSError(f"{path} could not be written: {error}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def load_weights(
    path: str | os.PathLike[str], *, device: torch.device | str = "cpu", mmap: bool = False
) -> RNNWeights:
    """Reads the weights that :func:`save_weights` wrote; everything is checked before a number is read.

    Args:
        path: the file.
        device: where to put them.
        mmap: on the CPU, map the file instead of reading it: pages come as they are needed and are shared between
            processes; what is written to the weights stays in memory, and the file must not be cut short meanwhile.

    Returns:
        Weights whose ``flat`` is a leaf that requires a gradient; ``weights.descriptor`` says what they belong to.

    Raises:
        UnsupportedError: safetensors is not installed, or the file is of another version of the layout.
        InvalidValueError: the file is damaged, or no file of :func:`save_weights`.
        OSError: the file cannot be read.
    """
    library = require("safetensors", "io", _PURPOSE)
    try:
        with library.safe_open(os.fspath(path), framework="pt") as file:
            descriptor = _check(file, path)
            flat: Tensor = file.get_tensor(_TENSOR)
    except library.SafetensorError as error:
        raise InvalidValueError(f"{path} is no whole safetensors file: {error}.") from None
    return RNNWeights(descriptor, flat.to(device=device, copy=not mmap)).requires_grad_()


def _check(file: Any, path: object) -> RNNDescriptor:
    """The descriptor of an open file whose one tensor is of its size."""
    metadata = file.metadata() or {}
    if not {_LAYOUT, _DESCRIPTOR} <= metadata.keys():
        raise InvalidValueError(
            f"{path} has no {_LAYOUT} and {_DESCRIPTOR} in its metadata, so save_weights did not write it. If it "
            "holds a state_dict, read that with rnncompat.convert.torch.from_torch."
        )
    if metadata[_LAYOUT] != _OURS:
        raise UnsupportedError(
            f"{path} has version {metadata[_LAYOUT]!r} of the layout of weights; this rnncompat reads version "
            f"{_OURS!r}. Read it with the version of rnncompat that wrote it, and export it from there."
        )
    if list(file.keys()) != [_TENSOR]:
        raise InvalidValueError(f"{path} holds the tensors {list(file.keys())}; expected {_TENSOR!r} alone.")
    tensor = file.get_slice(_TENSOR)
    shape, dtype = list(tensor.get_shape()), tensor.get_dtype()
    if dtype not in _DTYPES:
        raise InvalidValueError(f"{path} holds numbers of type {dtype}; expected one of {list(_DTYPES)}.")
    descriptor = _descriptor(metadata[_DESCRIPTOR], path)
    # A layer has a number at least: this keeps a damaged count of layers from being laid out.
    if descriptor.num_pseudo_layers > sum(shape) or shape != [layout_of(descriptor).size]:
        raise InvalidValueError(
            f"{path} holds weights of shape {shape}, which is not the size of {descriptor!r}."
        )
    return descriptor


def _descriptor(text: str, path: object) -> RNNDescriptor:
    try:
        options = json.loads(text)
        if not isinstance(options, dict):
            raise InvalidValueError(f"it is a {type(options).__name__}; expected options by name.")
        return restore(options)
    except (ValueError, TypeError, RecursionError) as error:
        kind = type(error) if isinstance(error, RNNCompatError) else InvalidValueError
        raise kind(f"{path} has a descriptor that cannot be read: {error}") from None


def _read(path: Path, reading: Reading) -> Converted:
    weights = load_weights(path)
    return Converted(weights.descriptor, weights, ())


def _write(path: Path, descriptor: RNNDescriptor, weights: RNNWeights) -> tuple[str, ...]:
    save_weights(path, descriptor, weights)
    return ()


FILE = FileFormat(
    name="safetensors",
    title="weights with their descriptor, by rnncompat itself",
    suffixes=(".safetensors",),
    read=_read,
    write=_write,
)
