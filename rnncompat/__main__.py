"""``python -m rnncompat``: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from .convert import command as convert
from .doctor import doctor

__all__ = ["main"]


def _no_options(parser: argparse.ArgumentParser) -> None:
    pass


def _doctor(options: argparse.Namespace) -> int:
    report = doctor()
    print(report)  # noqa: T201  # the command's output
    return 0 if report.healthy else 1


_COMMANDS: dict[
    str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]
] = {
    "doctor": (
        "versions, backends, and a self-test of each; exit code 1 if one gives wrong numbers",
        _no_options,
        _doctor,
    ),
    "convert": (
        "weights from a file of one format into one of another, exactly or not at all",
        convert.add_options,
        convert.run,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m rnncompat", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (text, add_options, _) in _COMMANDS.items():
        add_options(commands.add_parser(name, help=text, description=text))
    options = parser.parse_args(arguments)
    return _COMMANDS[options.command][2](options)


if __name__ == "__main__":
    sys.exit(main())
