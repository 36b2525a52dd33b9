"""Libraries that only some files need: imported when such a file is read or written, never before."""

from __future__ import annotations

import importlib
from types import ModuleType

from ..errors import UnsupportedError

__all__ = ["require"]


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """The module of that name, imported now.

    Args:
        module: its import name, such as ``"h5py"``.
        extra: the extra of this package that installs it.
        purpose: what needs it, as the beginning of a sentence, such as ``"A Keras file"``.

    Raises:
        UnsupportedError: it is not installed.

    Example:
        >>> require("no_such_module", "io", "A safetensors file")
        Traceback (most recent call last):
            ...
        rnncompat.errors.UnsupportedError: A safetensors file needs no_such_module, which is not installed: pip install 'rnncompat[io]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise  # it is there, but something that it needs is not
        raise UnsupportedError(
            f"{purpose} needs {error.name}, which is not installed: pip install 'rnncompat[{extra}]'"
        ) from None
