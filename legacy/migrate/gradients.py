"""What the old gradient calls become: one small function in the file, which asks autograd for one step."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

import libcst as cst

from ..gradients import backwardWeights
from ..gradients import pullback as old_pullback
from .calls import Call, Expression, Rewrite, Statements, Undecided
from .names import Names
from .steps import read_states, results, step_of, tuple_of
from .text import bare, elements, is_simple, text, turned

__all__ = ["HELPER", "Pair", "backward_data", "backward_weights", "find_pairs", "pullback"]

HELPER = "step_gradients"


def pullback(call: Call) -> Rewrite:
    """The step, and ``step_gradients`` bound to what it was given: it reads them late, as ``back`` did."""
    given = call.bind(old_pullback, star="h")
    targets = elements(call.use.target) if call.use.target is not None else None
    if "rnn" not in given or "x" not in given or call.use.item is not None:
        raise Undecided("its result is not taken as outputs and back")
    weights, x = call.once("weights", given["rnn"]), call.once("step_input", given["x"])
    states = read_states(call, given)
    step = step_of(weights, turned(given["x"]) if x == text(given["x"]) else f"{x}.t()", states)
    apart = targets if targets and len(targets) == 2 else None
    outputs = results(call, step, states, apart[0] if apart else None)
    back = f"functools.partial({HELPER}, {weights}, {x}, {states.tuple})"
    call.helper(HELPER)
    if apart is None or text(apart[1]) in re.findall(r"\w+", outputs):
        return Expression(f"({outputs}), {back}")
    # back first: the outputs may be bound to the names of the inputs, as in (y, h), back = pullback(rnn, x, h).
    return Statements((*call.before, f"{text(apart[1])} = {back}", f"{bare(apart[0])} = {outputs}"))


class Pair:
    """``backwardData`` and the ``backwardWeights`` that follows it, which are one call of autograd."""

    def __init__(self, names: Names, data: cst.Assign, weights: cst.Assign) -> None:
        self.data, self.weights = data, weights
        first, second = data.value, weights.value
        assert isinstance(first, cst.Call)
        assert isinstance(second, cst.Call)
        self.names = names
        self.first, self.second = [a.value for a in first.args], [a.value for a in second.args]
        self.plain = not any(a.star or a.keyword for a in (*first.args, *second.args))

    @property
    def reserve(self) -> cst.BaseExpression:
        """The last argument of either call."""
        return self.first[-1]

    @property
    def states(self) -> list[cst.BaseExpression]:
        """h, or h and c, without the hBatch around it."""
        given = self.first[4:5] if len(self.first) == 6 else self.first[5:7]
        return [self._inner(part) for part in given if text(part) != "None"]

    @property
    def incoming(self) -> list[cst.BaseExpression]:
        """The gradients of the outputs."""
        return self.first[2:4] if len(self.first) == 6 else self.first[2:5]

    def _inner(self, node: cst.BaseExpression) -> cst.BaseExpression:
        if self.names.called(node) == "hBatch" and isinstance(node, cst.Call) and len(node.args) == 2:
            return node.args[1].value
        return node

    @property
    def targets(self) -> list[cst.BaseExpression] | None:
        """What is assigned to, in the order of the new result; None if it is not taken apart."""
        inputs, outer = elements(self.data.targets[0].target), elements(self.weights.targets[0].target)
        matrices = elements(outer[0]) if outer and len(outer) == 2 else None
        if (
            inputs is None
            or outer is None
            or matrices is None
            or len(matrices) != 2
            or len(inputs) != 1 + len(self.states)
        ):
            return None
        return [*inputs, *matrices, outer[1]]

    @property
    def fits(self) -> bool:
        """Whether the two are about one step and nothing in them is computed twice or lost."""
        if not self.plain or len(self.first) not in (6, 8) or len(self.second) != 5 or self.targets is None:
            return False
        d, x, h, y, reserve = self.second
        bound = {text(target) for target in elements(self.data.targets[0].target) or ()}
        if bound & {text(node) for node in (d, x, self._inner(h), h, y, reserve)}:
            return False  # the second call is given what the first one returned
        same = (
            (self.first[0], d),
            (self.first[1], y),
            (self.reserve, reserve),
            (self.states[0], self._inner(h)),
        )
        return all(text(a) == text(b) for a, b in same) and all(
            is_simple(node) for node in (d, x, y, reserve, *self.states, *self.incoming)
        )

    @property
    def source(self) -> str:
        """The statement that takes the place of both."""
        d, x = self.second[:2]
        given = ", ".join([text(d), text(x), tuple_of(self.states), *map(text, self.incoming)])
        return f"{', '.join(map(text, self.targets or []))} = {HELPER}({given})"


def find_pairs(names: Names) -> dict[cst.Call, Pair]:
    """The pairs of neighbouring statements, by either call."""
    finder = _Blocks(names)
    names.module.visit(finder)
    return finder.found


class _Blocks(cst.CSTVisitor):
    def __init__(self, names: Names) -> None:
        self.names = names
        self.found: dict[cst.Call, Pair] = {}

    def visit_Module(self, node: cst.Module) -> None:
        self._look(node.body)

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        self._look(node.body)

    def _look(self, body: Iterable[cst.CSTNode]) -> None:
        for data, weights in itertools.pairwise(map(_assignment, body)):
            if data is None or weights is None:
                continue
            called = (self.names.called(data.value), self.names.called(weights.value))
            if called == ("backwardData", "backwardWeights"):
                pair = Pair(self.names, data, weights)
                if pair.fits:
                    self.found.update(
                        (half.value, pair) for half in (data, weights) if isinstance(half.value, cst.Call)
                    )


def _assignment(line: cst.CSTNode) -> cst.Assign | None:
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    (small,) = line.body
    return small if isinstance(small, cst.Assign) and len(small.targets) == 1 else None


_APART = "only backwardData and a backwardWeights right after it, about the same step, can become one call of autograd"


def backward_data(call: Call) -> Rewrite:
    """Takes both halves, where they stand together."""
    pair = call.facts.pairs.get(call.original)
    if pair is None:
        raise Undecided(_APART)
    call.helper(HELPER)
    return Statements((pair.source,))


def backward_weights(call: Call) -> Rewrite:
    """Nothing is left of the second half."""
    call.bind(backwardWeights)
    if call.original not in call.facts.pairs:
        raise Undecided(_APART)
    return Statements(())
