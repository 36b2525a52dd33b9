"""``report``: runs a program and counts its legacy calls by name, file and line."""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .registry import REGISTRY
from .warn import listening

__all__ = ["FOUND", "Calls", "Report", "run_and_count"]

FOUND = 3
"""Exit code under ``--fail-on-found`` of a program that did well but made legacy calls."""


@dataclass(frozen=True)
class Calls:
    """The calls of one old name at one line.

    Attributes:
        name: the old name.
        file: of the caller, relative to the working directory where it lies below it.
        line: of the caller.
        count: how often the line called the name.
        replacement: what to use instead.
        guide: where that is explained.
    """

    name: str
    file: str
    line: int
    count: int
    replacement: str
    guide: str


@dataclass(frozen=True)
class Report:
    """What a program called, by file and line, and how it ended.

    Attributes:
        calls: one entry a name and line.
        program_exit: the program's own exit code; 1 after an exception.
    """

    calls: tuple[Calls, ...]
    program_exit: int

    @property
    def total(self) -> int:
        """All calls together."""
        return sum(call.count for call in self.calls)

    def exit_code(self, *, fail_on_found: bool) -> int:
        """The program's own if it failed; else, if that is asked for, :data:`FOUND` where calls were found."""
        return self.program_exit or (FOUND if fail_on_found and self.calls else 0)

    def to_json(self) -> str:
        """The same as one JSON object."""
        calls = [asdict(call) for call in self.calls]
        return json.dumps({"total": self.total, "program_exit": self.program_exit, "calls": calls}, indent=1)

    def __str__(self) -> str:
        if not self.calls:
            return "No legacy calls."
        places = [f"{call.file}:{call.line}" for call in self.calls]
        width, digits = max(map(len, places)), len(str(max(call.count for call in self.calls)))
        lines = [
            f"{place:<{width}}  {call.count:>{digits}} x legacy.{call.name}(): use {call.replacement}"
            for place, call in zip(places, self.calls, strict=True)
        ]
        names = len({call.name for call in self.calls})
        lines.append(f"{self.total} legacy calls of {names} names at {len(lines)} places.")
        return "\n".join(lines)


def run_and_count(program: Sequence[str], *, as_module: bool = False) -> Report:
    """Runs a program as Python would, with its own ``sys.argv``, and counts every legacy call in it.

    Calls count in all threads of the process, not in processes that the program starts; code under
    ``torch.compile`` counts once for each time it is traced. While it counts, no legacy call warns.

    Args:
        program: path of the script and its arguments; with as_module the name of the module first.
        as_module: run as ``python -m`` does.
    """
    found: Counter[tuple[str, str, int]] = Counter()

    def hear(name: str, file: str, line: int) -> None:
        found[name, file, line] += 1

    with listening(hear):
        program_exit = _run(program, as_module)
    calls = [_calls(*key, count) for key, count in found.items()]
    return Report(tuple(sorted(calls, key=lambda call: (call.file, call.line, call.name))), program_exit)


def _calls(name: str, file: str, line: int, count: int) -> Calls:
    row = REGISTRY[name]
    return Calls(name, _shown(file), line, count, row.replacement, f"docs/migrating.md#{row.anchor}")


def _shown(file: str) -> str:
    path = Path(file)
    return (
        str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else file
    )


def _run(program: Sequence[str], as_module: bool) -> int:
    """Runs it as ``__main__`` and returns its exit code; an exception is shown as Python shows it."""
    kept_argv, kept_path = sys.argv, sys.path[:]
    sys.argv = list(program)
    sys.path.insert(0, str(Path.cwd() if as_module else Path(program[0]).resolve().parent))
    try:
        if as_module:
            runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as end:
        return _code(end.code)
    except BaseException as error:  # noqa: BLE001  # whatever it is, the program has ended, and the report goes on
        _show(error)
        return 1
    finally:
        sys.argv, sys.path[:] = kept_argv, kept_path
    return 0


def _code(given: Any) -> int:
    """The exit code that ``sys.exit`` makes of its argument."""
    if given is None:
        return 0
    if isinstance(given, int):
        return given
    print(given, file=sys.stderr)  # noqa: T201  # as Python does
    return 1


def _show(error: BaseException) -> None:
    """The traceback without the frames of this file and of runpy."""
    hidden = (__file__, os.fspath(runpy.__file__), "<frozen runpy>")
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in hidden:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)
