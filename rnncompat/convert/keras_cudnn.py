"""Keras's old ``CuDNNLSTM`` and ``CuDNNGRU``: what their ``get_weights()`` gives.

Their arrays have Keras's shapes and order of gates, but hold cuDNN's numbers: the memory of each block ``(in, H)`` of
a kernel is a matrix ``[H, in]``, and the bias is the input's ``G*H`` numbers, then the state's. Keras's own loader
turned them when it read such a file into an ``LSTM`` or ``GRU``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..descriptor import Bias, Cell, RNNDescriptor
from ..errors import UnsupportedError, bad_shape, bad_type
from ..weights import RNNWeights
from .arrays import expect_shape, read_array
from .biases import said_both, with_both_biases
from .gates import KERAS, OURS, said, tell_cell
from .given import on_cpu, refuse_options, said_dropout
from .kernels import Direction, build, take_apart
from .result import Converted, Exported

__all__ = ["from_keras_cudnn", "to_keras_cudnn"]

_COUNTS = {3: 1, 6: 2}
"""Directions, by how many arrays a layer has."""


def from_keras_cudnn(layers: Sequence[Sequence[Any]], *, merge_mode: str = "concat") -> Converted:
    """Weights out of ``CuDNNLSTM`` or ``CuDNNGRU`` layers that follow each other.

    Args:
        layers: one ``layer.get_weights()`` a layer: ``[kernel (in, G*H), recurrent_kernel (H, G*H), bias
            (2*G*H,)]``; ``Bidirectional`` gives those of its forward layer, then those of its backward layer.
        merge_mode: of ``Bidirectional``.

    Raises:
        InvalidValueError: an array is missing, or of a shape that does not fit the others.
        InvalidTypeError: an array cannot be read, or dtypes differ.
        UnsupportedError: layers differ in size or direction, or another way to merge directions.

    Example:
        >>> layer = [torch.zeros(3, 20), torch.zeros(5, 20), torch.zeros(40)]
        >>> from_keras_cudnn([layer]).descriptor
        RNNDescriptor('lstm', 3, 5)
    """
    if not isinstance(layers, (list, tuple)) or not all(isinstance(one, (list, tuple)) for one in layers):
        raise bad_type(
            "layers", layers, "a list with one get_weights() a layer", "[layer.get_weights()] for one."
        )
    read = [_read_layer(f"layer {number}", list(arrays)) for number, arrays in enumerate(layers, 1)]
    if not read:
        raise bad_type("layers", layers, "at least one layer")
    if len(read[0]) == 2 and merge_mode != "concat":
        raise UnsupportedError(
            f"merge_mode is {merge_mode!r}; both directions here are joined by 'concat' only."
        )
    first = read[0][0]
    cell = tell_cell(
        f"recurrent_kernel of {first.name}, turned,", first.recurrent.t(), len(first.recurrent), None
    )
    return build(cell, KERAS[cell], read, Bias.DOUBLE)


def to_keras_cudnn(descriptor: RNNDescriptor, weights: RNNWeights) -> Exported:
    """One list a layer for ``layer.set_weights()`` of a ``CuDNNLSTM`` or ``CuDNNGRU``.

    Returns:
        ``[kernel (in, G*H), recurrent_kernel (H, G*H), bias (2*G*H,)]`` a direction; a bias that the network has
        not is zeros.

    Raises:
        UnsupportedError: the network is an RNN, or has skip input, a projection or a clip.

    Example:
        >>> descriptor = RNNDescriptor("gru", 3, 5, bias="none")
        >>> arrays, done = to_keras_cudnn(descriptor, RNNWeights.init(descriptor))
        >>> tuple(arrays[0][2].shape), done
        ((30,), ('gates r z n became z r n', 'added bias_ih and bias_hh of zeros'))
    """
    refuse_options(descriptor, "a CuDNN layer of Keras", ("input_mode", "proj_size", "cell_clip"))
    if descriptor.cell not in (Cell.LSTM, Cell.GRU):
        raise UnsupportedError(f"cell is {descriptor.cell.value!r}; Keras has CuDNNLSTM and CuDNNGRU only.")
    own = with_both_biases(on_cpu(descriptor, weights))
    arrays = [
        [t for direction in layer for t in _joined(direction, descriptor.gates)]
        for layer in take_apart(own.descriptor, KERAS[descriptor.cell], own)
    ]
    done = said(OURS[descriptor.cell], KERAS[descriptor.cell]) + said_both(descriptor.bias)
    return Exported(arrays, done + said_dropout(descriptor))


def _joined(direction: Direction, gates: int) -> list[Tensor]:
    assert direction.bias_ih is not None
    assert direction.bias_hh is not None
    kernels = [_turned(t.t(), gates) for t in (direction.kernel, direction.recurrent)]
    return [*kernels, torch.cat([direction.bias_ih, direction.bias_hh])]


def _turned(rows: Tensor, gates: int) -> Tensor:
    """Matrices ``[G*H, in]`` as blocks ``(in, H)`` side by side that have their memory."""
    blocks = (block.reshape(block.shape[1], block.shape[0]) for block in rows.contiguous().chunk(gates))
    return torch.cat(list(blocks), 1)


def _read_layer(name: str, arrays: list[Any]) -> list[Direction]:
    if len(arrays) not in _COUNTS:
        raise bad_type(name, arrays, "3 arrays, or 6 for Bidirectional", f"It has {len(arrays)}.")
    names = (name, f"{name}, backward")
    return [_read(names[k], *arrays[3 * k : 3 * k + 3]) for k in range(_COUNTS[len(arrays)])]


def _read(name: str, *arrays: Any) -> Direction:
    """One direction, its kernels as Keras's other layers have them."""
    fields = ("kernel", "recurrent_kernel", "bias")
    kernel, recurrent, bias = (
        read_array(f"{field} of {name}", a) for field, a in zip(fields, arrays, strict=True)
    )
    for field, matrix in (("kernel", kernel), ("recurrent_kernel", recurrent)):
        if matrix.dim() != 2:
            raise bad_shape(f"{field} of {name}", matrix, "of two dimensions")
    hidden, columns = recurrent.shape
    if not hidden or columns not in (3 * hidden, 4 * hidden):
        raise bad_shape(
            f"recurrent_kernel of {name}", recurrent, "[H, 3*H] of a CuDNNGRU or [H, 4*H] of a CuDNNLSTM"
        )
    expect_shape(f"kernel of {name}", kernel, (len(kernel), columns), "[in, G*H]")
    expect_shape(f"bias of {name}", bias, (2 * columns,), "[2*G*H], the input's and the state's")
    gates = columns // hidden
    return Direction(name, _unturned(kernel, gates), _unturned(recurrent, gates), *bias.chunk(2))


def _unturned(kernel: Tensor, gates: int) -> Tensor:
    """The inverse of :func:`_turned`, then turned: ``[in, G*H]``."""
    blocks = (block.contiguous().view(block.shape[1], block.shape[0]).t() for block in kernel.chunk(gates, 1))
    return torch.cat(list(blocks), 1)
