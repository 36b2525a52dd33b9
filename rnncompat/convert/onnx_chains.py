"""Which recurrent nodes of an ONNX model follow each other: what lies between may move numbers, and nothing else.

Sizes are followed as numbers or names through the graph, so that a reshape is known to keep time and batch apart.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..errors import InvalidValueError
from .onnx_constants import Constants
from .onnx_sizes import RULES, Follow, Moved, attributes_of_node, name_of_node

__all__ = ["RECURRENT", "find_chains"]

RECURRENT = ("LSTM", "GRU", "RNN")


def find_chains(library: Any, graph: Any, constants: Constants) -> list[list[Any]]:
    """The recurrent nodes of *graph*, those together that are the layers of one network."""
    follow = _Nodes(library, graph, constants)
    for at, node in enumerate(graph.node):
        follow.computed(node)
        if node.domain not in ("", "ai.onnx") or not node.output:
            continue
        if node.op_type in RECURRENT:
            follow.recurrent(at, node)
        elif node.op_type in RULES and node.input:
            # What a rule cannot make sense of stays unknown.
            with suppress(TypeError, ValueError, IndexError):
                RULES[node.op_type](follow, node)
    nexts: dict[int, list[int]] = {}
    for at, before in follow.before.items():
        nexts.setdefault(before, []).append(at)
    single = {before: after[0] for before, after in nexts.items() if len(after) == 1}
    single = {before: at for before, at in single.items() if follow.kinds[before] == follow.kinds[at]}
    chains = []
    for first in follow.kinds:
        if first not in single.values():
            chain = [first]
            while chain[-1] in single:
                chain.append(single[chain[-1]])
            chains.append([graph.node[at] for at in chain])
    return chains


class _Nodes(Follow):
    """The recurrent nodes besides: what kind each is, and which one it follows."""

    def __init__(self, library: Any, graph: Any, constants: Constants) -> None:
        super().__init__(library, graph, constants)
        self.kinds: dict[int, object] = {}
        self.before: dict[int, int] = {}
        self.after_nodes: set[str] = set()

    def computed(self, node: Any) -> None:
        """Whether numbers of a recurrent node, not shapes alone, go into the outputs of *node*."""
        come = node.op_type in RECURRENT or not self.after_nodes.isdisjoint(node.input)
        if come and node.op_type != "Shape":
            self.after_nodes.update(name for name in node.output if name)

    def recurrent(self, at: int, node: Any) -> None:
        if len(node.input) < 3:
            raise InvalidValueError(
                f"{name_of_node(node)} has the inputs {list(node.input)}; expected X, W, R and more."
            )
        attributes = attributes_of_node(self.library, node)
        batch_first = bool(attributes.get("layout"))
        directions = 2 if attributes.get("direction") == b"bidirectional" else 1
        hidden = attributes.get("hidden_size") or self.sizes.get(node.input[2], (None,))[-1]
        lengths, *states = (*node.input[4:7], "", "", "")[:3]
        self.kinds[at] = (node.op_type, hidden, attributes, self.source.get(lengths, lengths))
        first, second = (*self.sizes.get(node.input[0], ()), f"{at}.0", f"{at}.1")[:2]
        axes = ("B", "T") if batch_first else ("T", "B")
        came = self.moved.get(node.input[0])
        joined = came is not None and came.axes in ((*axes, "DH"), (*axes, "H"))
        if came is not None and joined and self.after_nodes.isdisjoint(states):
            self.before[at] = came.node
        if node.output and node.output[0]:
            y = node.output[0]
            self.moved[y] = Moved(at, ("B", "T", "D", "H") if batch_first else ("T", "D", "B", "H"))
            sizes = (
                (first, second, directions, hidden) if batch_first else (first, directions, second, hidden)
            )
            self.sizes[y] = sizes
