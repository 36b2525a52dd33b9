"""What rules ask about the file around a call."""

from __future__ import annotations

import libcst as cst

from .gradients import Pair, find_pairs
from .holders import Holders
from .names import Names
from .subclass import Subclass

__all__ = ["Facts"]

RECORDING = {"requires_grad", "requires_grad_", "backward", "autograd", "Parameter"}
READS_LATE = {"pullback", "backwardData", "backwardWeights"}
KEEPS_NOTHING = {
    "setweights",
    "setweights_b",
    "flux09.copyparams",
    "flux09.copyparams_b",
    "forward",
    "flux09.forwardInference",
    "ngates",
}


class Facts:
    """The answers for one file."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.holders = Holders(names)
        self.subclasses = {node: Subclass(node) for node in self.holders.subclasses.values()}
        self.pairs: dict[cst.Call, Pair] = find_pairs(names)
        self.records_gradients = bool(RECORDING & names.taken)
        self._late = any(
            names.legacy(node) in READS_LATE
            for node in names.scopes  # every node that is looked up by name
            if isinstance(node, (cst.Name, cst.Attribute))
        )

    def holds(self, node: cst.CSTNode) -> bool:
        """Whether a node is certain to hold an ``RNNDesc``."""
        return self.holders.holds(node)

    def subclass_of(self, node: cst.CSTNode) -> Subclass | None:
        """The subclass of ``RNNDesc`` that a node is inside, if it can be rewritten."""
        found = next((self.subclasses[n] for n in self.names.ancestors(node) if n in self.subclasses), None)  # type: ignore[index]  # in it
        return None if found is None or found.reason else found

    def rebindable(self, d: cst.BaseExpression) -> bool:
        """Whether the name *d* that ``setweights`` is called with may be bound anew instead.

        Nothing but this name may lead to the descriptor, nothing may have kept a view of its memory, and
        nothing may read the weights later than the call that it was given to.
        """
        scope = self.names.scopes.get(d)
        if not isinstance(d, cst.Name) or scope is None or self._late:
            return False
        assignments = scope[d.value]
        if not assignments or any(a.scope is not scope for a in assignments):
            return False
        return all(
            self._is_construction(getattr(a, "node", None))
            and all(map(self._leaves_nothing, (r.node for r in a.references)))
            for a in assignments
        )

    def _is_construction(self, target: cst.CSTNode | None) -> bool:
        assign = target and self.names.parents.get(self.names.parents.get(target))
        return isinstance(assign, cst.Assign) and self.names.called(assign.value) == "RNNDesc"

    def _leaves_nothing(self, node: cst.CSTNode) -> bool:
        """Whether this use of the descriptor neither keeps it nor a view of its memory."""
        parent = self.names.parents[node]
        if isinstance(parent, cst.Arg):
            called = self.names.called(self.names.parents[parent])
            return called in KEEPS_NOTHING
        return isinstance(parent, cst.Attribute) and parent.attr.value in (
            "input",
            "hidden",
            "mode",
            "descriptor",
        )

    def is_dead_reserve(self, call: cst.Call) -> bool:
        """Whether the reserve that a call of ``forwardTrain`` gives only goes to calls that need it no more."""
        assign = self.names.parents[call]
        target = assign.targets[0].target if isinstance(assign, cst.Assign) else None
        reserve = target.elements[0].value if isinstance(target, (cst.Tuple, cst.List)) else None
        scope = self.names.scopes.get(reserve) if isinstance(reserve, cst.Name) else None
        if not isinstance(reserve, cst.Name) or scope is None:
            return False
        uses = [access.node for a in scope[reserve.value] for access in a.references]
        return all(self.names.parents[self.names.parents[use]] in self.pairs for use in uses)
