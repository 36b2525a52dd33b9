"""The four cell equations, one pure function each: the specification of every backend.

Each takes the two halves of the gate inputs, ``gates_x = W x + bW`` and ``gates_h = R h + bR``, both
``[B, G*H]``, and the state before the step, ``(h,)`` or ``(h, c)``; it returns the state after it. The
halves stay apart because the GRU multiplies only the recurrent one by its reset gate.

Source: `cudnnRNNMode_t <https://docs.nvidia.com/deeplearning/cudnn/latest/api/cudnn-adv-library.html>`_.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .descriptor import Cell

__all__ = ["CELLS", "CellStep"]

Clip = tuple[float, float] | None
StateTensors = tuple[Tensor, ...]
CellStep = Callable[[Tensor, Tensor, StateTensors, Clip], StateTensors]


def rnn_relu(gates_x: Tensor, gates_h: Tensor, state: StateTensors, clip: Clip) -> StateTensors:
    """``h' = max(0, Wx + bW + Rh + bR)``."""
    return (torch.relu(gates_x + gates_h),)


def rnn_tanh(gates_x: Tensor, gates_h: Tensor, state: StateTensors, clip: Clip) -> StateTensors:
    """``h' = tanh(Wx + bW + Rh + bR)``."""
    return (torch.tanh(gates_x + gates_h),)


def lstm(gates_x: Tensor, gates_h: Tensor, state: StateTensors, clip: Clip) -> StateTensors:
    """``c' = f * clip(c) + i * g`` is stored unclipped; ``h' = o * tanh(clip(c'))``.

    Gates i f g o; i, f, o through the logistic function, g through tanh.
    """
    _, c = state
    i, f, g, o = (gates_x + gates_h).chunk(4, dim=-1)  # [B, H] each
    c = torch.sigmoid(f) * _clipped(c, clip) + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(_clipped(c, clip)), c


def gru(gates_x: Tensor, gates_h: Tensor, state: StateTensors, clip: Clip) -> StateTensors:
    """``n = tanh(W_n x + bW_n + r * (R_n h + bR_n))``, ``h' = (1 - z) * n + z * h``; gates r z n."""
    (h,) = state
    x_r, x_z, x_n = gates_x.chunk(3, dim=-1)  # [B, H] each
    h_r, h_z, h_n = gates_h.chunk(3, dim=-1)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + r * h_n)
    return ((1 - z) * n + z * h,)


def _clipped(c: Tensor, clip: Clip) -> Tensor:
    # clamp's derivative is 1 inside the closed range and 0 outside, which is cuDNN's rule (measured).
    return c if clip is None else c.clamp(*clip)


CELLS: dict[Cell, CellStep] = {
    Cell.RNN_RELU: rnn_relu,
    Cell.RNN_TANH: rnn_tanh,
    Cell.LSTM: lstm,
    Cell.GRU: gru,
}
