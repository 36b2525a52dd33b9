"""One file from source to source."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
from libcst import matchers as m

from ..registry import REGISTRY, Kind
from .conditionals import unfold_conditionals
from .holders import subclasses
from .imports import mend_imports
from .loops import Note, find_loops
from .names import UNCERTAIN, Names
from .rewrite import Rewriter, Todo

__all__ = ["Migration", "RewriteError", "count_calls", "migrate_source"]


class RewriteError(Exception):
    """A fault of the rules: the file is left alone."""


@dataclass(frozen=True)
class Migration:
    """What became of one file.

    Attributes:
        code: the new source; the old one, byte for byte, where nothing is to be done.
        calls: legacy calls that were found.
        left: those that are still there, each under a mark.
        todos: lines of the old file and why a person must decide.
        notes: lines of the new file and what could be better.
    """

    code: bytes
    calls: int
    left: int
    todos: tuple[Todo, ...]
    notes: tuple[Note, ...]


def migrate_source(source: bytes) -> Migration:
    r"""Rewrites the legacy calls of a file as far as their meaning is certain; a second time changes nothing.

    Args:
        source: the file.

    Raises:
        libcst.ParserSyntaxError: it is no Python that LibCST can read.
        RewriteError: a rule failed.

    Example:
        >>> old = "from rnncompat import legacy\n\ny, h = legacy.forward(rnn, x, h)\n"
        >>> print(migrate_source(old.encode()).code.decode())
        import rnncompat
        <BLANKLINE>
        output, state = rnncompat.rnn_step(rnn.descriptor, rnn, x.t(), rnncompat.RNNState(h.t()[None]))
        y, h = output.t(), state.h[0].t().clone()
        <BLANKLINE>
    """
    if b"rnncompat" not in source:
        return Migration(source, 0, 0, (), ())
    names = Names(cst.parse_module(source))
    calls = count_calls(names)
    taken = [name for name in ("rnncompat", "torch") if names.binds(name, name) is None]
    if taken:
        reason = f"the name {taken[0]!r} means something else in this file; rename that first"
        return Migration(source, calls, calls, ((1, reason),) if calls else (), ())
    try:
        return _rewritten(source, names, calls)
    except (cst.ParserSyntaxError, cst.CSTValidationError, SyntaxError) as error:
        raise RewriteError(f"the rules made no valid Python of it ({error}); please report this") from error


def _rewritten(source: bytes, names: Names, calls: int) -> Migration:
    unfolded = unfold_conditionals(names)
    names = names if unfolded is None else Names(unfolded)
    rewriter = Rewriter(names)
    new = mend_imports(names.module.visit(rewriter), rewriter.helpers)
    if new.bytes == source:
        return Migration(source, calls, calls, tuple(rewriter.todos), tuple(find_loops(names)))
    compile(new.code, "<migrated>", "exec", dont_inherit=True)
    names = Names(new)
    return Migration(new.bytes, calls, count_calls(names), tuple(rewriter.todos), tuple(find_loops(names)))


def count_calls(names: Names) -> int:
    """The legacy calls in a file, constructors of subclasses among them."""
    known = {row.name for row in REGISTRY.values() if row.kind is not Kind.CONSTANT} | {UNCERTAIN}
    own = subclasses(names).values()
    starts = {node for made in own for node in m.findall(made, _SUPER_INIT)}
    return sum(names.called(node) in known or node in starts for node in names.parents)


_SUPER_INIT = m.Call(func=m.Attribute(value=m.Call(func=m.Name("super")), attr=m.Name("__init__")))
