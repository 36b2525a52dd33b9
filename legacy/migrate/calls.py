"""One legacy call as a rule sees it: its arguments by name, and what becomes of its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from .helpers import is_ours
from .names import Names
from .text import is_simple, text

__all__ = ["Call", "Expression", "Rewrite", "Rule", "Statements", "Undecided", "Use"]


class Undecided(Exception):  # noqa: N818  # no error: it ends a rule
    """A rule cannot tell what is right; the message is the reason that the user reads."""


@dataclass(frozen=True)
class Expression:
    """An expression takes the place of the call, or of the item that is taken of its result."""

    source: str


@dataclass(frozen=True)
class Statements:
    """These take the place of the whole statement."""

    sources: tuple[str, ...]


Rewrite = Expression | Statements


@dataclass(frozen=True)
class Use:
    """What becomes of the result of a call.

    Attributes:
        kind: ``"assign"``, ``"return"`` or ``"expr"`` where the call is all that stands there, else ``"inside"``.
        item: the constant that indexes the result, as in ``forward(…)[0]``.
        target: what is assigned to.
        hoistable: whether statements can be put in front.
    """

    kind: str
    item: int | None
    target: cst.BaseExpression | None
    hoistable: bool


@dataclass
class Call:
    """One legacy call.

    Attributes:
        name: the old name, ``forward``.
        original: the call as it stands in the file, for questions to *names*.
        node: the same with everything inside it rewritten.
        use: what becomes of its result.
        names: the names of the file.
        facts: what else the file tells.
        before: statements to put in front.
        helpers: functions that the new code calls and that go into the file.
    """

    name: str
    original: cst.Call
    node: cst.Call
    use: Use
    names: Names
    facts: Any
    before: list[str] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)

    def bind(self, function: Callable[..., Any], star: str | None = None) -> dict[str, cst.BaseExpression]:
        """The arguments by parameter; what stands behind ``*`` under the name *star*, where that is allowed."""
        parameters = [p for p in inspect.signature(function).parameters if p != "self"]
        bound: dict[str, cst.BaseExpression] = {}
        for position, argument in enumerate(self.node.args):
            if argument.star == "*" and star is not None and position == parameters.index(star):
                bound["*"] = argument.value
            elif argument.star or ("*" in bound and argument.keyword is None):
                raise Undecided("arguments come through * or **, so which is which is not known here")
            else:
                name = (
                    argument.keyword.value
                    if argument.keyword
                    else parameters[position]
                    if position < len(parameters)
                    else ""
                )
                if name not in parameters or name in bound:
                    raise Undecided("the arguments do not fit the old signature")
                bound[name] = argument.value
        return bound

    def argument(self, position: int, name: str) -> cst.BaseExpression | None:
        """An argument as it stands in the file; None if it is not there by itself."""
        named = (a.value for a in self.original.args if a.keyword and a.keyword.value == name)
        plain = [a for a in self.original.args[: position + 1] if not a.keyword and not a.star]
        return next(named, plain[position].value if len(plain) > position else None)

    def once(self, wish: str, node: cst.BaseExpression) -> str:
        """The source of an argument that the new code uses twice; a computed one gets a name first."""
        if is_simple(node) and not isinstance(node, (cst.Integer, cst.SimpleString)):
            return text(node)
        if not self.use.hoistable:
            raise Undecided(f"{text(node)} would be evaluated twice; give it a name first")
        name = self.names.fresh(wish)
        self.before.append(f"{name} = {text(node)}")
        return name

    def helper(self, name: str) -> str:
        """The name of a helper, which goes into the file."""
        if name in self.names.taken and not is_ours(self.names.module, name):
            raise Undecided(f"the name {name} means something else in this file; rename that first")
        self.helpers.add(name)
        return name

    def put_before(self, source: str) -> None:
        """Puts a statement in front of the one that the call is in."""
        if not self.use.hoistable:
            raise Undecided("its result is used inside an expression; assign it to names first")
        self.before.append(source)


Rule = Callable[[Call], Rewrite]
Rules = Mapping[str, Rule]
