"""``RNNDesc`` of CUDA.jl and CuArrays: its flat ``params``, one layer in one direction.

The buffer holds ``Wi`` and ``Wh``, each row-major as ``(G*H, in)``, then two biases ``(G*H,)``: ours in order and
shape. The old interface itself writes the first bias only; the second stays zero unless a program wrote it.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..descriptor import Cell, RNNDescriptor
from ..layout import layout_of
from ..weights import RNNWeights
from .arrays import expect_shape, read_array
from .biases import said_both, with_both_biases
from .given import on_cpu, refuse_options, said_dropout
from .result import Converted, Exported

__all__ = ["from_rnndesc", "to_rnndesc"]


def from_rnndesc(params: Any, *, cell: Cell | str, input_size: int, hidden_size: int) -> Converted:
    """Weights out of the ``params`` of an ``RNNDesc``.

    Args:
        params: the flat buffer, ``[G*H*(I + H + 2)]``.
        cell: the cell that its ``mode`` names: 0 ``"rnn_relu"``, 1 ``"rnn_tanh"``, 2 ``"lstm"``, 3 ``"gru"``.
        input_size: its ``input``.
        hidden_size: its ``hidden``.

    Raises:
        InvalidValueError: the buffer is of another size.
        InvalidTypeError: it holds no floating-point numbers.

    Example:
        >>> import torch
        >>> from_rnndesc(torch.zeros(42), cell="gru", input_size=3, hidden_size=2).descriptor
        RNNDescriptor('gru', 3, 2)
    """
    descriptor = RNNDescriptor(cell, input_size, hidden_size)
    flat: Tensor = read_array("params", params)
    expect_shape("params", flat, (layout_of(descriptor).size,), "G*H*(I + H + 2)")
    return Converted(descriptor, RNNWeights(descriptor, flat.clone()).requires_grad_(), ())


def to_rnndesc(descriptor: RNNDescriptor, weights: RNNWeights) -> Exported:
    """The ``params`` of an ``RNNDesc`` with the same mode and sizes.

    Returns:
        The flat buffer ``[G*H*(I + H + 2)]``: ``copyto!(desc.params, buffer)``. A bias that the network has not is
        added as zeros, which changes no value.

    Raises:
        UnsupportedError: the network has more than one layer or direction, skip input, a projection or a clip.

    Example:
        >>> descriptor = RNNDescriptor("lstm", 3, 2, bias="none")
        >>> arrays, done = to_rnndesc(descriptor, RNNWeights.init(descriptor))
        >>> arrays.shape, done
        (torch.Size([56]), ('added bias_ih and bias_hh of zeros',))
    """
    lacks = ("num_layers", "bidirectional", "input_mode", "proj_size", "cell_clip")
    refuse_options(descriptor, "an RNNDesc", lacks)
    flat = with_both_biases(on_cpu(descriptor, weights)).flat
    return Exported(flat, said_both(descriptor.bias) + said_dropout(descriptor))
