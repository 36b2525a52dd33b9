"""Formats of files: what a module offers to ``python -m rnncompat convert``, and how it is found.

A module of this package that has a ``FILE`` is a format: nothing else need be told of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..descriptor import Cell, RNNDescriptor
from ..weights import RNNWeights
from .result import Converted

__all__ = ["FileFormat", "Reading", "file_formats"]


class Reading(NamedTuple):
    """What a reader is told beside the path, because files may not say it.

    Attributes:
        cell: the cell, where it cannot be told from the file; None if the caller did not say it.
        prefix: which of several networks in the file: the beginning of its names, its layer or its node.
        dropout: probability of dropping a value between layers while training.
        cell_clip: the range that c is clipped to, or None.
    """

    cell: Cell | str | None = None
    prefix: str = ""
    dropout: float = 0.0
    cell_clip: tuple[float, float] | None = None


class FileFormat(NamedTuple):
    """One format of files.

    Attributes:
        name: what the command line calls it, such as ``"keras"``.
        title: one line of help.
        suffixes: endings of its files, such as ``(".weights.h5", ".h5")``; the longest that fits decides.
        read: ``(path, reading)`` to weights; refuses what is no such file with an error of this package.
        write: ``(path, descriptor, weights)``; returns what was done, as :class:`~rnncompat.convert.Exported` has it.
        takes: the fields of :class:`Reading` that ``read`` heeds; the command refuses the others.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, Reading], Converted]
    write: Callable[[Path, RNNDescriptor, RNNWeights], tuple[str, ...]]
    takes: frozenset[str] = frozenset()


def file_formats() -> dict[str, FileFormat]:
    """Every format of files by its name: the ``FILE`` of each module of this package that has one."""
    package = importlib.import_module(__package__)
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"{__package__}.{name}") for name in names]
    return {module.FILE.name: module.FILE for module in modules if hasattr(module, "FILE")}
