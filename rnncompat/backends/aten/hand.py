"""One direction of one layer by a kernel with a backward pass written by hand.

torch's own backward of a loop over steps fills a gradient of the whole sequence at every step, which makes
packed sequences quadratic in T. These kernels are linear: a few small operations a step, and one matrix
product each for the gradients of the weights and of the input.

When a second derivative is asked for, the backward pass goes through plain operations instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...cells import CELLS
from ...descriptor import Cell
from ...transforms import batched
from ...weights import LayerWeights
from ..order import Order, enter
from ..precision import without_autocast
from .products import linear

__all__ = ["Arguments", "Gradients", "Kernel", "Record", "both_biases", "input_gates", "plain", "run_by_hand"]

Clip = tuple[float, float] | None
Outputs = tuple[Tensor, ...]


class Arguments(NamedTuple):
    """The tensors of one direction of one layer: x ``[N, I]``, its weights, h0 and c0 ``[R, ·]``."""

    x: Tensor
    weight_ih: Tensor | None
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    weight_hr: Tensor | None
    h0: Tensor
    c0: Tensor | None


class Gradients(NamedTuple):
    """The gradients of :class:`Arguments`, None where none is wanted."""

    x: Tensor | None
    weight_ih: Tensor | None
    weight_hh: Tensor | None
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    weight_hr: Tensor | None
    h0: Tensor | None
    c0: Tensor | None


class Record(NamedTuple):
    """What the forward pass left, and the gradients of its outputs (None: not used)."""

    outputs: Outputs
    kept: Outputs
    grads: tuple[Tensor | None, ...]


class Kernel(ABC):
    """The loop of one cell over packed rows and its backward pass."""

    cell: Cell

    @abstractmethod
    def forward(self, a: Arguments, order: Order, clip: Clip) -> tuple[Outputs, Outputs]:
        """The states after every step, ``(Y [N, P or H],)`` or ``(Y, C [N, H])``, and what backward needs."""

    @abstractmethod
    def backward(self, a: Arguments, order: Order, clip: Clip, record: Record) -> Gradients:
        """The gradient of each argument; of x and the weights only where they need one."""


def run_by_hand(
    kernel: Kernel, x: Tensor, weights: LayerWeights, start: Outputs, order: Order, clip: Clip
) -> Outputs:
    """States after every step of one direction: ``(Y,)``, or ``(Y, C)`` for an LSTM."""
    a = Arguments(x, *weights, start[0], *(start[1:] or (None,)))
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in a):
        return _ByHand.apply(kernel, order, clip, *a)  # type: ignore[no-untyped-call, no-any-return]  # torch's gap
    return kernel.forward(a, order, clip)[0]


class _ByHand(torch.autograd.Function):
    """Autograd's view of a kernel."""

    @staticmethod
    def forward(ctx: Any, kernel: Kernel, order: Order, clip: Clip, *tensors: Any) -> Outputs:
        outputs, kept = kernel.forward(Arguments(*tensors), order, clip)
        ctx.save_for_backward(*tensors, *outputs, *kept)
        ctx.call = kernel, order, clip, len(outputs)
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return without_autocast("cpu", lambda: _ByHand.gradients(ctx, grads))

    @staticmethod
    def gradients(ctx: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        kernel, order, clip, count = ctx.call
        saved, size = ctx.saved_tensors, len(Arguments._fields)  # read once: checkpointing allows no more
        a, record = Arguments(*saved[:size]), Record(saved[size : size + count], saved[size + count :], grads)
        # create_graph=True: the gradient is to be differentiated again; or vmap asks for many at once.
        if torch.is_grad_enabled() or batched(grads):
            return (None, None, None, *_differentiable(kernel.cell, a, order, clip, grads))
        return (None, None, None, *kernel.backward(a, order, clip, record))


def input_gates(x: Tensor, weight: Tensor | None, bias: Tensor | None, copies: int) -> Tensor:
    """A new ``W x + b`` for all rows ``[N, G*H]``; without W, x itself for each of *copies* gates."""
    if weight is None:
        gates = x.repeat(1, copies)
        return gates if bias is None else gates.add_(bias)
    return linear(x, weight, bias)


def both_biases(a: Arguments) -> Tensor | None:
    """The sum of the biases there are: only the GRU tells them apart."""
    if a.bias_ih is None or a.bias_hh is None:
        return a.bias_hh if a.bias_ih is None else a.bias_ih
    return a.bias_ih + a.bias_hh


def _differentiable(
    cell: Cell, a: Arguments, order: Order, clip: Clip, grads: tuple[Tensor | None, ...]
) -> list[Tensor | None]:
    """The gradients by plain operations, so that they can be differentiated again, or mapped."""
    again = torch.is_grad_enabled()
    needed = [i for i, t in enumerate(a) if t is not None and t.requires_grad]
    with torch.enable_grad():
        fresh = Arguments(*(t.view_as(t) if t is not None else None for t in a))  # type: ignore[arg-type]  # None stays None
        computed = plain(cell, fresh, order, clip)
    outputs = [(o, g) for o, g in zip(computed, grads, strict=True) if g is not None]
    found = torch.autograd.grad(
        [o for o, _ in outputs],
        [t for i, t in enumerate(fresh) if i in needed and t is not None],
        [g for _, g in outputs],
        create_graph=again,
        allow_unused=True,
    )
    results: list[Tensor | None] = [None] * len(a)
    for i, gradient in zip(needed, found, strict=True):
        results[i] = gradient
    return results


def plain(cell: Cell, a: Arguments, order: Order, clip: Clip) -> Outputs:
    """What a kernel computes, in operations that autograd can differentiate as often as asked."""
    gates = input_gates(a.x, a.weight_ih, a.bias_ih, cell.gates)
    start: Outputs = (a.h0,) if a.c0 is None else (a.h0, a.c0)
    state, after = start, []
    for gates_x, rows in zip(order.along(gates), order.walked(order.sizes), strict=True):
        state = tuple(enter(s, s0, rows) for s, s0 in zip(state, start, strict=True))
        h, *c = CELLS[cell](gates_x, F.linear(state[0], a.weight_hh, a.bias_hh), state, clip)
        state = (h if a.weight_hr is None else F.linear(h, a.weight_hr), *c)
        after.append(state)
    in_time = after[::-1] if order.reverse else after
    return tuple(torch.cat(parts) for parts in zip(*in_time, strict=True))
