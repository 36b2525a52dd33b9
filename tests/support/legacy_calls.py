"""Counts legacy calls as Python's own profiler sees them: an oracle for what ``report`` hears of."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from operator import attrgetter

from rnncompat import legacy
from rnncompat.legacy.registry import REGISTRY, Kind
from rnncompat.legacy.warn import listening

OLD = {row.name: attrgetter(row.name)(legacy) for row in REGISTRY.values() if row.kind is Kind.CALL}
FUNCTIONS = {thing.__code__: name for name, thing in OLD.items() if not isinstance(thing, type)}
CLASSES = {thing: name for name, thing in OLD.items() if isinstance(thing, type)}
METHODS = {
    vars(base)[method].__code__
    for kind in CLASSES
    for base in kind.__mro__
    if base.__module__.startswith("rnncompat.legacy")
    for method in ("__init__", "__call__", "forward")
    if method in vars(base)
}
QUIET = {legacy.flux.Chain.forward.__code__}  # a container: what it holds is called


def name_of(frame):
    """The old name that a frame runs, or None."""
    code = frame.f_code
    if code in FUNCTIONS:
        return FUNCTIONS[code]
    if code in METHODS and code not in QUIET:
        owner = frame.f_locals.get("self")
        return next((CLASSES[kind] for kind in type(owner).__mro__ if kind in CLASSES), None)
    return None


def is_ours(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0] == "rnncompat"


def user_of(frame):
    """File and line of the nearest frame that is neither ours nor torch's."""
    frame = frame.f_back
    while frame.f_globals.get("__name__", "").partition(".")[0] in ("rnncompat", "torch"):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


@contextmanager
def counted():
    """Checks that what a listener hears of is what the profiler sees; calls within a legacy call are no calls."""
    heard, seen, running = Counter(), Counter(), []

    def profile(frame, event, _):
        if event == "call" and not running:
            name = name_of(frame)
            if name is not None:
                running.append(frame)
                if not is_ours(frame.f_back):
                    seen[(name, *user_of(frame))] += 1
        elif event == "return" and running and running[0] is frame:
            running.clear()

    before = sys.getprofile()
    with listening(lambda *call: heard.update([call])):
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before)
    assert heard - seen == seen - heard == Counter(), (heard - seen, seen - heard)
