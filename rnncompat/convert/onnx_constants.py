"""Values of an ONNX model that depend on none of its inputs: exporters cut and join weights on the way to a node."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

from ..errors import InvalidValueError

__all__ = ["Constants"]

_MOVES = frozenset({"Cast", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""What gives some numbers of the first input, in another order or shape."""

_REPEATED = frozenset({"Expand", "Tile"})
"""What repeats its first input as its second says."""

_FOLDED = (
    _MOVES
    | _REPEATED
    | {"Add", "Concat", "Constant", "ConstantOfShape", "Gather", "Mul", "Shape", "Split", "Sub"}
)
"""What is computed here; nothing that a file says is run beside these."""

_SPARE = 1 << 16


class Constants:
    """Constants of a graph, computed when they are asked for.

    Args:
        library: the module ``onnx``.
        model: a model of it.
    """

    def __init__(self, library: ModuleType, model: Any) -> None:
        self._onnx, self._opsets = library, model.opset_import
        self._stored = {stored.name: stored for stored in model.graph.initializer}
        self._made = {
            name: (at, node) for at, node in enumerate(model.graph.node) for name in node.output if name
        }
        self._known: dict[str, Any] = {}
        # A file can ask for any number of copies of what it holds.
        self._limit = _SPARE + 4 * sum(math.prod(stored.dims) for stored in model.graph.initializer)

    def maker(self, name: str) -> str:
        """What gives *name*, for messages."""
        return self._made[name][1].op_type if name in self._made else "an input of the model"

    def value(self, name: str, *, batch_of_one: bool = False) -> Any | None:
        """The array *name*, or None if it depends on an input of the model or on what is not folded here.

        Args:
            name: of a value in the graph.
            batch_of_one: whether what is repeated, as over the rows of a batch, is taken once.
        """
        needed = self._needed(name, batch_of_one)
        if needed is None:
            return None
        computed: dict[str, Any] = {} if batch_of_one else self._known
        for node in needed:
            given = [self._get(one, computed) if one else None for one in _inputs(node, batch_of_one)]
            if any(array is None for one, array in zip(node.input, given, strict=False) if one):
                return None
            outputs = [given[0]] if batch_of_one and node.op_type in _REPEATED else self._compute(node, given)
            if outputs is None:
                return None
            computed.update(zip([made for made in node.output if made], outputs, strict=False))
        return self._get(name, computed)

    def filled_with(self, name: str) -> float | None:
        """The number that *name* is full of, whatever its shape, or None."""
        at = math.inf
        while True:
            array = self.value(name)
            if (
                array is not None
                and array.dtype.kind in "fiu"
                and array.size
                and (array == array.flat[0]).all()
            ):
                return float(array.flat[0])
            position, node = self._made.get(name, (at, None))
            if node is None or position >= at or not node.input:
                return None
            if node.op_type == "ConstantOfShape":
                return self._fill(node)
            if node.op_type not in _MOVES | _REPEATED:
                return None
            at, name = position, node.input[0]

    def depends_on_inputs(self, name: str) -> bool:
        """Whether numbers of an input of the model, not its shape alone, reach *name*."""
        seen, open_names = set(), [name]
        while open_names:
            one = open_names.pop()
            if not one or one in seen or one in self._stored:
                continue
            seen.add(one)
            if one not in self._made:
                return True
            _, node = self._made[one]
            open_names.extend([] if node.op_type == "Shape" else node.input)
        return False

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """The few whole numbers that are stored as *name*, as shapes and axes are, or None."""
        stored = self._stored.get(name)
        if stored is None and name in self._made and self._made[name][1].op_type == "Constant":
            found = self.value(name)
        else:
            found = None if stored is None or math.prod(stored.dims) > 64 else self._get(name, {})
        if found is None or found.dtype.kind not in "iu" or found.size > 64:
            return None
        return tuple(int(number) for number in found.flat)

    def _fill(self, node: Any) -> float | None:
        value = [self._array(attribute.t) for attribute in node.attribute if attribute.name == "value"]
        if not value:
            return 0.0
        return float(value[0].flat[0]) if value[0].dtype.kind in "fiu" and value[0].size else None

    def _needed(self, name: str, batch_of_one: bool) -> Iterable[Any] | None:
        """The nodes that *name* comes out of, in their order; None if one of them is not folded here."""
        found: dict[int, Any] = {}
        open_names = [name]
        while open_names:
            one = open_names.pop()
            if not one or one in self._stored or one in self._known:
                continue
            if one not in self._made:
                return None
            at, node = self._made[one]
            if node.op_type not in _FOLDED or node.domain not in ("", "ai.onnx"):
                return None
            if at not in found:
                found[at] = node
                open_names.extend(_inputs(node, batch_of_one))
        return [found[at] for at in sorted(found)]

    def _get(self, name: str, computed: dict[str, Any]) -> Any | None:
        for known in (computed, self._known):
            if name in known:
                return known[name]
        return self._array(self._stored[name]) if name in self._stored else None

    def _array(self, stored: Any) -> Any:
        try:
            return self._onnx.numpy_helper.to_array(stored)
        except Exception as error:  # noqa: BLE001  # sizes that do not fit the numbers, types that nobody knows
            raise InvalidValueError(
                f"The model holds {stored.name!r}, which cannot be read: {type(error).__name__}: {error}."
            ) from None

    def _compute(self, node: Any, given: Sequence[Any]) -> Sequence[Any] | None:
        described = [self._onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = self._onnx.helper.make_graph([node], "constant", [], described)
        model = self._onnx.helper.make_model(graph, opset_imports=self._opsets)
        feeds = {name: array for name, array in zip(node.input, given, strict=False) if name}
        try:
            if _BOUNDS.get(node.op_type, _none)(node, given) > self._limit:
                return None
            outputs: Sequence[Any] = self._onnx.reference.ReferenceEvaluator(model).run(None, feeds)
        except Exception:  # noqa: BLE001  # whatever a wrong file makes the operators raise: no value then
            return None
        return outputs if all(hasattr(array, "dtype") for array in outputs) else None


def _axis(node: Any) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == "axis"), 0)


def _none(node: Any, given: Sequence[Any]) -> int:
    return 0


def _product(sizes: Iterable[Any], least: int = 0) -> int:
    return math.prod(max(int(size), least) for size in sizes)


_BOUNDS: dict[str, Callable[[Any, Sequence[Any]], int]] = {
    "Add": lambda node, given: _product((array.size for array in given), 1),
    "Concat": lambda node, given: sum(int(array.size) for array in given),
    "ConstantOfShape": lambda node, given: _product(given[0].flat),
    "Expand": lambda node, given: int(given[0].size) * _product(given[1].flat, 1),
    "Gather": lambda node, given: int(given[0].size) // given[0].shape[_axis(node)] * int(given[1].size),
    "Tile": lambda node, given: int(given[0].size) * _product(given[1].flat),
}
_BOUNDS["Mul"] = _BOUNDS["Sub"] = _BOUNDS["Add"]
"""As many numbers as an operator can give at most; those that are not here give no more than they take."""


def _inputs(node: Any, batch_of_one: bool) -> list[str]:
    return list(node.input[:1] if batch_of_one and node.op_type in _REPEATED else node.input)
