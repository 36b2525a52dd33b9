"""``python -m rnncompat convert FROM TO``: a file of weights in one format, into one of another."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from ..descriptor import Cell
from ..errors import InvalidValueError, RNNCompatError
from .file_format import FileFormat, Reading, file_formats

__all__ = ["add_options", "run"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "formats, told from the ending unless --from or --to says it:\n" + _table(file_formats())
    parser.add_argument("source", metavar="FROM", type=Path, help="the file to read")
    parser.add_argument(
        "target", metavar="TO", type=Path, help="the file to write; one that is there is replaced"
    )
    parser.add_argument("--from", dest="source_format", metavar="FORMAT", help="the format of FROM")
    parser.add_argument("--to", dest="target_format", metavar="FORMAT", help="the format of TO")
    parser.add_argument(
        "--cell", choices=[cell.value for cell in Cell], help="the cell, where FROM does not tell it"
    )
    parser.add_argument(
        "--prefix",
        default="",
        metavar="NAME",
        help="which network: the beginning of its names, its layer or its node",
    )
    parser.add_argument(
        "--dropout",
        type=float,
        default=0.0,
        metavar="P",
        help="dropout between layers, where FROM does not hold it",
    )
    parser.add_argument(
        "--cell-clip",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="clip of c, where FROM does not hold it",
    )


def run(options: argparse.Namespace) -> int:
    """Converts, says what was done, and returns 0; what cannot be done is one line on standard error, and 2."""
    try:
        formats = file_formats()
        source = _choose("FROM", options.source, options.source_format, formats)
        target = _choose("TO", options.target, options.target_format, formats)
        descriptor, weights, read = source.read(options.source, _reading(options, source))
        written = target.write(options.target, descriptor, weights)
    except (RNNCompatError, OSError) as error:
        sys.stderr.write(f"convert: {' '.join(str(error).split())}\n")
        return 2
    lines = [
        f"{options.source} ({source.name}): {descriptor!r}",
        *(f"  {entry}" for entry in (*read, *written)),
    ]
    print(*lines, f"{options.target} ({target.name}): written", sep="\n")  # noqa: T201  # the command's output
    return 0


def _choose(argument: str, path: Path, name: str | None, formats: Mapping[str, FileFormat]) -> FileFormat:
    """The format of that *name*, or the one with the longest ending that *path* has."""
    option = f"--{argument.lower()}"
    if name is not None:
        if name not in formats:
            raise InvalidValueError(f"{option} is {name!r}; expected one of {', '.join(formats)}.")
        return formats[name]
    endings = [
        (len(suffix), one)
        for one in formats.values()
        for suffix in one.suffixes
        if path.name.lower().endswith(suffix)
    ]
    longest = max((length for length, _ in endings), default=0)
    fitting = [one for length, one in endings if length == longest]
    if len(fitting) != 1:
        found = " and ".join(one.name for one in fitting) or "no format"
        raise InvalidValueError(
            f"{argument} is {str(path)!r}, whose ending is that of {found}; say which with {option}: "
            f"{', '.join(formats)}."
        )
    return fitting[0]


def _reading(options: argparse.Namespace, source: FileFormat) -> Reading:
    """What the reader is told; an option that it would not heed is refused."""
    clip = options.cell_clip and tuple(options.cell_clip)
    reading = Reading(options.cell, options.prefix, options.dropout, clip)
    plain = Reading()
    for name in Reading._fields:
        if name not in source.takes and getattr(reading, name) != getattr(plain, name):
            given = f"--{name.replace('_', '-')}"
            raise InvalidValueError(
                f"{given} is given, but a file of {source.name} does not need it. Leave it out."
            )
    return reading


def _table(formats: Mapping[str, FileFormat]) -> str:
    return "\n".join(f"  {one.name:12} {' '.join(one.suffixes):24} {one.title}" for one in formats.values())
