"""One recurrent node of ONNX as plain data: its fields read and their shapes checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ..errors import InvalidValueError, UnsupportedError, bad_shape, bad_type
from .arrays import expect_shape, read_array
from .onnx_attributes import Kind, read_attributes

__all__ = ["Layer", "Node", "named_nodes", "read_node"]

Node = Mapping[str, Any]
"""One node as plain data: ``op_type``, ``W``, ``R``, and what else it has."""

_NEEDED = frozenset({"op_type", "W", "R"})
_OPTIONAL = frozenset({"B", "P", "initial_h", "initial_c", "sequence_lens", "attributes"})


class Layer(NamedTuple):
    """One node, its own shapes checked."""

    name: str
    kind: Kind
    w: Tensor
    r: Tensor
    b: Tensor | None
    h: Tensor | None  # [D, B, H]
    c: Tensor | None
    has_lengths: bool

    def arrays(self) -> list[tuple[str, Tensor]]:
        """Pairs of a name for messages and an array."""
        fields = {"W": self.w, "R": self.r, "B": self.b, "initial_h": self.h, "initial_c": self.c}
        return [(f"{field} of {self.name}", array) for field, array in fields.items() if array is not None]


def named_nodes(nodes: Node | Sequence[Node]) -> list[tuple[str, Node]]:
    """Each node with a name for messages.

    Raises:
        InvalidTypeError: *nodes* is neither a mapping nor a list of some.
    """
    listed = [nodes] if isinstance(nodes, Mapping) else nodes
    fitting = isinstance(listed, (list, tuple)) and listed and all(isinstance(n, Mapping) for n in listed)
    if not fitting:
        raise bad_type("nodes", nodes, "a mapping with op_type, W and R, or a list of such mappings")
    return [(f"node {number}", node) for number, node in enumerate(listed, 1)]


def read_node(name: str, node: Node) -> Layer:
    """The node *name*, checked by itself.

    Raises:
        InvalidValueError: a field is missing, unknown or of a shape that does not fit the others.
        InvalidTypeError: an array cannot be read.
        UnsupportedError: it computes what no network here does.
    """
    if not node.keys() >= _NEEDED or not node.keys() <= _NEEDED | _OPTIONAL:
        raise InvalidValueError(
            f"{name} has the fields {sorted(node)}; expected op_type, W, R, and perhaps some of "
            f"{sorted(_OPTIONAL)}. X and lengths that are given belong to a call: x and lengths=."
        )
    given = {field: node.get(field) for field in ("W", "R", "B", "P", "initial_h", "initial_c")}
    arrays = {
        field: read_array(f"{field} of {name}", array) for field, array in given.items() if array is not None
    }
    for field in ("W", "R"):
        if arrays[field].dim() != 3:
            raise bad_shape(f"{field} of {name}", arrays[field], "of three dimensions")
    _refuse_peepholes(name, arrays.get("P"))
    kind = read_attributes(name, node["op_type"], node.get("attributes", {}), arrays["R"].shape[2])
    _check(name, kind, arrays)
    h, c = (_time_first(kind, arrays.get(field)) for field in ("initial_h", "initial_c"))
    has_lengths = node.get("sequence_lens") is not None
    return Layer(name, kind, arrays["W"], arrays["R"], arrays.get("B"), h, c, has_lengths)


def _check(name: str, kind: Kind, arrays: Mapping[str, Tensor]) -> None:
    directions, hidden = kind.directions, arrays["R"].shape[2]
    rows = kind.cell.gates * hidden
    batches = {
        field: arrays[field].shape[1 - kind.batch_first] for field in arrays if arrays[field].dim() == 3
    }
    shapes = {
        "W": ((directions, rows, arrays["W"].shape[2]), "[D, G*H, I]"),
        "R": ((directions, rows, hidden), "[D, G*H, H]"),
        "B": ((directions, 2 * rows), "[D, 2*G*H]"),
    }
    for field in ("initial_h", "initial_c"):
        batch = batches.get(field, 1)
        shapes[field] = (
            ((batch, directions, hidden), "[B, D, H]")
            if kind.batch_first
            else ((directions, batch, hidden), "[D, B, H]")
        )
    for field, (shape, meaning) in shapes.items():
        if field in arrays:
            expect_shape(
                f"{field} of {name}", arrays[field], shape, f"{meaning} of an {kind.cell.value} node"
            )


def _time_first(kind: Kind, state: Tensor | None) -> Tensor | None:
    """``[D, B, H]``, whatever the layout of the node."""
    return state.transpose(0, 1) if kind.batch_first and state is not None else state


def _refuse_peepholes(name: str, p: Tensor | None) -> None:
    if p is not None and bool((p != 0).any()):
        raise UnsupportedError(
            f"P of {name} is not zero: its gates look at c (peepholes), and those here do not."
        )
