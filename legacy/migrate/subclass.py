"""Classes that a file derives from ``RNNDesc``, as libraries did to add a constructor of their own."""

from __future__ import annotations

import libcst as cst

from .text import expression, text

__all__ = ["Subclass", "with_dtype"]


class Subclass:
    """What is to be known of one such class.

    Attributes:
        reason: why it cannot be rewritten; empty if it can.
        dtype: the dtype of the buffer, in the source of the constructor.
        adds_dtype: whether the constructor gets an argument *dtype*, for what ``Own[dtype](…)`` said.
    """

    def __init__(self, node: cst.ClassDef) -> None:
        base = node.bases[0].value
        fixed = base.slice[0].slice if isinstance(base, cst.Subscript) else None
        init = _only_constructor(node)
        self.reason = _reason(init)
        self.adds_dtype = fixed is None
        self.dtype = fixed.value if isinstance(fixed, cst.Index) else expression("dtype")


def _only_constructor(node: cst.ClassDef) -> cst.FunctionDef | None:
    """Its ``__init__``, if the class holds nothing else but a docstring."""
    rest = [s for s in node.body.body if not _is_docstring(s)]
    (only,) = rest if len(rest) == 1 else (None,)
    return only if isinstance(only, cst.FunctionDef) and only.name.value == "__init__" else None


def _is_docstring(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and all(
        isinstance(small, cst.Expr) and isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))
        for small in node.body
    )


def _reason(init: cst.FunctionDef | None) -> str:
    if init is None:
        return "the subclass holds more than a constructor; derive it from rnncompat.RNNWeights by hand"
    starts = [line for line in init.body.body if text(line).strip().startswith("super().__init__(")]
    if len(starts) != 1:
        return "its constructor does not call super().__init__() once; derive it from rnncompat.RNNWeights by hand"
    params = init.params
    named = [p.name.value for p in (*params.params, *params.kwonly_params)]
    if params.star_kwarg is not None or "dtype" in named:
        return "its constructor passes options on; give rnncompat.RNNWeights its dtype and device by hand"
    return ""


def with_dtype(parameters: cst.Parameters) -> cst.Parameters:
    """The parameters and ``dtype=None`` by keyword."""
    made = cst.parse_statement("def f(*, dtype=None): ...")
    assert isinstance(made, cst.FunctionDef)
    star = (
        parameters.star_arg
        if isinstance(parameters.star_arg, cst.Param) or parameters.kwonly_params
        else made.params.star_arg
    )
    return parameters.with_changes(
        params=[p.with_changes(comma=cst.MaybeSentinel.DEFAULT) for p in parameters.params],
        star_arg=star,
        kwonly_params=[
            *(p.with_changes(comma=cst.MaybeSentinel.DEFAULT) for p in parameters.kwonly_params),
            *made.params.kwonly_params,
        ],
    )
