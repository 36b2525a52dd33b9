"""The warning machinery: the caller's own line, once a call site, and the switches.

A site is a place in code (code object and instruction) together with the old name called there. It is
remembered only after the warning has been issued, so under an "error" filter it raises every time.

Python hides ``DeprecationWarning`` outside ``__main__``. A warning about the user's own modules would
be lost that way, so where *only* that built-in rule hides it, and the code is not an installed library,
it is issued as if from ``__main__``. Every filter of the user's (``-W``, ``PYTHONWARNINGS``, pytest,
``warnings.filterwarnings``) comes before that rule and decides as always.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from rnncompat import InvalidValueError
from rnncompat.versions import is_compiling, run_while_tracing

from .registry import REGISTRY

__all__ = ["LegacyRNNWarning", "legacy_warnings", "listening", "own_calls", "warn"]

VARIABLE = "RNNCOMPAT_LEGACY"


class LegacyRNNWarning(DeprecationWarning):
    """A call of the old single-step interface; the text says what replaces it, and when it goes."""


class Mode(str, Enum):
    """What a legacy call does beside its work."""

    WARN = "warn"
    ERROR = "error"
    QUIET = "quiet"


def _mode(source: str, value: str) -> Mode:
    try:
        return Mode(value)
    except ValueError:
        allowed = ", ".join(repr(mode.value) for mode in Mode)
        raise InvalidValueError(f"{source} is {value!r}; expected one of {allowed}.") from None


_current: ContextVar[Mode] = ContextVar(
    "rnncompat_legacy",
    default=_mode(VARIABLE, os.environ.get(VARIABLE, "warn")),  # noqa: B039  # an enum member
)


@contextmanager
def legacy_warnings(mode: str) -> Iterator[None]:
    """Sets what legacy calls do inside the block, in this thread or task.

    The environment variable ``RNNCOMPAT_LEGACY`` sets the same for a whole process and its children.

    Args:
        mode: ``"warn"``, ``"error"`` (the call raises :class:`LegacyRNNWarning`) or ``"quiet"``.

    Raises:
        InvalidValueError: *mode* is none of these.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     legacy.ngates(legacy.CUDNN_GRU)
        3
    """
    token = _current.set(_mode("mode", mode))
    try:
        yield
    finally:
        _current.reset(token)


_inside: ContextVar[bool] = ContextVar("rnncompat_legacy_inside", default=False)


@contextmanager
def own_calls() -> Iterator[None]:
    """Around legacy calls of our own, which no user made: they neither warn nor count."""
    token, before = _inside.set(True), _current.set(Mode.QUIET)
    try:
        yield
    finally:
        _current.reset(before)
        _inside.reset(token)


Listener = Callable[[str, str, int], None]
"""Hears of a call: the old name, the file and the line of the caller."""

_listener: Listener | None = None


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tells *listener* of every legacy call in any thread inside the block; none of them warns or raises."""
    global _listener  # noqa: PLW0603  # one for the process: threads do not share context variables
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


Site = tuple[int, int, str]

_seen: dict[Site, CodeType] = {}
"""Sites that have warned. The code object is kept so that its id is not given to another."""
_MAX_SITES = 4096  # a program that makes code in a loop must not grow this without end
_lock = threading.RLock()  # reentrant: a showwarning hook may itself make a legacy call

_THROUGH = ("rnncompat.", "torch.", "contextlib", "functools")


def warn(name: str) -> None:
    """Warns that the public legacy function calling this one, *name*, is deprecated."""
    if is_compiling():
        _warn_at_trace(name)
        return
    mode = _current.get()
    if mode is Mode.QUIET and _listener is None:
        return
    caller = sys._getframe(2)  # noqa: SLF001  # inspect.stack() is far slower
    if (id(caller.f_code), caller.f_lasti, name) in _seen and mode is Mode.WARN and _listener is None:
        return
    _warn_slowly(name, caller, mode)


def _warn_slowly(name: str, caller: FrameType, mode: Mode) -> None:
    frame = _first_outside(caller)
    if _listener is not None:
        if not _inside.get():
            with _lock:
                _listener(name, frame.f_code.co_filename, frame.f_lineno)
        return
    site = (id(frame.f_code), frame.f_lasti, name)
    if site in _seen and mode is Mode.WARN:  # the call came through a container
        return
    text = REGISTRY[name].text
    if mode is Mode.ERROR:
        raise LegacyRNNWarning(text)
    with _lock:
        if site in _seen:
            return
        _issue(text, frame)
        if len(_seen) >= _MAX_SITES:
            _seen.clear()
        _seen[site] = frame.f_code


def _first_outside(frame: FrameType) -> FrameType:
    """The nearest frame that is neither ours nor machinery a call merely passes through."""
    outside: FrameType | None = frame
    while outside is not None:
        module = outside.f_globals.get("__name__", "")
        if module != "rnncompat" and not module.startswith(_THROUGH):
            return outside
        outside = outside.f_back
    return frame


def _issue(text: str, frame: FrameType) -> None:
    module = frame.f_globals.get("__name__") or "__main__"
    file, line = frame.f_code.co_filename, frame.f_lineno
    if _only_hidden_by_default(text, module, line) and _is_own_code(file):
        module = "__main__"
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, LegacyRNNWarning, file, line, module, registry)


def _only_hidden_by_default(text: str, module: str, line: int) -> bool:
    """Whether the first filter that applies is Python's own rule that hides deprecations outside __main__."""
    shown_in_main = False
    for action, message, category, where, lineno in warnings.filters:
        if not issubclass(LegacyRNNWarning, category):
            continue
        if (action, category, _pattern(where)) == ("default", DeprecationWarning, "__main__"):
            shown_in_main = True
        if _matches(message, text) and _matches(where, module) and lineno in (0, line):
            return shown_in_main and (action, category, where) == ("ignore", DeprecationWarning, None)
    return False


def _pattern(rule: Any) -> Any:
    return getattr(rule, "pattern", rule)


def _matches(rule: Any, value: str) -> bool:
    """As the warnings module matches: no rule fits all, a string must be equal, a pattern must match."""
    if rule is None or isinstance(rule, str):
        return rule is None or rule == value
    return rule.match(value) is not None


_LIBRARIES = ("site-packages", "dist-packages")
_STDLIB = sysconfig.get_path("stdlib")


def _is_own_code(file: str) -> bool:
    """Whether the file is the user's own, and not of an installed library or of Python."""
    path = Path(file)
    return not any(part in _LIBRARIES for part in path.parts) and not path.is_relative_to(_STDLIB)


# torch.compile runs it once, while it traces, and keeps no trace of it in the graph.
@run_while_tracing
def _warn_at_trace(name: str) -> bool:
    if _current.get() is Mode.WARN or _listener is not None:
        _warn_slowly(name, sys._getframe(1), Mode.WARN)  # noqa: SLF001  # as above
    return True
