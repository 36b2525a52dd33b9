"""Attributes of ONNX's recurrent nodes: what a network can be told from, and what no network here does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..descriptor import Cell
from ..errors import InvalidValueError, UnsupportedError, bad_type, bad_value

__all__ = ["Kind", "read_attributes"]

_DIRECTIONS = {"forward": 1, "bidirectional": 2, "reverse": 1}

_FUNCTIONS: dict[str, dict[tuple[str, ...], Cell]] = {
    "LSTM": {("sigmoid", "tanh", "tanh"): Cell.LSTM},
    "GRU": {("sigmoid", "tanh"): Cell.GRU},
    "RNN": {("tanh",): Cell.RNN_TANH, ("relu",): Cell.RNN_RELU},
}
"""The activations of one direction that a cell here has, ONNX's own choice first."""


class Kind(NamedTuple):
    """What the attributes of one node say.

    Attributes:
        cell: the cell.
        directions: 1 or 2.
        batch_first: whether its data have the batch first (``layout=1``).
    """

    cell: Cell
    directions: int
    batch_first: bool


def read_attributes(where: str, op_type: object, attributes: object, hidden: int) -> Kind:
    """What the attributes of the node *where* say; *hidden* is the H of its matrices.

    Raises:
        InvalidTypeError: *attributes* is no mapping.
        InvalidValueError: an attribute has a value that ONNX does not know.
        UnsupportedError: the node computes what no network here does.
    """
    if not isinstance(op_type, str) or op_type not in _FUNCTIONS:
        raise InvalidValueError(f"op_type of {where} is {op_type!r}; expected one of {list(_FUNCTIONS)}.")
    if not isinstance(attributes, Mapping):
        raise bad_type(f"attributes of {where}", attributes, "a mapping of names to values")
    given = {str(name): _plain(value) for name, value in attributes.items() if value is not None}
    _check(where, given, hidden)
    if op_type == "GRU" and not given.get("linear_before_reset"):
        raise UnsupportedError(
            f"linear_before_reset of {where} is 0: r multiplies the state before the matrix, and the GRU here "
            "multiplies after it. No weights make one of the other; train it with linear_before_reset=1."
        )
    directions = _DIRECTIONS[given.get("direction", "forward")]
    cell = _cell(where, op_type, given.get("activations"), directions)
    return Kind(cell, directions, bool(given.get("layout")))


def _check(where: str, given: Mapping[str, Any], hidden: int) -> None:
    unknown = given.keys() - _CHOICES.keys() - _UNUSED - {"hidden_size", "activations", "clip"}
    if unknown:
        raise UnsupportedError(f"{where} has the attribute {min(unknown)!r}, which is not known here.")
    for name, value in given.items():
        if value not in _CHOICES.get(name, (value,)):
            raise bad_value(f"{name} of {where}", value, f"one of {list(_CHOICES[name])}")
        refused, reason = _REFUSED.get(name, (None, ""))
        if value == refused:
            raise UnsupportedError(f"{name} of {where} is {value!r}: {reason}")
    if given.get("hidden_size", hidden) != hidden:
        raise bad_value(f"hidden_size of {where}", given["hidden_size"], f"the H of its R, which is {hidden}")
    if "clip" in given:
        raise UnsupportedError(
            f"clip of {where} is {given['clip']!r}: it bounds the inputs of the gates, which no network here does; "
            "cell_clip bounds c. Where they never reach it, leave it out."
        )


def _plain(value: Any) -> Any:
    """Strings as such: the library for ONNX gives them as bytes."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


_CHOICES: dict[str, tuple[object, ...]] = {
    "direction": tuple(_DIRECTIONS),
    "layout": (0, 1),
    "linear_before_reset": (0, 1),
    "input_forget": (0, 1),
}
"""Values that ONNX knows."""

_UNUSED = frozenset({"activation_alpha", "activation_beta", "output_sequence"})
"""What changes nothing: sigmoid, tanh and ReLU take no numbers, and old models say which outputs are there."""

_REFUSED: dict[str, tuple[object, str]] = {
    "direction": (
        "reverse",
        (
            "no network here runs backward alone. Say 'forward', turn each row of x round within its length (x.flip(0) "
            "where all have T steps), and the output likewise."
        ),
    ),
    "input_forget": (1, "the input gate then is 1 - f, and here it is one of its own."),
}
"""Values that no network here can have, with the reason."""


def _cell(where: str, op_type: str, activations: list[str] | None, directions: int) -> Cell:
    choices = _FUNCTIONS[op_type]
    if not activations:
        return next(iter(choices.values()))
    each, rest = divmod(len(activations), directions)
    found = [
        tuple(str(one).lower() for one in activations[d * each : (d + 1) * each]) for d in range(directions)
    ]
    if rest or len(set(found)) != 1 or found[0] not in choices:
        expected = " or ".join(str([one.capitalize() for one in own] * directions) for own in choices)
        raise UnsupportedError(f"activations of {where} is {activations}; the {op_type} here has {expected}.")
    return choices[found[0]]
