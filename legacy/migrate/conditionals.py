"""Takes ``v = forward(…) if c is None else forward(…, c)`` apart, so that each call has a line of its own."""

from __future__ import annotations

from typing import Any

import libcst as cst

from .names import Names

__all__ = ["unfold_conditionals"]

_LINES = ("forward", "forwardTrain", "flux09.forwardInference", "pullback")
"""Calls that become more than one line."""


def unfold_conditionals(names: Names) -> cst.Module | None:
    """The module with such assignments and returns as ``if`` and ``else``; None if it has none."""
    unfold = _Unfold(names)
    new = names.module.visit(unfold)
    return new if unfold.found else None


class _Unfold(cst.CSTTransformer):
    def __init__(self, names: Names) -> None:
        self.names = names
        self.found = False

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        small = original_node.body[0]
        if len(original_node.body) != 1 or not isinstance(small, (cst.Assign, cst.Return)):
            return updated_node
        choice = small.value
        if not isinstance(choice, cst.IfExp):
            return updated_node
        if not any(self.names.called(side) in _LINES for side in (choice.body, choice.orelse)):
            return updated_node
        self.found = True
        yes, no = (
            _block(updated_node, small.with_changes(value=value)) for value in (choice.body, choice.orelse)
        )
        return cst.If(
            test=choice.test.with_changes(lpar=[], rpar=[]) if choice.test.lpar else choice.test,
            body=yes,
            orelse=cst.Else(body=no),
            leading_lines=updated_node.leading_lines,
        )


def _block(line: cst.SimpleStatementLine, small: cst.BaseSmallStatement) -> cst.IndentedBlock:
    return cst.IndentedBlock(body=[line.with_changes(body=[small], leading_lines=[])])
