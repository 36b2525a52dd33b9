"""Finds loops of single steps that one call over the whole sequence could do."""

from __future__ import annotations

import libcst as cst

from .names import Names

__all__ = ["Note", "find_loops"]

Note = tuple[int, str]
_OLD_STEPS = {"forward", "forwardTrain", "flux09.forwardInference"}
_ADVICE = "this loop runs single steps; rnncompat.rnn_forward() runs the whole sequence in one call, with lengths and masks"


def find_loops(names: Names) -> list[Note]:
    """Line and advice for each loop whose body calls one step, and gives its state to the next."""
    finder = _Loops(names)
    names.module.visit(finder)
    return sorted({(names.line(loop), _ADVICE) for loop in finder.found})


class _Loops(cst.CSTVisitor):
    def __init__(self, names: Names) -> None:
        self.names = names
        self.found: list[cst.CSTNode] = []

    def visit_Call(self, node: cst.Call) -> None:
        new = any(q.name == "rnncompat.rnn_step" for q in self.names.qualified(node.func))
        if not new and self.names.called(node) not in _OLD_STEPS:
            return
        for around in self.names.ancestors(node):
            if isinstance(around, (cst.For, cst.While)):
                self.found.append(around)
            if isinstance(around, (cst.For, cst.While, cst.FunctionDef, cst.Lambda)):
                return
