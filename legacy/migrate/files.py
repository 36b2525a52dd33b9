"""Goes through files: shows, checks or writes what the rules make of them."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import libcst as cst

from .source import Migration, RewriteError, migrate_source

__all__ = ["migrate_paths"]

DONE, LEFT, UNREADABLE = 0, 1, 2
_SKIPPED = {"site-packages", "dist-packages", "node_modules", "__pycache__", "venv"}
_MANY = 50


def migrate_paths(paths: Sequence[Path], action: str) -> int:
    """Migrates files and all ``*.py`` in folders; hidden folders and installed packages are left out.

    Args:
        paths: files and folders.
        action: ``"diff"``, ``"check"`` or ``"write"``.

    Returns:
        The exit code: 2 if a file could not be read, else 1 if ``check`` found something left to do, else 0.
    """
    missing = [path for path in paths if not path.exists()]
    for path in missing:
        _say(f"{path}: there is no such file or folder")
    files = list(dict.fromkeys(file for path in paths for file in _files(path)))
    code = UNREADABLE if missing else DONE
    calls = left = changed = 0
    for number, path in enumerate(files, 1):
        _progress(number, len(files))
        found = _migrate(path, action)
        if found is None:
            code = UNREADABLE
            continue
        migration, differs = found
        calls, left, changed = calls + migration.calls, left + migration.left, changed + differs
        if action == "check" and (differs or migration.left or migration.todos):
            code = max(code, LEFT)
    _say(_summary(len(files), calls, left, changed, action))
    return code


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*.py")):
        folders = file.relative_to(path).parts[:-1]
        if not any(part in _SKIPPED or part.startswith(".") for part in folders):
            yield file


def _migrate(path: Path, action: str) -> tuple[Migration, bool] | None:
    """What became of one file, and whether it changed; None if it could not be read, which is said."""
    try:
        source = path.read_bytes()
        migration = migrate_source(source)
    except (cst.ParserSyntaxError, RewriteError, UnicodeError, OSError, RecursionError) as error:
        _say(f"{path}: left alone: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
        return None
    differs = migration.code != source
    if differs and action == "diff":
        sys.stdout.writelines(_diff(path, source, migration.code))
    if differs and action == "write":
        path.write_bytes(migration.code)
    for line, reason in migration.todos:
        _say(f"{path}:{line}: to do: {reason}")
    for line, advice in migration.notes:
        _say(f"{path}:{line}: note: {advice}")
    return migration, differs


def _diff(path: Path, old: bytes, new: bytes) -> Iterator[str]:
    before, after = (code.decode("utf-8", "replace").splitlines(keepends=True) for code in (old, new))
    return difflib.unified_diff(before, after, str(path), str(path))


def _progress(number: int, total: int) -> None:
    """One line that is written over on a terminal; elsewhere a line now and then."""
    if total < _MANY:
        return
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{number} of {total} files" + "\n" * (number == total))
        sys.stderr.flush()
    elif number % _MANY == 0:
        _say(f"{number} of {total} files")


def _summary(files: int, calls: int, left: int, changed: int, action: str) -> str:
    did = "changed" if action == "write" else "would change"
    return (
        f"{files} files, {changed} {did}; {calls} legacy calls, {calls - left} rewritten, {left} left to you."
    )


def _say(words: str) -> None:
    print(words, file=sys.stderr)  # noqa: T201  # what a command is for
