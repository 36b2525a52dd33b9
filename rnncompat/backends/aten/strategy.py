"""Which runner serves a layer: one ordered table, of which the first row that fits is taken.

The numbers behind the order are in ``docs/benchmarks.md``; ``benchmarks/cpu.py`` makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from ...descriptor import Bias, Cell, InputMode
from ..base import Request, ReturnStates
from ..flat import in_layout_order, lie_flat
from ..plan import Plan
from .fused import by_cell, by_segments, dense, packed
from .hand import run_by_hand
from .hand_gru import GRU
from .hand_lstm import LSTM
from .hand_rnn import RNN_RELU, RNN_TANH
from .layer import Layer, LayerResult, Runner
from .products import large_products

__all__ = ["STRATEGIES", "Facts", "Strategy", "facts_of", "strategy_for"]

_KERNELS = {kernel.cell: kernel for kernel in (RNN_RELU, RNN_TANH, LSTM, GRU)}
_ONEDNN_DTYPES = (torch.float32, torch.bfloat16)


class Facts(NamedTuple):
    """What the choice depends on.

    Attributes:
        cell: the recurrence.
        one_step: a single dense step.
        gaps: lengths, a mask or resets leave packed rows of unequal steps.
        segments_pay: stretches of packed steps with one number of rows are worth a call of their own: five
            steps or more each, or a hidden size from 128.
        gradients: autograd records the call.
        extras: skip input, cell clip or projection, which torch's operations lack or run slowly.
        every: the states of every step are wanted.
        onednn: oneDNN has a fused LSTM for this dtype.
        prefers_torch: without gradients, torch's own loop over steps is at least as fast as ours: for an LSTM,
            and for a GRU whose products are too small for oneDNN.
        on_gpu: torch's operations run cuDNN there, without a copy and a warning if they find the weights of a
            whole network with both biases as they lay them out.
    """

    cell: Cell
    one_step: bool
    gaps: bool
    segments_pay: bool
    gradients: bool
    extras: bool
    every: bool
    onednn: bool
    prefers_torch: bool
    on_gpu: bool


@dataclass(frozen=True)
class Strategy:
    """A row of the table: its name, when it is taken in words and as a test, and what it runs."""

    name: str
    when: str
    fits: Callable[[Facts], bool]
    run: Runner


def by_hand(x: Tensor, layer: Layer) -> LayerResult:
    """Every direction by the hand-written kernel of the cell."""
    d, orders = layer.descriptor, layer.plan.orders(len(layer.weights))
    every = [
        run_by_hand(_KERNELS[d.cell], x, weights, start, order, d.cell_clip)
        for weights, start, order in zip(layer.weights, layer.starts(), orders, strict=True)
    ]
    last = [tuple(orders[k].final(s) for s in states) for k, states in enumerate(every)]
    return layer.result([states[0] for states in every], last, every)


STRATEGIES = (
    Strategy(
        "cell",
        "one dense step without skip input, clip or projection",
        lambda f: f.one_step and not f.extras,
        by_cell,
    ),
    Strategy(
        "dense",
        "on a GPU, without gaps and dropout, with both biases in one buffer",
        lambda f: f.on_gpu and not (f.gaps or f.extras or f.every),
        dense,
    ),
    Strategy(
        "dense",
        "LSTM without gaps in a dtype of oneDNN",
        lambda f: f.cell is Cell.LSTM and f.onednn and not (f.gaps or f.extras or f.every),
        dense,
    ),
    Strategy(
        "dense",
        "LSTM in another dtype, or a GRU of few rows, without gaps and without gradients",
        lambda f: f.prefers_torch and not (f.gaps or f.gradients or f.extras or f.every),
        dense,
    ),
    Strategy(
        "segments",
        "LSTM with gaps, of hidden size >= 128 or in stretches of five or more steps with one number of rows",
        lambda f: (
            f.cell is Cell.LSTM and f.onednn and f.gaps and f.segments_pay and not (f.extras or f.every)
        ),
        by_segments,
    ),
    Strategy(
        "packed",
        "LSTM with other gaps, or a GRU of few rows, without gradients",
        lambda f: f.prefers_torch and not (f.gradients or f.extras or f.every),
        packed,
    ),
    Strategy("hand", "everything else", lambda _: True, by_hand),
)


def strategy_for(facts: Facts) -> Strategy:
    """The first row that fits."""
    return next(row for row in STRATEGIES if row.fits(facts))


def facts_of(request: Request, plan: Plan, layer: int) -> Facts:
    """The facts of one layer of a request."""
    d = request.descriptor
    steps, gaps, on_cpu = len(plan.sizes), plan.place is not None, request.x.is_cpu
    skips = layer == 0 and d.input_mode is InputMode.SKIP
    return Facts(
        cell=d.cell,
        one_step=steps == 1 and not gaps,
        gaps=gaps,
        segments_pay=gaps and (d.hidden_size >= 128 or steps >= 5 * sum(1 for _ in groupby(plan.sizes))),
        gradients=gradients_wanted(request),
        extras=skips or d.cell_clip is not None or d.proj_size > 0,
        every=request.return_states is ReturnStates.ALL,
        onednn=on_cpu and request.x.dtype in _ONEDNN_DTYPES,
        prefers_torch=on_cpu
        and (d.cell is Cell.LSTM or (d.cell is Cell.GRU and not large_products(sum(plan.sizes), request.x))),
        on_gpu=not on_cpu and _for_torchs_cudnn(request),
    )


def _for_torchs_cudnn(request: Request) -> bool:
    d = request.descriptor
    plain = d.bias is Bias.DOUBLE and d.input_mode is InputMode.LINEAR and not request.drops
    return plain and lie_flat(d, in_layout_order(d, request.weights))


def gradients_wanted(request: Request) -> bool:
    """Whether autograd records the call."""
    if not torch.is_grad_enabled():
        return False
    tensors = (request.x, *request.state, *(t for w in request.weights for t in w))
    return any(t is not None and t.requires_grad for t in tensors)
