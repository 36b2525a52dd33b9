"""Sizes and shapes in an ONNX graph, followed as numbers or names, and where the ``Y`` of a node is moved to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import InvalidValueError
from .onnx_constants import Constants

__all__ = ["RULES", "Follow", "Moved", "attributes_of_node", "name_of_node"]

Sizes = tuple[Any, ...]
"""Sizes of axes: numbers, or names where they are not fixed."""


class Moved(NamedTuple):
    """The ``Y`` of a node, its axes moved: ``T``, ``B``, ``D``, ``H``, or ``DH`` for the last two joined."""

    node: int
    axes: tuple[str, ...]


def name_of_node(node: Any) -> str:
    """Its name, or that of its first output: names of nodes are optional."""
    return str(node.name or next((name for name in node.output if name), ""))


def attributes_of_node(library: Any, node: Any) -> dict[str, Any]:
    """Its attributes as plain data.

    Raises:
        InvalidValueError: one is of a kind that nobody knows.
    """
    try:
        return {one.name: library.helper.get_attribute_value(one) for one in node.attribute}
    except ValueError as error:
        raise InvalidValueError(
            f"{name_of_node(node)} has an attribute that cannot be read: {error}."
        ) from None


class Follow:
    """What is known of the values of a graph while its nodes are gone through in order."""

    def __init__(self, library: Any, graph: Any, constants: Constants) -> None:
        self.library, self.constants = library, constants
        self.sizes: dict[str, Sizes] = {
            **{one.name: _declared(one) for one in (*graph.value_info, *graph.input)},
            **{stored.name: tuple(stored.dims) for stored in graph.initializer},
        }
        self.contents: dict[str, Sizes] = {}
        self.moved: dict[str, Moved] = {}
        self.source: dict[str, str] = {}

    def numbers(self, node: Any, place: int) -> Sizes | None:
        """What the input at *place* holds, if it is a shape or the like."""
        name = node.input[place] if len(node.input) > place else ""
        return self.contents.get(name) or self.constants.numbers(name)

    def attribute(self, node: Any, name: str, otherwise: Any) -> Any:
        """The attribute of that name, or *otherwise*."""
        return attributes_of_node(self.library, node).get(name, otherwise)


def _declared(value: Any) -> Sizes:
    dims = value.type.tensor_type.shape.dim
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{value.name}.{place}"
        for place, dim in enumerate(dims)
    )


def _same(follow: Follow, node: Any) -> None:
    if node.op_type == "Dropout" and len(node.input) > 2:
        return  # with a switch for training
    source, target = node.input[0], node.output[0]
    _cast(follow, node)
    if source in follow.moved:
        follow.moved[target] = follow.moved[source]


def _cast(follow: Follow, node: Any) -> None:
    """Sizes stay, numbers are rounded: no longer what the node gave. Lengths stay what they are."""
    follow.source[node.output[0]] = follow.source.get(node.input[0], node.input[0])
    for known in (follow.sizes, follow.contents):
        if node.input[0] in known:
            known[node.output[0]] = known[node.input[0]]


def _unsqueeze(follow: Follow, node: Any) -> None:
    """Of the parts of a shape; nothing else is followed."""
    if node.input[0] in follow.contents:
        follow.contents[node.output[0]] = follow.contents[node.input[0]]


def _transpose(follow: Follow, node: Any) -> None:
    source, target = node.input[0], node.output[0]
    sizes, moved = follow.sizes.get(source), follow.moved.get(source)
    if sizes is None:
        return
    permutation = follow.attribute(node, "perm", list(reversed(range(len(sizes)))))
    if sorted(permutation) == list(range(len(sizes))):
        follow.sizes[target] = tuple(sizes[axis] for axis in permutation)
        if moved is not None and len(moved.axes) == len(sizes):
            follow.moved[target] = Moved(moved.node, tuple(moved.axes[axis] for axis in permutation))


def _squeeze(follow: Follow, node: Any) -> None:
    source, target = node.input[0], node.output[0]
    if source in follow.contents:
        follow.contents[target] = follow.contents[source]
    sizes, moved = follow.sizes.get(source), follow.moved.get(source)
    axes = follow.numbers(node, 1) or follow.attribute(node, "axes", None)
    if sizes is None or axes is None:
        return
    gone = {axis % len(sizes) for axis in axes} if sizes else set()
    follow.sizes[target] = tuple(size for axis, size in enumerate(sizes) if axis not in gone)
    if moved is not None and {(moved.axes[axis], sizes[axis]) for axis in gone} == {("D", 1)}:
        follow.moved[target] = Moved(moved.node, tuple(axis for axis in moved.axes if axis != "D"))


def _reshape(follow: Follow, node: Any) -> None:
    source, target = node.input[0], node.output[0]
    if source in follow.contents:
        follow.contents[target] = follow.contents[source]
    sizes, moved, wanted = follow.sizes.get(source), follow.moved.get(source), follow.numbers(node, 1)
    if sizes is None or wanted is None:
        return
    if not follow.attribute(node, "allowzero", 0):
        wanted = tuple(
            sizes[axis] if size == 0 and axis < len(sizes) else size for axis, size in enumerate(wanted)
        )
    follow.sizes[target] = tuple(
        f"{target}.{axis}" if size == -1 else size for axis, size in enumerate(wanted)
    )
    if moved is None:
        return
    axes, before = _joined(moved.axes, sizes)
    if _fits(before, wanted):
        follow.moved[target] = Moved(moved.node, axes)
        follow.sizes[target] = before


def _joined(axes: tuple[str, ...], sizes: Sizes) -> tuple[tuple[str, ...], Sizes]:
    """Without D, if that changes the place of no number: D is 1, or stands beside H."""
    if "D" in axes and sizes[axes.index("D")] == 1:
        kept = [place for place, axis in enumerate(axes) if axis != "D"]
        return tuple(axes[place] for place in kept), tuple(sizes[place] for place in kept)
    if axes[-2:] == ("D", "H") and all(isinstance(size, int) for size in sizes[-2:]):
        return (*axes[:-2], "DH"), (*sizes[:-2], sizes[-2] * sizes[-1])
    return axes, sizes


def _fits(sizes: Sizes, wanted: Sizes) -> bool:
    """Whether *wanted* is *sizes*, one of which may be left to be told."""
    different = [size for size, other in zip(wanted, sizes, strict=False) if size != other]
    return len(sizes) == len(wanted) and different in ([], [-1])


def _shape(follow: Follow, node: Any) -> None:
    sizes = follow.sizes.get(node.input[0])
    if sizes is not None:
        start, end = follow.attribute(node, "start", 0), follow.attribute(node, "end", None)
        follow.contents[node.output[0]] = sizes[start:end]


def _slice(follow: Follow, node: Any) -> None:
    data, starts, ends = (follow.numbers(node, place) for place in (0, 1, 2))
    steps = follow.numbers(node, 4) or (1,)
    if node.input[0] in follow.contents and data and starts and ends and steps == (1,):
        follow.contents[node.output[0]] = data[starts[0] : ends[0]]


def _gather(follow: Follow, node: Any) -> None:
    data, places = follow.contents.get(node.input[0]), follow.numbers(node, 1)
    if data and places and all(-len(data) <= place < len(data) for place in places):
        follow.contents[node.output[0]] = tuple(data[place] for place in places)


def _concat(follow: Follow, node: Any) -> None:
    parts = [follow.numbers(node, place) for place in range(len(node.input))]
    if all(parts):
        follow.contents[node.output[0]] = tuple(size for part in parts if part for size in part)


def _mul(follow: Follow, node: Any) -> None:
    one, other = follow.numbers(node, 0), follow.numbers(node, 1)
    if (
        one
        and other
        and all(isinstance(size, int) for size in (*one, *other))
        and len(one) == len(other) == 1
    ):
        follow.contents[node.output[0]] = (one[0] * other[0],)


RULES: dict[str, Callable[[Follow, Any], None]] = {
    "Cast": _cast,
    "Concat": _concat,
    "Dropout": _same,
    "Gather": _gather,
    "Identity": _same,
    "Mul": _mul,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
