"""Runners on torch's own operations: single cells, dense sequences, packed rows, and segments of these.

They exist with both biases or none; a bias that the descriptor has not is given as zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from ...descriptor import Cell
from ...state import RNNState
from ...weights import LayerWeights
from ..base import Request, Result
from .layer import Layer, LayerResult, States

__all__ = [
    "CELL_OPERATIONS",
    "by_cell",
    "by_segments",
    "dense",
    "packed",
    "whole_network",
]

_SEQUENCE: dict[Cell, Callable[..., Any]] = {
    Cell.RNN_TANH: torch._VF.rnn_tanh,
    Cell.RNN_RELU: torch._VF.rnn_relu,
    Cell.LSTM: torch._VF.lstm,
    Cell.GRU: torch._VF.gru,
}
CELL_OPERATIONS: dict[Cell, Callable[..., Any]] = {
    Cell.RNN_TANH: torch._VF.rnn_tanh_cell,
    Cell.RNN_RELU: torch._VF.rnn_relu_cell,
    Cell.LSTM: torch._VF.lstm_cell,
    Cell.GRU: torch._VF.gru_cell,
}


def _biases(w: LayerWeights) -> list[Tensor]:
    """Both biases or none."""
    if w.bias_ih is not None and w.bias_hh is not None:
        return [w.bias_ih, w.bias_hh]
    if w.bias_ih is None and w.bias_hh is None:
        return []
    zeros = w.weight_hh.new_zeros(len(w.weight_hh))
    return [zeros if b is None else b for b in (w.bias_ih, w.bias_hh)]


def _call(
    cell: Cell,
    layers: tuple[LayerWeights, ...],
    directions: int,
    before: tuple[Any, ...],
    states: Any,
    after: Any,
) -> Any:
    """Calls a sequence operation on one layer or more; *states* ``[L*D, R, ·]``."""
    weights: list[Tensor] = []
    for w in layers:
        weights += [t for t in (w.weight_ih, w.weight_hh, *_biases(w), w.weight_hr) if t is not None]
    has_biases = layers[0].bias_ih is not None or layers[0].bias_hh is not None
    options = (has_biases, len(layers) // directions, 0.0, torch.is_grad_enabled(), directions == 2, *after)
    return _SEQUENCE[cell](*before, states if cell is Cell.LSTM else states[0], weights, *options)


def _stacked(starts: list[States]) -> States:
    return tuple(
        torch.stack(parts) if len(parts) > 1 else parts[0][None] for parts in zip(*starts, strict=True)
    )


def whole_network(request: Request) -> Result:
    """Every layer of a dense request without dropout in one call."""
    d = request.descriptor
    output, *after = _call(d.cell, request.weights, d.num_directions, (request.x,), request.state, (False,))
    return Result(output, RNNState(*after))


def by_cell(x: Tensor, layer: Layer) -> LayerResult:
    """A single dense step by torch's cell operation."""
    results: list[States] = []
    for weights, states in zip(layer.weights, layer.states, strict=True):
        given = states if len(states) == 2 else states[0]
        after = CELL_OPERATIONS[layer.descriptor.cell](
            x, given, weights.weight_ih, weights.weight_hh, *(_biases(weights) or (None, None))
        )
        results.append(after if len(states) == 2 else (after,))
    return layer.result([after[0] for after in results], results, results)


def dense(x: Tensor, layer: Layer) -> LayerResult:
    """A sequence without gaps, both directions in one call (LSTM in float32 and bfloat16: oneDNN)."""
    steps = x.view(layer.plan.num_steps, layer.plan.batch_size, -1)
    y, *last = _call(
        layer.descriptor.cell, layer.weights, len(layer.weights), (steps,), _stacked(layer.starts()), (False,)
    )
    return layer.result([y.flatten(0, 1)], list(zip(*last, strict=True)))


def packed(x: Tensor, layer: Layer) -> LayerResult:
    """Packed rows: linear in T without gradients (with them, torch fills a whole gradient at every step)."""
    sizes = torch.tensor(layer.plan.sizes)
    y, *last = _call(
        layer.descriptor.cell, layer.weights, len(layer.weights), (x, sizes), _stacked(layer.starts()), ()
    )
    return layer.result([y], list(zip(*last, strict=True)))


def by_segments(x: Tensor, layer: Layer) -> LayerResult:
    """Each stretch of packed steps with one number of rows as a dense sequence, the state handed on."""
    segments = [(len(list(steps)), rows) for rows, steps in groupby(layer.plan.sizes)]
    parts = x.split([steps * rows for steps, rows in segments])  # type: ignore[no-untyped-call]  # torch's own gap
    inputs = [part.view(*segment, -1) for part, segment in zip(parts, segments, strict=True)]
    outputs, last = [], []
    for direction, (weights, start) in enumerate(zip(layer.weights, layer.starts(), strict=True)):
        walk = _walk_backward if direction else _walk_forward
        y, end = walk(inputs, partial(_segment, layer.descriptor.cell, weights), start)
        outputs.append(torch.cat(y))
        last.append(end)
    return layer.result(outputs, last)


def _segment(cell: Cell, weights: LayerWeights, x: Tensor, state: States) -> tuple[Tensor, States]:
    y, *after = _call(cell, (weights,), 1, (x,), tuple(s[None] for s in state), (False,))
    return y, tuple(s[0] for s in after)


_Segment = Callable[[Tensor, States], tuple[Tensor, States]]


def _walk_forward(inputs: list[Tensor], run: _Segment, start: States) -> tuple[list[Tensor], States]:
    """Rows fall away at each segment; their last states are set aside."""
    outputs, ended, state = [], [], start
    for x in inputs:
        rows = x.shape[1]
        if rows < len(state[0]):
            ended.append(tuple(s[rows:] for s in state))
        y, state = run(x, tuple(s[:rows] for s in state))
        outputs.append(y.flatten(0, 1))
    parts = zip(state, *reversed(ended), strict=True)
    return outputs, tuple(torch.cat(rows) for rows in parts)


def _walk_backward(inputs: list[Tensor], run: _Segment, start: States) -> tuple[list[Tensor], States]:
    """Rows come in at each segment, from the start that is theirs."""
    outputs: list[Tensor] = []
    state = tuple(s[:0] for s in start)
    for x in reversed(inputs):
        have, rows = len(state[0]), x.shape[1]
        state = tuple(torch.cat([s, s0[have:rows]]) for s, s0 in zip(state, start, strict=True))
        y, state = run(x.flip(0), state)
        outputs.insert(0, y.flip(0).flatten(0, 1))
    return outputs, state
