"""The comments that the tool writes: marks with a reason, and comments that would be lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import libcst as cst
from libcst import matchers as m

from ..registry import REGISTRY, Kind
from .names import UNCERTAIN, is_module
from .text import text

__all__ = ["MARK", "lost_comments", "marked", "why_not"]

MARK = "# TODO(rnncompat):"


def marked(statement: Any, reasons: Sequence[str], header: Iterable[cst.EmptyLine]) -> Any:
    """A statement with its reasons above it, unless it has a mark already.

    Args:
        statement: a line or a block.
        reasons: what a person must decide.
        header: the lines above it that are no part of it, at the top of a file.
    """
    above = [*statement.leading_lines, *header]
    if not reasons or any(line.comment and line.comment.value.startswith(MARK) for line in above):
        return statement
    marks = [cst.EmptyLine(comment=cst.Comment(f"{MARK} {reason}")) for reason in reasons]
    return statement.with_changes(leading_lines=[*statement.leading_lines, *marks])


def lost_comments(old: cst.CSTNode, new: list[Any]) -> list[cst.EmptyLine]:
    """The comments that stood among the arguments of a call and are not in its new form, as lines of their own."""
    kept = "".join(map(text, new))
    comments = m.findall(old.with_changes(leading_lines=()), m.Comment())
    lost = [c for c in comments if isinstance(c, cst.Comment) and c.value not in kept]
    return [cst.EmptyLine(comment=comment) for comment in lost]


def why_not(name: str) -> str:
    """The reason for a name that no rule has taken."""
    if name == UNCERTAIN:
        return "this name may be one of rnncompat.legacy or something else"
    if is_module(name):
        return "the module itself is passed on, so its calls cannot be seen"
    if name in ("legacy_warnings", "LegacyRNNWarning"):
        return "not needed once no legacy call is left"
    if name not in REGISTRY:
        return "it is no call; it goes with the last call that needs it"
    if REGISTRY[name].kind is Kind.CONSTANT:
        return f"use {REGISTRY[name].replacement}"
    return f"it is passed on as a value; pass on what calls {REGISTRY[name].replacement}"
