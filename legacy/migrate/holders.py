"""Which expressions of a file hold an ``RNNDesc``: only what the file itself proves.

Proof is an annotation, a place as the descriptor of a legacy call, an assignment from a constructor, or
what follows from these through assignments, returned values and the calls of a function in the file.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import libcst as cst
from libcst import metadata

from .names import Names

__all__ = ["DESCRIPTOR_ATTRIBUTES", "Holders", "subclasses", "without_int"]

DESCRIPTOR_ATTRIBUTES = frozenset(
    {"weights", "bias", "params", "input", "hidden", "mode", "dtype", "core", "source", "ptr", "to_new"}
)
"""What an ``RNNDesc`` has and the core's weights have not, or under another name."""
_UNLIKE_OTHERS = {"weights", "bias", "params", "input", "hidden", "mode"}

TAKES_DESCRIPTOR = {
    "setweights": 0,
    "setweights_b": 0,
    "forward": 0,
    "forwardTrain": 0,
    "backwardData": 0,
    "backwardWeights": 0,
    "pullback": 0,
    "rnnParamSize": 1,
    "flux09.forwardInference": 0,
    "flux09.copyparams": 1,
    "flux09.copyparams_b": 1,
}
"""The position of the descriptor among the arguments of an old call."""

MAKES = ("RNNDesc", "flux.RNNDesc", "flux.desc")

Key = Hashable


def subclasses(names: Names) -> dict[str, cst.ClassDef]:
    """The classes on the file's top level whose only base is ``RNNDesc`` or ``RNNDesc[dtype]``."""
    found = {}
    for statement in names.module.body:
        if isinstance(statement, cst.ClassDef) and len(statement.bases) == 1:
            base = statement.bases[0].value
            base = base.value if isinstance(base, cst.Subscript) else base
            if names.legacy(base) == "RNNDesc":
                found[statement.name.value] = statement
    return found


class Holders(cst.CSTVisitor):
    """Answers :meth:`holds` for the nodes of one file."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.subclasses = subclasses(names)
        self._keys: set[Key] = set()
        self._modes: set[Key | None] = set()
        self._returning: set[str] = set()
        self._assigned: list[tuple[cst.BaseExpression, cst.BaseExpression]] = []
        self._returns: dict[str, list[cst.BaseExpression | None]] = {}
        self._functions: dict[str, cst.FunctionDef] = {}
        self._calls: dict[str, list[cst.Call]] = {}
        self._attributes: dict[Key | None, set[str]] = {}
        names.module.visit(self)
        size = -1
        while size != len(self._keys) + len(self._returning):
            size = len(self._keys) + len(self._returning)
            self._follow()
        self._proven_names = {
            key[-1] for key in self._keys if isinstance(key, tuple) and key[0] == "variable"
        }

    def holds(self, node: cst.CSTNode) -> bool:
        """Whether a node is certain to hold an ``RNNDesc``."""
        if isinstance(node, cst.Call):
            name = self._local(node.func.value if isinstance(node.func, cst.Subscript) else node.func)
            return self.names.called(node) in MAKES or name in self.subclasses or name in self._returning
        if isinstance(node, cst.Subscript) and self.names.legacy(node.value) == "flux.descs":
            return True
        return self._key(node) in self._keys

    def is_mode(self, node: cst.CSTNode) -> bool:
        """Whether a node is also what the file builds an ``RNNDesc`` with."""
        key = self._key(node)
        return key is not None and key in self._modes

    def makes(self, node: cst.Call) -> cst.ClassDef | None:
        """The class of this file that a call makes an instance of, where that is an ``RNNDesc``."""
        name = self._local(node.func.value if isinstance(node.func, cst.Subscript) else node.func)
        return self.subclasses.get(name or "")

    def looks_alike(self, node: cst.Attribute) -> bool:
        """Whether this is what only an ``RNNDesc`` would be asked for, of something that nothing proves to be one."""
        if self._is_method(node):
            return False
        asked = self._attributes.get(self._key(node.value), set()) & _UNLIKE_OTHERS
        namesake = isinstance(node.value, cst.Name) and node.value.value in self._proven_names
        return node.attr.value in asked and (namesake or ("weights" in asked and len(asked) > 1))

    def _is_method(self, node: cst.Attribute) -> bool:
        """Whether it is called, as no field of an ``RNNDesc`` is."""
        parent = self.names.parents[node]
        return isinstance(parent, cst.Call) and parent.func is node

    def visit_Attribute(self, node: cst.Attribute) -> None:
        key = self._key(node.value)
        if key is not None and not self._is_method(node):
            self._attributes.setdefault(key, set()).add(node.attr.value)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        if isinstance(self.names.parents[node], cst.Module):
            self._functions[node.name.value] = node
            self._returns[node.name.value] = list(_returned(node))
        for parameter in node.params.params:
            annotation = parameter.annotation
            if annotation and self.names.legacy(annotation.annotation) == "RNNDesc":
                self._keys.add(self._parameter(node, parameter))
        inside = next(
            (n for n in self.names.ancestors(node) if isinstance(n, (cst.ClassDef, cst.FunctionDef))), None
        )
        if inside in self.subclasses.values() and node.params.params:
            self._keys.add(("self", inside))

    def visit_Assign(self, node: cst.Assign) -> None:
        self._assigned += [(target.target, node.value) for target in node.targets]

    def visit_Call(self, node: cst.Call) -> None:
        called = self.names.called(node)
        position = TAKES_DESCRIPTOR.get(called or "")
        if (
            position is not None
            and len(node.args) > position
            and not any(a.star for a in node.args[: position + 1])
        ):
            self._keys.add(self._key(node.args[position].value))
        if called == "RNNDesc":
            mode = _argument(node, 0, "mode")
            self._modes.add(None if mode is None else self._key(without_int(self.names, mode)))
        name = self._local(node.func)
        if name:
            self._calls.setdefault(name, []).append(node)

    def _follow(self) -> None:
        """One round of what follows from what is known."""
        self._keys.discard(None)
        self._keys |= {self._key(target) for target, value in self._assigned if self.holds(value)} - {None}
        for name, values in self._returns.items():
            if values and all(value is not None and self.holds(value) for value in values):
                self._returning.add(name)
        for name, function in self._functions.items():
            calls = self._calls.get(name, [])
            for position, parameter in enumerate(function.params.params):
                given = [_argument(call, position, parameter.name.value) for call in calls]
                if given and all(value is not None and self.holds(value) for value in given):
                    self._keys.add(self._parameter(function, parameter))

    def _local(self, node: cst.CSTNode) -> str | None:
        found = self.names.qualified(node)
        if len(found) != 1 or next(iter(found)).source is not metadata.QualifiedNameSource.LOCAL:
            return None
        return next(iter(found)).name

    def _parameter(self, function: cst.FunctionDef, parameter: cst.Param) -> Key:
        return ("variable", self.names.scopes[parameter], parameter.name.value)

    def _key(self, node: cst.CSTNode) -> Key | None:
        """Equal for nodes that mean the same variable, attribute or item."""
        if isinstance(node, cst.Name):
            return self._variable(node)
        if isinstance(node, cst.Attribute):
            inner = self._key(node.value)
            return inner and (inner, "attribute", node.attr.value)
        if (
            isinstance(node, cst.Subscript)
            and len(node.slice) == 1
            and isinstance(node.slice[0].slice, cst.Index)
        ):
            index = node.slice[0].slice.value
            inner, at = self._key(node.value), self._key(index) or getattr(index, "value", None)
            return (inner, "item", at) if inner and isinstance(at, Hashable) else None
        return None

    def _variable(self, node: cst.Name) -> Key | None:
        scope = self.names.scopes.get(node)
        if scope is None:
            return None
        owners = {assignment.scope for assignment in scope[node.value]}
        if len(owners) != 1:
            return None
        owner = owners.pop()
        if isinstance(owner, metadata.FunctionScope) and isinstance(owner.parent, metadata.ClassScope):
            method = next(iter(scope[node.value])).node
            first = _first_parameter(self.names, method)
            if first == node.value:
                return ("self", next(n for n in self.names.ancestors(method) if isinstance(n, cst.ClassDef)))
        return ("variable", owner, node.value)


def without_int(names: Names, mode: cst.BaseExpression) -> cst.BaseExpression:
    """*mode* without ``int()`` around it, which left a mode as it was: they were whole numbers."""
    if (
        isinstance(mode, cst.Call)
        and len(mode.args) == 1
        and {q.name for q in names.qualified(mode.func)} == {"builtins.int"}
    ):
        return mode.args[0].value
    return mode


def _first_parameter(names: Names, node: cst.CSTNode) -> str | None:
    function = next((n for n in names.ancestors(node) if isinstance(n, cst.FunctionDef)), None)
    return function.params.params[0].name.value if function and function.params.params else None


def _returned(function: cst.FunctionDef) -> Iterator[cst.BaseExpression | None]:
    """What a function returns, without those inside it."""
    collector = _Returns(function)
    function.visit(collector)
    return iter(collector.found)


class _Returns(cst.CSTVisitor):
    def __init__(self, function: cst.FunctionDef) -> None:
        self.function = function
        self.found: list[cst.BaseExpression | None] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return node is self.function

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def visit_Return(self, node: cst.Return) -> None:
        self.found.append(node.value)


def _argument(call: cst.Call, position: int, name: str) -> cst.BaseExpression | None:
    """What a call gives for one parameter; None where that cannot be told."""
    for argument in call.args:
        if argument.keyword and argument.keyword.value == name:
            return argument.value
    if position >= len(call.args) or any(a.star or a.keyword for a in call.args[: position + 1]):
        return None
    return call.args[position].value
