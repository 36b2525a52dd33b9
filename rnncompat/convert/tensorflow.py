"""TensorFlow: the canonical arrays of ``CudnnRNN``, and the kernel of ``BasicLSTMCell``.

``CudnnRNN`` lists a matrix ``(H, in)`` and a bias ``(H,)`` for each gate of each pseudo-layer, the input's before the
state's, in cuDNN's order, which is ours. ``BasicLSTMCell`` has one kernel ``(in + H, 4*H)`` for ``[x; h]``, gates
i j f o, and adds ``forget_bias`` to f at run time; ``LSTMCell`` without peepholes has the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ..descriptor import Bias, Cell, RNNDescriptor
from ..errors import (
    InvalidValueError,
    UnsupportedError,
    bad_shape,
    bad_type,
    bad_value,
    check_choice,
    check_whole,
)
from ..weights import RNNWeights
from .arrays import expect_shape, read_array
from .biases import said_both, said_one, with_both_biases
from .gates import OURS, said
from .given import on_cpu, refuse_options, said_dropout
from .kernels import Direction, build, take_apart
from .result import Converted, Exported

__all__ = ["from_basic_lstm", "from_cudnn_rnn", "to_basic_lstm", "to_cudnn_rnn"]

_BASIC = "igfo"
Fields = Mapping[str, Any]  # the variables of one cell by name


def from_cudnn_rnn(
    weights: Sequence[Any],
    biases: Sequence[Any],
    *,
    cell: Cell | str,
    num_layers: int = 1,
    bidirectional: bool = False,
) -> Converted:
    """Weights out of the canonical arrays of ``CudnnLSTM``, ``CudnnGRU`` and ``CudnnRNNTanh`` or ``Relu``.

    Args:
        weights: for each layer and direction the matrices of the input ``(H, in)``, then those of the state
            ``(H, H)``, one a gate: 8 for an LSTM, 6 for a GRU, 2 for an RNN.
        biases: as many, ``(H,)`` each, in the same order.
        cell: which recurrence; the arrays do not tell.
        num_layers: stacked layers.
        bidirectional: whether each layer has a second direction, whose arrays follow those of the first.

    Raises:
        InvalidValueError: there are more or fewer arrays, or a shape does not fit the others.
        InvalidTypeError: an array cannot be read, or dtypes differ.

    Example:
        >>> weights = [torch.zeros(5, 3)] * 3 + [torch.zeros(5, 5)] * 3
        >>> from_cudnn_rnn(weights, [torch.zeros(5)] * 6, cell="gru").descriptor
        RNNDescriptor('gru', 3, 5)
    """
    kind = check_choice("cell", cell, Cell)
    check_whole("num_layers", num_layers, 1)
    directions = 2 if bidirectional else 1
    expected = 2 * kind.gates * num_layers * directions
    for name, arrays in (("weights", weights), ("biases", biases)):
        if not isinstance(arrays, (list, tuple)):
            raise bad_type(name, arrays, "a list of arrays")
        if len(arrays) != expected:
            raise InvalidValueError(
                f"{name} has {len(arrays)} arrays; expected {expected}: {2 * kind.gates} a layer and direction."
            )
    read = [_read_gates(weights, biases, kind.gates, number) for number in range(num_layers * directions)]
    layers = [read[start : start + directions] for start in range(0, len(read), directions)]
    return build(kind, OURS[kind], layers, Bias.DOUBLE)


def to_cudnn_rnn(descriptor: RNNDescriptor, weights: RNNWeights) -> Exported:
    """The canonical arrays of ``CudnnRNN``: a pair of lists, weights and biases, as :func:`from_cudnn_rnn` takes them.

    Those of its second version with a projection or skip input are neither read nor written.

    Raises:
        UnsupportedError: the network has skip input, a projection or a clip.

    Example:
        >>> descriptor = RNNDescriptor("lstm", 3, 5)
        >>> (matrices, biases), done = to_cudnn_rnn(descriptor, RNNWeights.init(descriptor))
        >>> len(matrices), tuple(matrices[0].shape), len(biases), done
        (8, (5, 3), 8, ())
    """
    refuse_options(descriptor, "what is written here of CudnnRNN", ("input_mode", "proj_size", "cell_clip"))
    own = with_both_biases(on_cpu(descriptor, weights))
    matrices: list[Tensor] = []
    biases: list[Tensor] = []
    for layer in own.by_layer():
        for matrix, bias in ((layer.weight_ih, layer.bias_ih), (layer.weight_hh, layer.bias_hh)):
            assert matrix is not None
            assert bias is not None
            matrices += [block.clone() for block in matrix.chunk(descriptor.gates)]
            biases += [block.clone() for block in bias.chunk(descriptor.gates)]
    return Exported((matrices, biases), said_both(descriptor.bias) + said_dropout(descriptor))


def from_basic_lstm(cells: Fields | Sequence[Fields], *, forget_bias: float = 1.0) -> Converted:
    """Weights out of a ``BasicLSTMCell``, or of several in a ``MultiRNNCell``.

    Args:
        cells: the variables of each cell by name: ``kernel`` ``(in + H, 4*H)`` and ``bias`` ``(4*H,)``.
        forget_bias: with which the cells were made; TensorFlow adds it to f at run time, so that it is in no
            variable, and here it is added to the bias: one addition in the bias's dtype; ``done`` says if it rounded.

    Raises:
        InvalidValueError: a variable is missing or unknown, a shape does not fit, or *forget_bias* is not finite.
        InvalidTypeError: an array cannot be read, or dtypes differ.
        UnsupportedError: a cell has peepholes.

    Example:
        >>> cell = {"kernel": torch.zeros(8, 20), "bias": torch.zeros(20)}
        >>> descriptor, weights, done = from_basic_lstm(cell)
        >>> descriptor, done[-1]
        (RNNDescriptor('lstm', 3, 5, bias='input'), 'forget_bias 1.0 added to the bias of f, exactly')
    """
    _check_finite(forget_bias)
    listed = [cells] if isinstance(cells, Mapping) else cells
    fits = isinstance(listed, (list, tuple)) and all(isinstance(cell, Mapping) for cell in listed)
    if not fits or not listed:
        raise bad_type("cells", cells, "the variables of one cell by name, or a list of such mappings")
    read = [_read_basic(f"cell {number}", cell) for number, cell in enumerate(listed, 1)]
    exact = [_raise_forget(direction, forget_bias) for direction in read]
    found = build(Cell.LSTM, _BASIC, [[direction] for direction in read], Bias.INPUT)
    how = "exactly" if all(exact) else f"rounded to {found.weights.flat.dtype}"
    extra = (f"forget_bias {forget_bias} added to the bias of f, {how}",) if forget_bias else ()
    return found._replace(done=found.done + extra)


def to_basic_lstm(descriptor: RNNDescriptor, weights: RNNWeights, *, forget_bias: float = 0.0) -> Exported:
    """The variables of one ``BasicLSTMCell`` a layer.

    Args:
        descriptor: an LSTM of one direction.
        weights: its weights.
        forget_bias: with which the cells are made there. 0 is always exact; another is taken off the bias of f, and
            refused if adding it again does not give the same numbers.

    Returns:
        A list of ``{"kernel": (in + H, 4*H), "bias": (4*H,)}``; two biases become their sum, none zeros.

    Raises:
        InvalidValueError: *forget_bias* is not finite.
        UnsupportedError: the network is no LSTM, or has a second direction, skip input, a projection or a clip; or
            *forget_bias* cannot be taken off exactly.

    Example:
        >>> descriptor = RNNDescriptor("lstm", 3, 5)
        >>> arrays, done = to_basic_lstm(descriptor, RNNWeights.init(descriptor))
        >>> tuple(arrays[0]["kernel"].shape), done
        ((8, 20), ('gates i f g o became i g f o', 'bias_ih + bias_hh became one bias'))
    """
    refuse_options(descriptor, "BasicLSTMCell", ("bidirectional", "input_mode", "proj_size", "cell_clip"))
    if descriptor.cell is not Cell.LSTM:
        raise UnsupportedError(f"cell is {descriptor.cell.value!r}; a BasicLSTMCell is an LSTM.")
    _check_finite(forget_bias)
    own = with_both_biases(on_cpu(descriptor, weights))
    arrays = [_basic(direction, forget_bias) for (direction,) in take_apart(own.descriptor, _BASIC, own)]
    done = said(OURS[Cell.LSTM], _BASIC) + said_one(descriptor.bias)
    done += (f"forget_bias {forget_bias} taken off the bias of f",) if forget_bias else ()
    return Exported(arrays, done + said_dropout(descriptor))


def _read_gates(weights: Sequence[Any], biases: Sequence[Any], gates: int, number: int) -> Direction:
    """One pseudo-layer: its matrices side by side."""
    start = 2 * gates * number
    sides = (slice(start, start + gates), slice(start + gates, start + 2 * gates))
    kernel, recurrent = (_side("weights", weights, side, 2) for side in sides)
    bias_ih, bias_hh = (_side("biases", biases, side, 1) for side in sides)
    return Direction(f"pseudo-layer {number}", kernel.t(), recurrent.t(), bias_ih, bias_hh)


def _side(name: str, arrays: Sequence[Any], side: slice, dims: int) -> Tensor:
    read = [read_array(f"{name}[{k}]", arrays[k]) for k in range(side.start, side.stop)]
    if read[0].dim() != dims:
        raise bad_shape(f"{name}[{side.start}]", read[0], "(H, in)" if dims == 2 else "(H,)")
    for k, array in enumerate(read, side.start):
        expect_shape(f"{name}[{k}]", array, tuple(read[0].shape), f"as {name}[{side.start}]")
    return torch.cat(read)


def _check_finite(forget_bias: float) -> None:
    if not isinstance(forget_bias, Real) or isinstance(forget_bias, bool):
        raise bad_type("forget_bias", forget_bias, "a number")
    if not math.isfinite(forget_bias):
        raise bad_value("forget_bias", forget_bias, "a finite number")


def _read_basic(name: str, fields: Fields) -> Direction:
    names = sorted(map(str, fields))
    if any("diag" in field for field in names):
        raise UnsupportedError(f"{name} has peepholes, {names}; no cell here has.")
    if fields.keys() != {"kernel", "bias"}:
        raise bad_value(name, names, "the variables kernel and bias")
    kernel, bias = (read_array(f"{field} of {name}", fields[field]) for field in ("kernel", "bias"))
    hidden, rest = divmod(kernel.shape[1], 4) if kernel.dim() == 2 else (0, 0)
    if not hidden or rest or kernel.shape[0] <= hidden:
        raise bad_shape(f"kernel of {name}", kernel, "(in + H, 4*H)")
    expect_shape(f"bias of {name}", bias, (4 * hidden,), "(4*H,)")
    rows = kernel.shape[0] - hidden
    return Direction(name, kernel[:rows], kernel[rows:], bias.clone(), None)


def _of_forget(direction: Direction, forget_bias: float) -> tuple[Tensor, Tensor]:
    """The part of f in the bias, a view, and *forget_bias* as TensorFlow has it: rounded to the bias's dtype."""
    assert direction.bias_ih is not None
    forget = direction.bias_ih.chunk(4)[_BASIC.index("f")]
    return forget, forget.new_tensor(forget_bias)


def _raise_forget(direction: Direction, forget_bias: float) -> bool:
    """Adds *forget_bias* in place; whether that was exact: Knuth's error of a sum is zero."""
    if not forget_bias:
        return True
    forget, constant = _of_forget(direction, forget_bias)
    before = forget.clone()
    added = forget.add_(constant) - before
    return not bool(((before - (forget - added)) + (constant - added)).any())


def _basic(direction: Direction, forget_bias: float) -> dict[str, Tensor]:
    assert direction.bias_ih is not None
    assert direction.bias_hh is not None
    bias = direction.bias_ih + direction.bias_hh
    if forget_bias:
        _lower_forget(direction._replace(bias_ih=bias), forget_bias)
    return {"kernel": torch.cat([direction.kernel, direction.recurrent]), "bias": bias}


def _lower_forget(direction: Direction, forget_bias: float) -> None:
    forget, constant = _of_forget(direction, forget_bias)
    less = forget - constant
    if bool((less + constant != forget).any()):
        raise UnsupportedError(
            f"forget_bias is {forget_bias}, which cannot be taken off the bias of {direction.name} without rounding "
            "it. Make the cell with forget_bias=0.0, and export so."
        )
    forget.copy_(less)
