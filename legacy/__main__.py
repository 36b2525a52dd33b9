"""``python -m rnncompat.legacy``: finds old calls in a running program, and rewrites them in its source."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .report import FOUND, run_and_count

__all__ = ["main"]


def _report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", metavar="FILE", help="write the report as JSON to FILE; - is standard output"
    )
    parser.add_argument(
        "--fail-on-found",
        action="store_true",
        help=f"end with code {FOUND} if there were legacy calls and the program itself did well",
    )
    parser.add_argument("-m", dest="as_module", action="store_true", help="run a module, as python -m does")
    parser.add_argument(
        "program", help="the script, or with -m the module; everything after it is the program's"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _report(options: argparse.Namespace) -> int:
    report = run_and_count([options.program, *options.arguments], as_module=options.as_module)
    if options.json == "-":
        print(report.to_json())  # noqa: T201  # the command's output
    elif options.json:
        Path(options.json).write_text(report.to_json() + "\n", encoding="utf-8")
    else:
        print(report, file=sys.stderr)  # noqa: T201  # standard output belongs to the program
    return report.exit_code(fail_on_found=options.fail_on_found)


def _migrate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files, or folders to go through")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--diff", dest="action", action="store_const", const="diff", help="show what would change (default)"
    )
    what.add_argument(
        "--check",
        dest="action",
        action="store_const",
        const="check",
        help="end with code 1 if anything is left to do",
    )
    what.add_argument("--write", dest="action", action="store_const", const="write", help="write the files")
    parser.set_defaults(action="diff")


def _migrate(options: argparse.Namespace) -> int:
    try:
        from .migrate import migrate_paths  # noqa: PLC0415  # LibCST is an extra
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("libcst"):
            raise
        sys.stderr.write("migrate needs LibCST, which is not installed: pip install 'rnncompat[migrate]'\n")
        return 2
    return migrate_paths(options.paths, options.action)


_COMMANDS: dict[
    str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]
] = {
    "report": ("run a program and count its legacy calls by name and line", _report_options, _report),
    "migrate": ("rewrite legacy calls in source files", _migrate_options, _migrate),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m rnncompat.legacy", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (text, add_options, _) in _COMMANDS.items():
        add_options(commands.add_parser(name, help=text, description=text))
    options = parser.parse_args(arguments)
    return _COMMANDS[options.command][2](options)


if __name__ == "__main__":
    sys.exit(main())
