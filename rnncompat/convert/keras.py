"""Keras: what ``layer.get_weights()`` gives for ``LSTM``, ``GRU``, ``SimpleRNN`` and ``Bidirectional`` of these.

A direction has a kernel ``(in, G*H)``, a recurrent kernel ``(H, G*H)`` and a bias: ``(G*H,)``, for a GRU with
``reset_after`` ``(2, 3*H)``, the input's and the state's. Gates are i f c o and z r h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..descriptor import Bias, Cell, RNNDescriptor
from ..errors import InvalidValueError, UnsupportedError, bad_shape, bad_type, bad_value
from ..weights import RNNWeights
from .arrays import read_array
from .biases import said_one, with_both_biases
from .gates import KERAS, OURS, said, tell_cell
from .given import on_cpu, refuse_options, said_dropout
from .kernels import Direction, build, take_apart
from .result import Converted, Exported

__all__ = ["from_keras", "to_keras"]

_ACTIVATIONS = {"tanh": Cell.RNN_TANH, "relu": Cell.RNN_RELU}
_SPLIT = {2: (2,), 3: (3,), 4: (2, 2), 6: (3, 3)}
"""Arrays of each direction, by how many a layer has."""


def from_keras(
    layers: Sequence[Sequence[Any]],
    *,
    activation: str = "tanh",
    recurrent_activation: str = "sigmoid",
    reset_after: bool = True,
    merge_mode: str = "concat",
) -> Converted:
    """Weights out of Keras layers that follow each other, all with ``return_sequences=True`` but the last.

    Args:
        layers: one ``layer.get_weights()`` a layer: ``[kernel, recurrent_kernel, bias]``, without the bias if the
            layer has none; ``Bidirectional`` gives those of its forward layer, then those of its backward layer.
        activation: of the layers, Keras's name; ``"tanh"``, or ``"relu"`` for ``SimpleRNN``.
        recurrent_activation: likewise, for LSTM and GRU.
        reset_after: of a GRU.
        merge_mode: of ``Bidirectional``.

    Raises:
        InvalidValueError: an array is missing, or of a shape that does not fit the others.
        InvalidTypeError: an array cannot be read, or dtypes differ.
        UnsupportedError: other activations, a GRU that resets before the product, another way to merge directions,
            or layers that differ in size or direction.

    Example:
        >>> gru = [torch.zeros(3, 15), torch.zeros(5, 15), torch.zeros(2, 15)]
        >>> descriptor, weights, done = from_keras([gru])
        >>> descriptor, done
        (RNNDescriptor('gru', 3, 5), ('gates z r n became r z n',))
    """
    read = [_read_layer(f"layer {number}", arrays) for number, arrays in enumerate(_listed(layers), 1)]
    first = read[0][0]
    cell = _tell(first, activation)
    _refuse(cell, activation, recurrent_activation, reset_after, merge_mode, bidirectional=len(read[0]) == 2)
    _check_kinds(cell, [direction for layer in read for direction in layer])
    split = [[_split_bias(direction, cell) for direction in layer] for layer in read]
    return build(cell, KERAS[cell], split, Bias.DOUBLE if cell is Cell.GRU else Bias.INPUT)


def to_keras(descriptor: RNNDescriptor, weights: RNNWeights) -> Exported:
    """One list a layer for ``layer.set_weights()``.

    The layers have ``units=hidden_size``, ``use_bias`` unless the network has none, Keras's default activations
    (``activation="relu"`` for ``"rnn_relu"``) and, for a GRU, ``reset_after=True``; both directions are a
    ``Bidirectional`` with ``merge_mode="concat"``.

    Returns:
        ``[kernel (in, G*H), recurrent_kernel (H, G*H), bias]`` a direction. A GRU keeps both its biases,
        ``(2, 3*H)``; those of the other cells become their sum ``(G*H,)``.

    Raises:
        UnsupportedError: the network has skip input, a projection or a clip.

    Example:
        >>> descriptor = RNNDescriptor("lstm", 3, 5, bidirectional=True)
        >>> arrays, done = to_keras(descriptor, RNNWeights.init(descriptor))
        >>> [tuple(array.shape) for array in arrays[0]], done
        ([(3, 20), (5, 20), (20,), (3, 20), (5, 20), (20,)], ('bias_ih + bias_hh became one bias',))
    """
    refuse_options(descriptor, "Keras", ("input_mode", "proj_size", "cell_clip"))
    own = on_cpu(descriptor, weights)
    done = said(OURS[descriptor.cell], KERAS[descriptor.cell])
    if descriptor.bias is not Bias.NONE:
        done += () if descriptor.cell is Cell.GRU else said_one(descriptor.bias)
        own = with_both_biases(own)
    taken = take_apart(own.descriptor, KERAS[descriptor.cell], own)
    arrays = [[t for direction in layer for t in _joined(direction, descriptor.cell)] for layer in taken]
    return Exported(arrays, done + said_dropout(descriptor))


def _joined(direction: Direction, cell: Cell) -> list[Tensor]:
    """The arrays of one direction, the biases as Keras has them."""
    arrays = [direction.kernel, direction.recurrent]
    if direction.bias_ih is None or direction.bias_hh is None:
        return arrays
    both = torch.stack([direction.bias_ih, direction.bias_hh])
    return [*arrays, both if cell is Cell.GRU else both.sum(0)]


def _listed(layers: Sequence[Sequence[Any]]) -> list[list[Any]]:
    # An array has a shape: given alone, its rows would be taken for arrays.
    if isinstance(layers, (list, tuple)) and layers and all(isinstance(one, (list, tuple)) for one in layers):
        return [list(arrays) for arrays in layers]
    raise bad_type(
        "layers", layers, "a list with one get_weights() a layer", "[layer.get_weights()] for one."
    )


def _read_layer(name: str, arrays: list[Any]) -> list[Direction]:
    if len(arrays) not in _SPLIT:
        raise InvalidValueError(
            f"{name} has {len(arrays)} arrays; expected 3, or 2 without bias, and twice as many for Bidirectional."
        )
    left, found = iter(arrays), []
    for direction, count in enumerate(_SPLIT[len(arrays)]):
        whole = f"{name}, backward" if direction else name
        fields = ("kernel", "recurrent_kernel", "bias")[:count]
        read = [read_array(f"{field} of {whole}", next(left)) for field in fields]
        found.append(Direction(whole, *read, *([None] * (4 - count))))
    return found


def _tell(first: Direction, activation: str) -> Cell:
    if first.recurrent.dim() != 2:
        raise bad_shape(f"recurrent_kernel of {first.name}", first.recurrent, "[H, G*H]")
    if not isinstance(activation, str):
        raise bad_type("activation", activation, "Keras's name of it, such as 'tanh'")
    hidden, columns = first.recurrent.shape
    simple = _ACTIVATIONS.get(activation) if columns == hidden else None
    if columns == hidden and simple is None:
        raise bad_value("activation", activation, "'tanh' or 'relu': no cell here has another")
    return tell_cell(f"recurrent_kernel of {first.name}, turned,", first.recurrent.t(), hidden, simple)


def _refuse(
    cell: Cell,
    activation: str,
    recurrent_activation: str,
    reset_after: bool,
    merge_mode: str,
    *,
    bidirectional: bool,
) -> None:
    """Refuses what no network here computes."""
    gated = cell in (Cell.LSTM, Cell.GRU)
    for name, value, only, matters in (
        ("activation", activation, "tanh", gated),
        ("recurrent_activation", recurrent_activation, "sigmoid", gated),
        ("reset_after", reset_after, True, cell is Cell.GRU),
        ("merge_mode", merge_mode, "concat", bidirectional),
    ):
        if matters and value != only:
            raise UnsupportedError(
                f"{name} is {value!r}; a {cell.value!r} here has {only!r} and nothing else."
            )


def _check_kinds(cell: Cell, directions: Sequence[Direction]) -> None:
    """Refuses layers of several cells, before a bias of one is taken for a wrong one of another."""
    for direction in directions:
        hidden, columns = direction.recurrent.shape if direction.recurrent.dim() == 2 else (0, 0)
        if hidden and columns != cell.gates * hidden and columns in (hidden, 3 * hidden, 4 * hidden):
            raise UnsupportedError(
                f"{directions[0].name} is a {cell.value!r}, but {direction.name} has {columns // hidden} gates; a "
                "descriptor has one cell. Convert them one by one."
            )


def _split_bias(direction: Direction, cell: Cell) -> Direction:
    """The biases apart: a GRU has them as two rows."""
    bias = direction.bias_ih
    if bias is None:
        return direction
    columns = direction.recurrent.shape[-1]
    if bias.shape == (2 * columns,):
        raise InvalidValueError(
            f"bias of {direction.name} has {2 * columns} numbers, as that of a CuDNNLSTM or CuDNNGRU, whose kernels "
            "lie otherwise too; rnncompat.convert.keras_cudnn reads them."
        )
    if cell is not Cell.GRU:
        return direction
    if bias.shape == (columns,):
        raise UnsupportedError(
            f"bias of {direction.name} has one row, so the GRU was made with reset_after=False: it multiplies the "
            "state by r before the matrix, and no cell here does."
        )
    if bias.shape != (2, columns):
        raise bad_shape(f"bias of {direction.name}", bias, f"[2, {columns}]")
    return direction._replace(bias_ih=bias[0], bias_hh=bias[1])
