"""``python -m rnncompat``: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from .doctor import doctor

__all__ = ["main"]


def _doctor() -> int:
    report = doctor()
    print(report)  # noqa: T201  # the command's output
    return 0 if report.healthy else 1


_COMMANDS: dict[str, tuple[str, Callable[[], int]]] = {
    "doctor": (
        "versions, backends, and a self-test of each; exit code 1 if one gives wrong numbers",
        _doctor,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m rnncompat", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (text, _) in _COMMANDS.items():
        commands.add_parser(name, help=text, description=text)
    return _COMMANDS[parser.parse_args(arguments).command][1]()


if __name__ == "__main__":
    sys.exit(main())
