"""The imports of a rewritten file: those that nothing uses any more go, those that the new code uses come."""

from __future__ import annotations

import sys
from typing import Any

import libcst as cst
from libcst import metadata

from .helpers import HELPERS, is_ours
from .names import PREFIX, Names
from .text import statement, text

__all__ = ["mend_imports"]

_MODULES = ("collections", "functools", "torch", "rnncompat")
"""What new code may use, in the order of import lines."""


def mend_imports(module: cst.Module, helpers: set[str]) -> cst.Module:
    """The module with its imports as the new code needs them, and the helpers that it calls."""
    sources = [source for name, source in HELPERS.items() if name in helpers and not is_ours(module, name)]
    if sources:
        made = cst.parse_module("\n\n".join(sources))
        module = _insert(module, list(made.body), after_imports=True)
    names = Names(module)
    missing = [name for name in _MODULES if _is_missing(names, name)]
    standard = [name for name in missing if name in sys.stdlib_module_names]
    prune = _Prune(names, [name for name in missing if name not in standard])
    pruned = names.module.visit(prune)
    pruned = _insert(pruned, [statement(f"import {name}") for name in prune.missing], after_imports=True)
    return _insert(pruned, [statement(f"import {name}") for name in standard], after_imports=False)


def _is_missing(names: Names, module: str) -> bool:
    """Whether ``module.something`` stands somewhere in the file where nothing binds the name."""
    return any(
        isinstance(node, cst.Name) and node.value == module and scope is not None and not scope[module]
        for node, scope in names.scopes.items()
    )


def _insert(module: cst.Module, lines: list[Any], *, after_imports: bool) -> cst.Module:
    """Puts statements before or after the imports at the top."""
    if not lines:
        return module
    kinds = [_kind(line, position) for position, line in enumerate(module.body)]
    first = next((n for n, kind in enumerate(kinds) if kind != "top"), len(kinds))
    last = next((n for n, kind in enumerate(kinds) if n >= first and kind != "import"), len(kinds))
    at = last if after_imports else first
    body = list(module.body)
    if after_imports:
        lines[0] = lines[0].with_changes(leading_lines=[cst.EmptyLine(indent=False)] * _apart(lines[0]))
    elif at < len(body):  # they take the place of the first import, with the empty line above it
        lines[0] = lines[0].with_changes(leading_lines=body[at].leading_lines)
        apart = [] if _is_standard(body[at]) else [cst.EmptyLine(indent=False)]
        body[at] = body[at].with_changes(leading_lines=apart)
    return module.with_changes(body=[*body[:at], *lines, *body[at:]])


def _apart(line: cst.CSTNode) -> int:
    """The empty lines above the first of new statements."""
    if isinstance(line, cst.BaseCompoundStatement):
        return 2
    return int(_kind(line, 1) != "import")


def _kind(line: cst.CSTNode, position: int) -> str:
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    if isinstance(small, cst.ImportFrom) and small.module and text(small.module) == "__future__":
        return "top"
    if isinstance(small, (cst.Import, cst.ImportFrom)):
        return "import"
    return "top" if position == 0 and isinstance(small, cst.Expr) else "code"


def _is_standard(line: cst.CSTNode) -> bool:
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    if isinstance(small, cst.ImportFrom):
        return small.module is not None and text(small.module).split(".")[0] in sys.stdlib_module_names
    return (
        isinstance(small, cst.Import)
        and small.names[0].evaluated_name.split(".")[0] in sys.stdlib_module_names
    )


class _Prune(cst.CSTTransformer):
    """Takes legacy imports out that nothing uses; the first one on the top level makes room for the new ones."""

    def __init__(self, names: Names, missing: list[str]) -> None:
        self.names = names
        self.missing = list(missing)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        (small, *more) = original_node.body
        if (
            more
            or not isinstance(small, (cst.Import, cst.ImportFrom))
            or isinstance(small.names, cst.ImportStar)
        ):
            return updated_node
        kept = [alias for alias in small.names if not self._is_idle(small, alias)]
        if len(kept) == len(small.names):
            return updated_node
        if kept:
            last = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return updated_node.with_changes(body=[small.with_changes(names=[*kept[:-1], last])])
        if not isinstance(self.names.parents[original_node], cst.Module) or not self.missing:
            return cst.RemoveFromParent()
        lines = [statement(f"import {name}") for name in self.missing]
        self.missing = []
        lines[0] = lines[0].with_changes(leading_lines=updated_node.leading_lines)
        if len(lines) > 1:  # torch and this package are groups of their own
            lines[1] = lines[1].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
        return cst.FlattenSentinel(lines)

    def _is_idle(self, small: cst.Import | cst.ImportFrom, alias: cst.ImportAlias) -> bool:
        """Whether an import brings one of our old names, and nothing uses it."""
        whole = alias.evaluated_name
        if isinstance(small, cst.ImportFrom):
            if small.module is None or small.relative:
                return False
            whole = f"{text(small.module)}.{whole}"
        if whole != PREFIX and not whole.startswith(f"{PREFIX}."):
            return False
        bound = alias.evaluated_alias or alias.evaluated_name.split(".")[0]
        if bound == "rnncompat":  # import rnncompat.legacy binds the whole package
            return not any(self.names.legacy(node) is not None for node in self.names.scopes)
        scope = self.names.scopes.get(small) or self.names.scopes.get(self.names.module)
        found = [a for a in scope[bound] if isinstance(a, metadata.ImportAssignment)]
        return all(not list(a.references) for a in found)
