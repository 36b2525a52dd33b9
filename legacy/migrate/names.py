"""What the names in a file mean: which are ours, whatever they are called here, and which are free."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from operator import attrgetter
from types import ModuleType
from typing import Any

import libcst as cst
from libcst import metadata

from rnncompat import RNNCompatError, legacy

from ..registry import REGISTRY

__all__ = ["UNCERTAIN", "Names", "is_module", "registered"]

PREFIX = "rnncompat.legacy"
UNCERTAIN = "?"
"""Instead of an old name: it may be one of ours or something else, as after ``try: import … except``."""


class Names:
    """The names of one file.

    Args:
        file: its tree; every node asked about must be of the copy in :attr:`module`.
    """

    def __init__(self, file: cst.Module) -> None:
        self._wrapper = wrapper = metadata.MetadataWrapper(file)
        self.module = wrapper.module
        self.parents: Any = wrapper.resolve(metadata.ParentNodeProvider)
        self.scopes: Any = wrapper.resolve(metadata.ScopeProvider)
        self._qualified: Any = wrapper.resolve(metadata.QualifiedNameProvider)
        collector = _Identifiers()
        self.module.visit(collector)
        self.taken = collector.found
        self._fresh: dict[str, str] = {}

    def line(self, node: cst.CSTNode) -> int:
        """The line a node begins at."""
        positions: Any = self._wrapper.resolve(metadata.PositionProvider)  # kept after the first time
        return int(positions[node].start.line)

    def qualified(self, node: cst.CSTNode) -> set[metadata.QualifiedName]:
        """What a name or attribute may refer to."""
        if not _is_dotted(node):
            return set()
        found = self._qualified.get(node, set())
        return set(found() if callable(found) else found)

    def legacy(self, node: cst.CSTNode) -> str | None:
        """The registry's name of what a node refers to, ``""`` for the module itself, ``UNCERTAIN``, or None."""
        found = self.qualified(node)
        ours = [q.name for q in found if q.source is metadata.QualifiedNameSource.IMPORT and _is_ours(q.name)]
        if not ours:
            return None
        return registered(ours[0][len(PREFIX) + 1 :]) if len(found) == 1 else UNCERTAIN

    def called(self, node: cst.CSTNode) -> str | None:
        """The old name that a call calls, also through ``RNNDesc[dtype](…)``."""
        if not isinstance(node, cst.Call):
            return None
        func = node.func.value if isinstance(node.func, cst.Subscript) else node.func
        return self.legacy(func)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, from the inside out."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def statement(self, node: cst.CSTNode) -> cst.BaseStatement:
        """The line or block that a node belongs to."""
        around = itertools.chain([node], self.ancestors(node))
        return next(n for n in around if isinstance(n, cst.BaseStatement))

    def fresh(self, wish: str) -> str:
        """A name that the file does not use, near *wish*; the same for the same wish."""
        if wish not in self._fresh:
            candidates = itertools.chain([wish, f"new_{wish}"], (f"{wish}_{n}" for n in itertools.count(2)))
            self._fresh[wish] = next(name for name in candidates if name not in self.taken)
        return self._fresh[wish]

    def binds(self, name: str, module: str) -> bool | None:
        """Whether *name* means the module of that name everywhere; None if it is bound to something else."""
        bound = {assignment for scope in set(self.scopes.values()) if scope for assignment in scope[name]}
        meant = [a for a in bound if isinstance(a, metadata.ImportAssignment) and _imports(a, module)]
        if len(meant) < len([a for a in bound if not isinstance(a, metadata.BuiltinAssignment)]):
            return None
        return any(isinstance(a.scope, metadata.GlobalScope) for a in meant)


@functools.cache
def registered(name: str) -> str:
    """The registry's name of the object that *name* leads to: ``flux.reset`` is ``reset``; else *name* itself."""
    return name if name in REGISTRY else _rows().get(id(_object(name)), name)


def is_module(name: str) -> bool:
    """Whether a name of ``rnncompat.legacy`` is one of its modules, or it itself."""
    return name == "" or isinstance(_object(name), ModuleType)


@functools.cache
def _rows() -> dict[int, str]:
    return {id(attrgetter(name)(legacy)): name for name in reversed(REGISTRY)}


def _object(name: str) -> object:
    try:
        return attrgetter(name)(legacy)
    except (AttributeError, RNNCompatError):
        return None


class _Identifiers(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_Name(self, node: cst.Name) -> None:
        self.found.add(node.value)


def _is_dotted(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) or (isinstance(node, cst.Attribute) and _is_dotted(node.value))


def _is_ours(name: str) -> bool:
    return name == PREFIX or name.startswith(f"{PREFIX}.")


def _imports(assignment: metadata.ImportAssignment, module: str) -> bool:
    """Whether it is ``import module`` or ``import module.part`` without another name."""
    return isinstance(assignment.node, cst.Import) and any(
        (alias.evaluated_alias or alias.evaluated_name.split(".")[0]) == module
        and alias.evaluated_name.split(".")[0] == module
        for alias in assignment.node.names
    )
