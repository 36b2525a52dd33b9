"""Source text from nodes and nodes from source text: rules are written as text."""

from __future__ import annotations

import re

import libcst as cst

from rnncompat import Cell

__all__ = [
    "bare",
    "call_of",
    "cell",
    "elements",
    "expression",
    "is_simple",
    "literal",
    "operand",
    "statement",
    "text",
    "turned",
]

_EMPTY = cst.Module([])
_CLOSED = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)


def text(node: cst.CSTNode) -> str:
    """The source of a node."""
    return _EMPTY.code_for_node(node)


def expression(source: str) -> cst.BaseExpression:
    """The node of an expression."""
    return cst.parse_expression(source)


def statement(source: str) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
    """The node of a statement."""
    return cst.parse_statement(source)


def bare(target: cst.BaseExpression) -> str:
    """The source of a target without parentheses around a tuple."""
    return text(target.with_changes(lpar=[], rpar=[])) if isinstance(target, cst.Tuple) else text(target)


def operand(node: cst.BaseExpression) -> str:
    """The source of a node so that ``.name`` can follow."""
    return text(node) if isinstance(node, _CLOSED) or node.lpar else f"({text(node)})"


def turned(node: cst.BaseExpression) -> str:
    """The source of a node with its two axes swapped; a vector stays as it is."""
    if (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "t"
        and not node.args
    ):
        return text(node.func.value)
    return f"{operand(node)}.t()"


_WIDTH = 80


def call_of(function: str, *arguments: str) -> str:
    """The source of a call, its arguments on a line of their own where one line would be long."""
    inside = ", ".join(arguments)
    return (
        f"{function}({inside})" if len(function) + len(inside) < _WIDTH else f"{function}(\n    {inside}\n)"
    )


def is_simple(node: cst.BaseExpression) -> bool:
    """Whether a node may be written twice: a name, an attribute or item of one, a constant."""
    if isinstance(node, cst.Attribute):
        return is_simple(node.value)
    if isinstance(node, cst.Subscript):
        return is_simple(node.value) and all(
            isinstance(part.slice, cst.Index) and is_simple(part.slice.value) for part in node.slice
        )
    return isinstance(node, (cst.Name, cst.Integer, cst.SimpleString))


def literal(node: cst.BaseExpression) -> str | None:
    """The text of True, False, None or a whole number; None for anything else."""
    if isinstance(node, cst.Integer) or (
        isinstance(node, cst.Name) and node.value in ("True", "False", "None")
    ):
        return node.value
    return None


def elements(target: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """The parts of a tuple or list of targets; None for another target, or where one is starred."""
    if not isinstance(target, (cst.Tuple, cst.List)):
        return None
    parts = [part.value for part in target.elements if not isinstance(part, cst.StarredElement)]
    return parts if len(parts) == len(target.elements) else None


def cell(mode: cst.BaseExpression) -> str:
    """An old mode, its constants replaced by now, as ``RNNDescriptor`` takes it."""
    source = text(mode)
    if isinstance(mode, cst.Integer) and int(source, 0) < len(Cell):
        return f'"{list(Cell)[int(source, 0)].value}"'
    known = re.fullmatch(r"rnncompat\.Cell\.(\w+)", source)
    return f'"{Cell[known[1]].value}"' if known else source
