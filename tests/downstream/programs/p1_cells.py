"""P1: a cell library that ran its cells through RNNDesc, as published cell code did from 2019 to 2021.

Each cell type brings a constructor of its own for the descriptor; descriptors are cached by the cell's
identity, weakly; the weights are set at every call; a cell returns (state, y); the adjoint turns the
gradients of pullback back to the cell's own shapes.
"""

import weakref
from dataclasses import dataclass

import torch

from rnncompat import legacy as CUDNN


@dataclass(eq=False)
class RNNCell:
    sigma: object
    Wi: torch.Tensor
    Wh: torch.Tensor
    b: torch.Tensor
    h: torch.Tensor


@dataclass(eq=False)
class LSTMCell:
    Wi: torch.Tensor
    Wh: torch.Tensor
    b: torch.Tensor
    h: torch.Tensor
    c: torch.Tensor


@dataclass(eq=False)
class GRUCell:
    Wi: torch.Tensor
    Wh: torch.Tensor
    b: torch.Tensor
    h: torch.Tensor


def rnn_mode(cell):
    return CUDNN.CUDNN_RNN_TANH if cell.sigma is torch.tanh else CUDNN.CUDNN_RNN_RELU


MODES = {
    RNNCell: rnn_mode,
    LSTMCell: lambda cell: CUDNN.CUDNN_LSTM,
    GRUCell: lambda cell: CUDNN.CUDNN_GRU,
}


class RNNDesc(CUDNN.RNNDesc):
    """``CUDNN.RNNDesc(m::Cell)``: the constructor that the cell types added."""

    def __init__(self, cell):
        super().__init__(MODES[type(cell)](cell), cell.Wi.shape[1], len(cell.h))


descs = weakref.WeakKeyDictionary()


def desc(cell):
    if cell not in descs:
        descs[cell] = RNNDesc[cell.Wi.dtype](cell)
    CUDNN.setweights(descs[cell], cell.Wi, cell.Wh, cell.b)
    return descs[cell]


def unbroadcast(gradient, shape):
    if gradient.shape == shape:
        return gradient
    if gradient.numel() == torch.Size(shape).numel():
        return gradient.reshape(shape)
    return gradient.sum(1).reshape(shape)


def call(cell, state, x):
    """``cell(state, x) -> (state, y)``."""
    if isinstance(cell, LSTMCell):
        y, h, c = CUDNN.forward(desc(cell), x, *state)
        return (h, c), y
    y, h = CUDNN.forward(desc(cell), x, state)
    return h, y


def adjoint(cell, state, x):
    """The value of ``call`` and the function from (dstate, dy) to (dcell, dstate, dx)."""
    is_lstm = isinstance(cell, LSTMCell)
    states = state if is_lstm else (state,)
    (y, *after), back = CUDNN.pullback(desc(cell), x, *states)

    def adjoint_back(dstate, dy):
        incoming = dstate if dstate is not None else (None,) * len(states)
        incoming = incoming if is_lstm or dstate is None else (incoming,)
        result = back(dy, *incoming)
        dcell = {"Wi": result.Wi.t(), "Wh": result.Wh.t(), "b": result.b}
        parts = [result.h, result.c] if is_lstm else [result.h]
        dstates = tuple(unbroadcast(g, s.shape) for g, s in zip(parts, states))
        return dcell, dstates if is_lstm else dstates[0], result.x

    return (tuple(after) if is_lstm else after[0], y), adjoint_back


def bptt(cell, state, xs, dys):
    """Backpropagation through time over a list of inputs; returns outputs, summed dcell, dstate, dxs."""
    backs, ys = [], []
    for x in xs:
        (state, y), back = adjoint(cell, state, x)
        ys.append(y)
        backs.append(back)
    total, dstate, dxs = {}, None, []
    for back, dy in zip(reversed(backs), reversed(dys)):
        dcell, dstate, dx = back(dstate, dy)
        total = {k: v + total.get(k, 0) for k, v in dcell.items()}
        dxs.insert(0, dx)
    return ys, total, dstate, dxs
