"""Files that ``torch.save`` wrote of a ``state_dict``, alone or somewhere inside a checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..descriptor import RNNDescriptor
from ..errors import InvalidValueError
from ..weights import RNNWeights
from .extras import require
from .file_format import FileFormat, Reading
from .result import Converted
from .torch import from_torch, to_torch

__all__ = ["FILE"]


def _load(path: Path) -> Any:
    """What the file holds, tensors and plain data only: nothing that a file says is run."""
    if path.suffix.lower() == ".safetensors":
        load = require("safetensors.torch", "io", "A safetensors file").load_file
    else:
        load = partial(torch.load, map_location="cpu", weights_only=True)
    try:
        with warnings.catch_warnings():
            # torch 2.0 says so of its own torch.load, in the middle of what the command prints.
            warnings.filterwarnings("ignore", "TypedStorage is deprecated", UserWarning)
            return load(path)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  # a damaged or hostile file can raise anything
        raise InvalidValueError(
            f"{path} cannot be read as tensors and plain data ({type(error).__name__}): it is damaged, or holds "
            "other objects. Save module.state_dict(), not the module."
        ) from None


def _tensors(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in nested mappings under its names joined by dots: a checkpoint holds more than a state_dict."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _tensors(inner, f"{name}.{key}" if name else str(key))


def _read(path: Path, reading: Reading) -> Converted:
    return from_torch(
        dict(_tensors(_load(path), "")),
        cell=reading.cell,
        prefix=reading.prefix,
        dropout=reading.dropout,
        cell_clip=reading.cell_clip,
    )


def _write(path: Path, descriptor: RNNDescriptor, weights: RNNWeights) -> tuple[str, ...]:
    arrays, done = to_torch(descriptor, weights)
    torch.save(arrays, path)
    return done


FILE = FileFormat(
    name="torch",
    title="a state_dict of torch.nn, by torch.save; reads those in safetensors files too",
    suffixes=(".pt", ".pth", ".bin"),
    read=_read,
    write=_write,
    takes=frozenset({"cell", "prefix", "dropout", "cell_clip"}),
)
