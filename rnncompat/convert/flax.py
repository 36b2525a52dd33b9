"""Flax: the parameters of ``flax.linen``'s cells, a small dense layer for each gate.

``OptimizedLSTMCell`` and ``LSTMCell`` have ``ii if ig io`` without and ``hi hf hg ho`` with a bias; ``GRUCell`` has
``ir iz in`` with, ``hr hz`` without and ``hn`` with one; ``SimpleCell`` has ``i`` with and ``h`` without. A kernel is
``(in, H)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..descriptor import Bias, Cell, RNNDescriptor
from ..errors import InvalidValueError, UnsupportedError, bad_shape, bad_type
from ..weights import RNNWeights
from .arrays import expect_shape, read_array
from .biases import said_one, with_both_biases
from .gates import OURS
from .given import on_cpu, refuse_options, said_dropout
from .kernels import Direction, build, take_apart
from .result import Converted, Exported

__all__ = ["from_flax", "to_flax"]

Params = Mapping[str, Any]
"""The parameters of one cell: a kernel, and perhaps a bias, by the name of each dense layer."""

_LETTERS = {"lstm": "ifgo", "gru": "rzn", "rnn": ""}
_BIASED = {
    "lstm": ("hi", "hf", "hg", "ho"),
    "gru": ("ir", "iz", "in", "hn"),
    "rnn": ("i",),
}
_MODES = {"lstm": Bias.RECURRENT, "gru": Bias.DOUBLE, "rnn": Bias.INPUT}
_ACTIVATIONS = {"tanh": Cell.RNN_TANH, "relu": Cell.RNN_RELU}


def from_flax(
    layers: Params | Sequence[Params | tuple[Params, Params]], *, activation: str = "tanh"
) -> Converted:
    """Weights out of Flax cells that follow each other, each run by ``flax.linen.RNN`` over the sequence.

    The parameters do not tell other ``gate_fn`` and ``activation_fn`` than Flax's own, nor ``residual=True`` of a
    ``SimpleCell``: no cell here has these, so convert no such network.

    Args:
        layers: the parameters of one cell, ``variables["params"]`` as Flax nests them; or a list, one a layer, with
            a pair of them for ``flax.linen.Bidirectional``, the forward cell first.
        activation: ``"tanh"`` or ``"relu"``, of a ``SimpleCell``.

    Raises:
        InvalidValueError: a dense layer is missing or unknown, or a shape does not fit.
        InvalidTypeError: an array cannot be read, or dtypes differ.
        UnsupportedError: another activation, or layers that differ in cell, size or direction.

    Example:
        >>> dense = lambda rows: {"kernel": torch.zeros(rows, 5), "bias": torch.zeros(5)}
        >>> bare = lambda rows: {"kernel": torch.zeros(rows, 5)}
        >>> gru = {"ir": dense(3), "iz": dense(3), "in": dense(3), "hr": bare(5), "hz": bare(5), "hn": dense(5)}
        >>> from_flax(gru).descriptor
        RNNDescriptor('gru', 3, 5)
    """
    pairs = _listed(layers)
    kinds = [_kind(f"layer {number}", one) for number, pair in enumerate(pairs, 1) for one in pair]
    if len(set(kinds)) > 1:
        raise UnsupportedError(
            f"layers have the cells {kinds}; a descriptor has one. Convert them one by one."
        )
    cell = _cell(kinds[0], activation)
    read = [
        [_read(_name(number, k), kinds[0], one) for k, one in enumerate(pair)]
        for number, pair in enumerate(pairs, 1)
    ]
    return build(cell, OURS[cell], read, _MODES[kinds[0]])


def to_flax(descriptor: RNNDescriptor, weights: RNNWeights) -> Exported:
    """The parameters of one ``OptimizedLSTMCell``, ``GRUCell`` or ``SimpleCell`` a layer.

    Returns:
        A list with the nested parameters of each layer, or a pair of them, forward first, if the network has two
        directions. Flax has one bias a gate, and two for the new gate of a GRU: others are added up, none is zeros.

    Raises:
        UnsupportedError: the network has skip input, a projection or a clip.

    Example:
        >>> descriptor = RNNDescriptor("lstm", 3, 5)
        >>> arrays, done = to_flax(descriptor, RNNWeights.init(descriptor))
        >>> sorted(arrays[0]), tuple(arrays[0]["ii"]["kernel"].shape), done
        (['hf', 'hg', 'hi', 'ho', 'if', 'ig', 'ii', 'io'], (3, 5), ('bias_ih + bias_hh became one bias',))
    """
    refuse_options(descriptor, "Flax", ("input_mode", "proj_size", "cell_clip"))
    own = with_both_biases(on_cpu(descriptor, weights))
    kind = descriptor.cell.value.partition("_")[0]
    taken = take_apart(own.descriptor, OURS[descriptor.cell], own)
    layers = [[_params(kind, direction) for direction in layer] for layer in taken]
    arrays = [tuple(layer) if descriptor.bidirectional else layer[0] for layer in layers]
    return Exported(arrays, _said(descriptor) + said_dropout(descriptor))


def _said(d: RNNDescriptor) -> tuple[str, ...]:
    if d.cell is Cell.GRU and d.bias in (Bias.DOUBLE, Bias.RECURRENT):
        return ("bias_hh of r and z added to bias_ih",)
    if d.cell is Cell.GRU and d.bias is Bias.INPUT:
        return ("added a bias of zeros to hn",)
    if d.cell is Cell.LSTM and d.bias is Bias.INPUT:  # whose one bias is the state's there
        return ("bias_ih became the one bias",)
    return () if d.cell is Cell.LSTM and d.bias is Bias.RECURRENT else said_one(d.bias)


def _listed(layers: Any) -> list[tuple[Params, ...]]:
    """A tuple a layer: one cell, or two."""
    listed = [layers] if isinstance(layers, Mapping) else layers
    if isinstance(listed, list) and listed:
        pairs = [one if isinstance(one, tuple) else (one,) for one in listed]
        if all(len(pair) in (1, 2) and all(isinstance(one, Mapping) for one in pair) for pair in pairs):
            return pairs
    raise bad_type("layers", layers, "the parameters of one cell, or a list with one or a pair a layer")


def _name(number: int, direction: int) -> str:
    return f"layer {number}" + (", backward" if direction else "")


def _kind(name: str, params: Params) -> str:
    for kind, letters in _LETTERS.items():
        if params.keys() == {side + gate for side in "ih" for gate in letters or ("",)}:
            return kind
    raise InvalidValueError(
        f"{name} has {sorted(map(str, params))}; expected those of a GRUCell, an OptimizedLSTMCell or a SimpleCell of "
        "flax.linen."
    )


def _cell(kind: str, activation: str) -> Cell:
    allowed = list(_ACTIVATIONS) if kind == "rnn" else ["tanh"]
    if activation not in allowed:
        raise UnsupportedError(
            f"activation is {activation!r}; this cell has {' or '.join(map(repr, allowed))} here."
        )
    return {"lstm": Cell.LSTM, "gru": Cell.GRU}.get(kind, _ACTIVATIONS[activation])


def _read(name: str, kind: str, params: Params) -> Direction:
    """One cell, its dense layers side by side."""
    sides = [_side(name, kind, params, side) for side in "ih"]
    (kernel, bias_ih), (recurrent, bias_hh) = sides
    return Direction(name, kernel, recurrent, bias_ih, bias_hh)


def _side(name: str, kind: str, params: Params, side: str) -> tuple[Tensor, Tensor | None]:
    kernels: list[Tensor] = []
    biases: list[Tensor] = []
    for dense in (side + gate for gate in _LETTERS[kind] or ("",)):
        kernel, bias = _dense(f"{dense} of {name}", params[dense], dense in _BIASED[kind])
        if kernels:
            expect_shape(
                f"kernel of {dense} of {name}", kernel, tuple(kernels[0].shape), "as the others beside it"
            )
        kernels.append(kernel)
        biases.append(kernel.new_zeros(kernel.shape[1]) if bias is None else bias)
    some = any(dense[:1] == side for dense in _BIASED[kind])
    return torch.cat(kernels, 1), torch.cat(biases) if some else None


def _dense(name: str, dense: Any, biased: bool) -> tuple[Tensor, Tensor | None]:
    expected = {"kernel", "bias"} if biased else {"kernel"}
    if not isinstance(dense, Mapping) or dense.keys() != expected:
        found = sorted(map(str, dense)) if isinstance(dense, Mapping) else type(dense).__name__
        raise InvalidValueError(f"{name} has {found}; expected {sorted(expected)}.")
    kernel = read_array(f"kernel of {name}", dense["kernel"])
    if kernel.dim() != 2:
        raise bad_shape(f"kernel of {name}", kernel, "(in, H)")
    if not biased:
        return kernel, None
    bias = read_array(f"bias of {name}", dense["bias"])
    expect_shape(f"bias of {name}", bias, (kernel.shape[1],), "(H,)")
    return kernel, bias


def _params(kind: str, direction: Direction) -> dict[str, dict[str, Tensor]]:
    """The dense layers of one cell; what it has no bias for goes to the gate's other side."""
    letters = list(_LETTERS[kind]) or [""]
    assert direction.bias_ih is not None
    assert direction.bias_hh is not None
    parts = {
        side: dict(
            zip(
                letters,
                zip(kernel.chunk(len(letters), 1), bias.chunk(len(letters)), strict=True),
                strict=True,
            )
        )
        for side, kernel, bias in (
            ("i", direction.kernel, direction.bias_ih),
            ("h", direction.recurrent, direction.bias_hh),
        )
    }
    found: dict[str, dict[str, Tensor]] = {}
    for side, other in (("i", "h"), ("h", "i")):
        for gate in letters:
            kernel, bias = parts[side][gate]
            found[side + gate] = {"kernel": kernel.clone()}
            if side + gate in _BIASED[kind]:
                lost = other + gate not in _BIASED[kind]
                found[side + gate]["bias"] = bias + parts[other][gate][1] if lost else bias.clone()
    return found
