"""Walks through a file and lets the rules rewrite what is ours."""

from __future__ import annotations

from typing import Any

import libcst as cst

from ..registry import REGISTRY, Kind
from .calls import Call, Rewrite, Statements, Undecided, Use
from .cells import held_weights
from .facts import Facts
from .holders import DESCRIPTOR_ATTRIBUTES
from .marks import lost_comments, marked, why_not
from .names import Names
from .rules import RULES, VALUES
from .subclass import with_dtype
from .text import expression, operand, statement, text

__all__ = ["Rewriter", "Todo"]

Todo = tuple[int, str]
"""The line in the file as it was, and the reason."""

_ATTRIBUTES = {
    "bias": '{d}["bias_ih_l0"]',
    "params": "{d}.flat",
    "input": "{d}.descriptor.input_size",
    "hidden": "{d}.descriptor.hidden_size",
    "mode": "{d}.descriptor.cell",
    "dtype": "{d}.flat.dtype",
    "core": "{d}",
    "weights": '({d}["weight_ih_l0"].t(), {d}["weight_hh_l0"].t())',
}


class Rewriter(cst.CSTTransformer):
    """Rewrites one file; ``todos`` says what is left, ``helpers`` which functions the new code calls."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.facts = Facts(self.names)
        self.todos: list[Todo] = []
        self.helpers: set[str] = set()
        self._reasons: dict[cst.BaseStatement, list[str]] = {}
        self._before: dict[cst.BaseStatement, list[str]] = {}
        self._instead: dict[cst.BaseStatement, tuple[str, ...]] = {}
        self._items: dict[cst.Subscript, str] = {}

    def todo(self, node: cst.CSTNode, name: str, reason: str) -> None:
        """Leaves a mark above the statement of *node*."""
        line = self.names.statement(node)
        reasons = self._reasons.setdefault(line, [])
        words = f"{name}: {reason}"
        if words not in reasons:
            reasons.append(words)
            self.todos.append((self.names.line(node), words))

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        if isinstance(node.names, cst.ImportStar) and node.module and text(node.module) == "rnncompat.legacy":
            self.todo(
                node,
                "import *",
                "which names are ours is not visible here; import them by name and run again",
            )
        return False

    # ---- calls and other uses of names -------------------------------------------------------------------

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if self.facts.holders.makes(original_node):
            return self._made(original_node, updated_node)
        name = self.names.called(original_node)
        if self._is_super_init(original_node):
            name = "RNNDesc"
        if not name:
            return updated_node
        use = self._use(original_node)
        call = Call(name, original_node, updated_node, use, self.names, self.facts)
        try:
            rewrite = self._rule(call)
        except Undecided as reason:
            self.todo(original_node, name, str(reason))
            return original_node
        self.helpers |= call.helpers
        return self._place(call, rewrite)

    def _rule(self, call: Call) -> Rewrite:
        if call.name not in RULES:
            row = REGISTRY.get(call.name)
            if row is None:
                raise Undecided(why_not(call.name))
            went = "was never carried over" if row.kind is Kind.STUB else "has no rule"
            raise Undecided(f"it {went}; use {row.replacement}")
        if self._in_string(call.original):
            raise Undecided("it stands inside an f-string; give its result a name first")
        if any("autocast" in text(item) for item in self._withs(call.original)):
            raise Undecided("the old call did not take part in autocast, and the new one does")
        return RULES[call.name](call)

    def _in_string(self, node: cst.CSTNode) -> bool:
        return any(isinstance(n, cst.FormattedString) for n in self.names.ancestors(node))

    def _withs(self, node: cst.CSTNode) -> list[cst.WithItem]:
        return [item for n in self.names.ancestors(node) if isinstance(n, cst.With) for item in n.items]

    def _place(self, call: Call, rewrite: Rewrite) -> cst.BaseExpression:
        line = self.names.statement(call.original)
        if isinstance(rewrite, Statements):
            self._instead[line] = rewrite.sources
            return call.node
        self._before.setdefault(line, []).extend(call.before)
        if call.use.item is None:
            new = expression(rewrite.source)
            loose = call.use.kind == "inside" and isinstance(new, cst.Tuple) and not new.lpar
            return expression(f"({rewrite.source})") if loose else new
        self._items[self.names.parents[call.original]] = rewrite.source
        return call.node

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        if original_node in self._items:
            return expression(self._items[original_node])
        if self.names.legacy(original_node.value) == "flux.descs" and len(updated_node.slice) == 1:
            return self._held(updated_node)
        item, weights = _index(original_node), original_node.value
        if (
            item in ("0", "1")
            and self._is_attribute(weights, "weights")
            and isinstance(updated_node.value, cst.Tuple)
        ):
            return updated_node.value.elements[int(item)].value
        return updated_node

    def _held(self, node: cst.Subscript) -> cst.BaseExpression:
        """``descs[cell]``."""
        index = node.slice[0].slice
        return expression(held_weights(index.value)) if isinstance(index, cst.Index) else node

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        name = self.names.legacy(original_node)
        if name:
            return self._value(original_node, updated_node, name)
        attribute = original_node.attr.value
        if attribute in DESCRIPTOR_ATTRIBUTES and self.facts.holds(original_node.value):
            return self._attribute(original_node, updated_node, attribute)
        if self.facts.holders.looks_alike(original_node):
            self.todo(
                original_node,
                f"{text(original_node.value)}.{attribute}",
                "it looks like an RNNDesc, but nothing in this file says so; annotate it as one and run again",
            )
        return updated_node

    def _attribute(self, original: cst.Attribute, updated: cst.Attribute, name: str) -> cst.BaseExpression:
        if name not in _ATTRIBUTES or self._in_string(original):
            self.todo(original, f"RNNDesc.{name}", "it has no equal, or stands inside an f-string")
            return updated
        if isinstance(self.names.parents[original], (cst.AssignTarget, cst.AugAssign, cst.Del)):
            self.todo(original, f"RNNDesc.{name}", "it could never be assigned to")
            return updated
        new = _ATTRIBUTES[name].format(d=operand(updated.value))
        alone = isinstance(self.names.parents[original], (cst.Assign, cst.Return))
        return expression(new[1:-1] if name == "weights" and alone else new)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        name = self.names.legacy(original_node)
        if name is None or (name == "" and isinstance(self.names.parents[original_node], cst.Attribute)):
            return updated_node
        return self._value(original_node, updated_node, name)

    def _value(
        self, original: cst.BaseExpression, updated: cst.BaseExpression, name: str
    ) -> cst.BaseExpression:
        """An old name that is not called here."""
        parent = self.names.parents[original]
        called = isinstance(parent, cst.Call) and parent.func is original
        subscripted = (
            isinstance(parent, cst.Subscript) and self.names.called(self.names.parents[parent]) == name
        )
        held = name == "flux.descs" and isinstance(parent, cst.Subscript) and parent.value is original
        if called or subscripted or held or (isinstance(parent, cst.Attribute) and self.names.legacy(parent)):
            return updated
        if name in VALUES and not isinstance(parent, cst.Subscript):
            return expression(VALUES[name])
        self.todo(original, name or "legacy", why_not(name))
        return updated

    # ---- subclasses ----------------------------------------------------------------------------------------

    def _is_super_init(self, node: cst.Call) -> bool:
        return text(node.func) == "super().__init__" and self.facts.subclass_of(node) is not None

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        subclass = self.facts.subclass_of(original_node)
        if subclass is None or original_node.name.value != "__init__" or not subclass.adds_dtype:
            return updated_node
        return updated_node.with_changes(params=with_dtype(updated_node.params))

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        subclass = self.facts.subclasses.get(original_node)
        if subclass is None:
            return updated_node
        if subclass.reason:
            self.todo(original_node, "RNNDesc", subclass.reason)
            return updated_node.with_changes(bases=original_node.bases)
        base = updated_node.bases[0].with_changes(value=expression("rnncompat.RNNWeights"))
        return updated_node.with_changes(bases=[base])

    def _made(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        """``Own[dtype](…)`` of a subclass in this file; the dtype is an argument now."""
        made = self.facts.holders.makes(original)
        if made is None or self.facts.subclasses[made].reason:
            return updated
        if not isinstance(updated.func, cst.Subscript) or not isinstance(original.func, cst.Subscript):
            return updated
        index = updated.func.slice[0].slice
        assert isinstance(index, cst.Index)
        dtype = cst.Arg(
            index.value,
            cst.Name("dtype"),
            equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
        )
        return updated.with_changes(func=updated.func.value, args=[*updated.args, dtype])

    # ---- statements ----------------------------------------------------------------------------------------

    def _use(self, call: cst.Call) -> Use:
        whole: cst.CSTNode = call
        parent = self.names.parents[call]
        item = _index(parent) if isinstance(parent, cst.Subscript) and parent.value is call else None
        if item is not None:
            whole, parent = parent, self.names.parents[parent]
        line = self.names.statement(call)
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        kinds: dict[type, str] = {cst.Assign: "assign", cst.Return: "return", cst.Expr: "expr"}
        kind = (
            kinds.get(type(parent), "inside")
            if alone and getattr(parent, "value", None) is whole
            else "inside"
        )
        around = next(n for n in self.names.ancestors(line) if not isinstance(n, cst.IndentedBlock))
        target = (
            parent.targets[0].target if isinstance(parent, cst.Assign) and len(parent.targets) == 1 else None
        )
        first = kind != "inside" or (alone and self._comes_first(whole))
        hoistable = first and not isinstance(around, cst.ClassDef)
        return Use(kind, None if item is None else int(item), target if item is None else None, hoistable)

    def _comes_first(self, node: cst.CSTNode) -> bool:
        """Whether a node is part of a tuple that a line returns or assigns, and nothing but names stands before it."""
        element = self.names.parents[node]
        whole = self.names.parents[element]
        if not isinstance(element, cst.Element) or not isinstance(whole, cst.Tuple):
            return False
        before = whole.elements[: whole.elements.index(element)]
        return isinstance(self.names.parents[whole], (cst.Assign, cst.Return)) and all(
            isinstance(part.value, cst.Name) and isinstance(part, cst.Element) for part in before
        )

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        before = list(map(statement, self._before.get(original_node, ())))
        if original_node in self._instead:
            lines = [*before, *map(statement, self._instead[original_node])]
            if not lines:
                return cst.RemoveFromParent()
            last = lines[-1]
            if isinstance(last, cst.SimpleStatementLine):
                lines[-1] = last.with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        else:
            lines = [*before, updated_node.with_changes(leading_lines=()) if before else updated_node]
        above = [*updated_node.leading_lines, *lost_comments(original_node, lines)]
        lines[0] = lines[0].with_changes(leading_lines=above)
        lines[0] = self._marked(original_node, lines[0])
        return cst.FlattenSentinel(lines)

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Marks blocks too: their headers may hold what could not be decided."""
        result = super().on_leave(original_node, updated_node)
        if isinstance(original_node, cst.BaseCompoundStatement) and isinstance(result, cst.CSTNode):
            return self._marked(original_node, result)
        return result

    def _marked(self, original: Any, updated: Any) -> Any:
        body = self.names.module.body
        header = self.names.module.header if body and original is body[0] else ()
        return marked(updated, self._reasons.get(original, []), header)

    def _is_attribute(self, node: cst.CSTNode, name: str) -> bool:
        return isinstance(node, cst.Attribute) and node.attr.value == name and self.facts.holds(node.value)


def _index(node: cst.Subscript) -> str | None:
    """The whole number that a subscript has as its only index."""
    index = node.slice[0].slice if len(node.slice) == 1 else None
    return (
        index.value.value if isinstance(index, cst.Index) and isinstance(index.value, cst.Integer) else None
    )
