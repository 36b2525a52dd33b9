"""The kernels of the two simple cells: one product and one activation a step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...descriptor import Cell
from ..order import Order, enter
from .backsweep import StateGradient, gradients, own
from .hand import Arguments, Clip, Gradients, Kernel, Outputs, Record, both_biases, input_gates

__all__ = ["RNN_RELU", "RNN_TANH"]


class _RNN(Kernel):
    """``h' = f(Wx + b + Rh)``, all of it in place in the buffer that becomes the output."""

    def __init__(
        self, cell: Cell, activate: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]
    ) -> None:
        self.cell = cell
        self.activate = activate
        self.slope = slope  # f' as a function of f's value

    def forward(self, a: Arguments, order: Order, clip: Clip) -> tuple[Outputs, Outputs]:
        y = input_gates(a.x, a.weight_ih, both_biases(a), 1)  # [N, H]
        h, rows, recurrent, activate = a.h0, len(a.h0), a.weight_hh.t(), self.activate
        for size, gates in zip(order.walked(order.sizes), order.along(y), strict=True):
            if size != rows:
                h, rows = enter(h, a.h0, size), size
            h = activate(gates.addmm_(h, recurrent))
        return (y,), ()

    def backward(self, a: Arguments, order: Order, clip: Clip, record: Record) -> Gradients:
        (y,), (dy,) = record.outputs, record.grads
        dh = StateGradient(order, own(dy, y), a.h0)
        dgates, weight = self.slope(y), a.weight_hh  # the slopes become the gradients in place
        walk = zip(
            reversed(order.along(dgates)),
            reversed(order.walked(dh.steps)),
            reversed(order.walked(dh.flow)),
            strict=True,
        )
        for dgate, after, flow in walk:
            dgate.mul_(after)
            for place, rows in flow:
                place.addmm_(dgate if rows is None else dgate[rows], weight)
        return gradients(a, dgates, order.before(y, a.h0), dh.start)


RNN_TANH = _RNN(Cell.RNN_TANH, torch.tanh_, lambda y: 1 - y * y)
RNN_RELU = _RNN(Cell.RNN_RELU, torch.relu_, lambda y: (y > 0).to(y.dtype))
