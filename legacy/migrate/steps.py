"""What the forward calls become: one ``rnn_step`` in front, and its results in the old shapes."""

from __future__ import annotations

import libcst as cst

from .calls import Call, Expression, Rewrite, Statements, Undecided
from .names import Names
from .text import bare, call_of, elements, literal, text, turned

__all__ = ["Given", "narrowed", "read_states", "results", "step_of", "step_results", "tuple_of"]

Given = dict[str, cst.BaseExpression]
WIDENS = ("forward", "forwardTrain", "flux09.forwardInference", "pullback", "backwardData", "backwardWeights")
"""Old calls around an ``hBatch`` that expand a state by themselves, or whose new form does."""


def narrowed(names: Names, parent: cst.CSTNode) -> bool:
    """Whether *parent* is an argument of a call that widens the state itself."""
    if not isinstance(parent, cst.Arg):
        return False
    return names.called(names.parents[parent]) in WIDENS


class States:
    """The states that a call is given: h, or h and c, or what stands behind a ``*``."""

    def __init__(self, call: Call, given: Given) -> None:
        self.star = given.get("*")
        self.parts = [given[name] for name in ("h", "c") if name in given]
        if len(self.parts) == 2 and literal(self.parts[1]) == "None":
            self.parts = self.parts[:1]
        if self.star is not None:
            if self.parts:
                raise Undecided("some states come through *, and others do not")
            self.name = call.once("states", self.star)
        elif not self.parts:
            raise Undecided("the arguments do not fit the old signature")

    @property
    def core(self) -> str:
        """As ``rnn_step`` takes them."""
        if self.star is not None:
            return f"rnncompat.RNNState(*(s.t()[None] for s in {self.name}))"
        return f"rnncompat.RNNState({', '.join(f'{turned(part)}[None]' for part in self.parts)})"

    @property
    def tuple(self) -> str:
        """A tuple of them, features first; a list behind a ``*`` may change later."""
        return (
            self.name
            if self.star is not None
            else f"({''.join(f'{text(part)}, ' for part in self.parts).strip()})"
        )

    @property
    def count(self) -> str:
        """How many, as a number or an expression."""
        return f"len({self.name})" if self.star is not None else str(len(self.parts))


def tuple_of(parts: list[cst.BaseExpression]) -> str:
    """The source of a tuple."""
    inside = ", ".join(map(text, parts))
    return f"({inside},)" if len(parts) == 1 else f"({inside})"


def step_of(weights: str, x: str, states: States) -> str:
    """The source of one step."""
    return call_of("rnncompat.rnn_step", f"{weights}.descriptor", weights, x, states.core)


def read_states(call: Call, given: Given) -> States:
    """The states among the arguments of a call."""
    return States(call, given)


def step_results(call: Call, given: Given, train: bool) -> Rewrite:
    """What takes the place of ``forward`` and ``forwardTrain``."""
    if "rnn" not in given or "x" not in given:
        raise Undecided("the arguments do not fit the old signature")
    weights = call.once("weights", given["rnn"])
    states = read_states(call, given)
    step = step_of(weights, turned(given["x"]), states)
    if call.use.kind == "expr":
        return Statements((*call.before, step))
    if call.use.item is not None:
        return Expression(_item(step, call.use.item, train))
    target = call.use.target
    if train:
        return _with_reserve(call, step, states, target)
    kept = _kept(target)
    if target is not None and len(kept) == 1:
        (index,) = kept
        return Statements((*call.before, f"{text(elements(target)[index])} = {_item(step, index, train)}"))  # type: ignore[index]  # kept is read from it
    return Expression(results(call, step, states, target))


def _item(step: str, index: int, train: bool) -> str:
    if train or index not in (0, 1, 2):
        raise Undecided(f"item {index} of its result has no equal; take its parts by name")
    return step + ("[0].t()", "[1].h[0].t()", "[1].c[0].t()")[index]


def _kept(target: cst.BaseExpression | None) -> list[int]:
    """Positions of the targets that are not ``_``."""
    parts = elements(target) if target is not None else None
    return [n for n, part in enumerate(parts or ()) if text(part) != "_"]


def _with_reserve(call: Call, step: str, states: States, target: cst.BaseExpression | None) -> Rewrite:
    """Autograd keeps what the reserve kept, so nothing takes its place."""
    parts = elements(target) if target is not None else None
    inner = parts[1] if parts and len(parts) == 2 else None
    outputs = results(call, step, states, inner)
    if inner is not None and call.facts.is_dead_reserve(call.original):
        return Statements((*call.before, f"{bare(inner)} = {outputs}"))
    return Expression(f"None, ({outputs})")


def results(call: Call, step: str, states: States, target: cst.BaseExpression | None) -> str:
    """The old ``y, ho[, co]`` after the step was put in front; y and ho in memory of their own, as they were."""
    output, state = call.names.fresh("output"), call.names.fresh("state")
    parts = elements(target) if target is not None else None
    if (
        parts is not None
        and states.count != str(len(parts) - 1)
        and (states.star is None or len(parts) not in (2, 3))
    ):
        raise Undecided(f"{len(parts)} results are taken of {states.count} states; c may be None")
    call.put_before(f"{output}, {state} = {step}")
    if parts is None and states.star is not None:
        return f"{output}.t(), *(s[0].t().clone() for s in {state}[: {states.count}])"
    new = [f"{state}.h[0].t().clone()", f"{state}.c[0].t()"][
        : (len(parts) if parts else int(states.count) + 1) - 1
    ]
    return ", ".join([f"{output}.t()", *new])
