"""Backend ``reference``: plain torch over ``cells.py``, the definition of every option.

It runs on any device, every derivative exists, and control flow depends on shapes only, never on a
value of lengths, mask or resets. It is a loop over time, so it is not fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..cells import CELLS, StateTensors
from ..descriptor import RNNDescriptor
from ..state import RNNState
from ..steps import backward_cuts, cuts_of, on_device
from ..weights import LayerWeights
from .base import Algorithm, Backend, Request, ResetTo, Result, ReturnStates
from .dropout import apply_dropout
from .precision import in_own_dtype

__all__ = ["ReferenceBackend"]


class ReferenceBackend(Backend):
    """The backend that the others are measured against."""

    name = "reference"

    def supports(self, request: Request) -> str | None:
        """Refuses the only thing it cannot obey: an algorithm of cuDNN's."""
        if request.algorithm is not Algorithm.AUTO:
            return f"it has no algorithm {request.algorithm.value!r}; algorithms are cuDNN's"
        return None

    def describe(self, request: Request) -> str:
        """One way serves all."""
        return "a loop over time in plain operations"

    def forward(self, request: Request) -> Result:
        """Runs layer after layer, direction after direction, step after step."""
        return in_own_dtype(_forward, request)


class _Marks(NamedTuple):
    """Per-step selections of one direction, ``[T, B, 1]`` each, or None where there is nothing to select."""

    real: Tensor | None
    cuts: Tensor | None


class _Trace(NamedTuple):
    """What one direction of one layer leaves behind: the state after every step and the final one."""

    steps: list[StateTensors]
    final: StateTensors


def _forward(request: Request) -> Result:
    d = request.descriptor
    if request.x.shape[0] == 0:
        return _forward_empty(request)
    marks = _marks_by_direction(request)
    x, traces = request.x, []
    for layer in range(d.num_layers):
        if layer and request.drops:
            x = apply_dropout(x, request.drops[layer - 1])
        x = _select(marks[0].real, x, 0.0)
        directions = []
        for direction in range(d.num_directions):
            index = d.pseudo_layer(layer, direction)
            trace = _run_direction(request, x, index, marks[direction], reverse=direction == 1)
            directions.append(torch.stack([state[0] for state in trace.steps]))  # [T, B, P]
            traces.append(trace)
        x = torch.cat(directions, dim=-1)  # [T, B, D*P]
    output = _select(marks[0].real, x, request.padding_value)
    return Result(output, _gather_states(traces, request.return_states))


def _forward_empty(request: Request) -> Result:
    """T = 0 as one step that is not real: state and gradients pass through, all weights stay in the graph."""
    step = request.x.new_zeros(1, *request.x.shape[1:])
    not_real = torch.zeros(1, request.x.shape[1], dtype=torch.bool, device=request.x.device)
    filled = request._replace(
        x=torch.cat([request.x, step]),
        lengths=None,
        mask=not_real,
        resets=None,
        drops=(),
    )
    output, state = _forward(filled)
    if request.return_states is ReturnStates.ALL:
        state = RNNState(state.h[:0], None if state.c is None else state.c[:0])
    return Result(output[:0], state)


def _marks_by_direction(request: Request) -> list[_Marks]:
    real, resets = request.real(), request.resets
    cuts: list[Tensor | None] = [None, None]
    if resets is not None:
        cuts = _cuts_by_direction(on_device(resets, request.x.device), real)
    return [_Marks(_column(real), _column(cut)) for cut in cuts]


def _cuts_by_direction(resets: Tensor, real: Tensor | None) -> list[Tensor | None]:
    forward = cuts_of(resets, real)
    return [forward, backward_cuts(forward, real)]


def _column(flags: Tensor | None) -> Tensor | None:
    return None if flags is None else flags[:, :, None]  # [T, B, 1]


def _run_direction(request: Request, x: Tensor, index: int, marks: _Marks, *, reverse: bool) -> _Trace:
    """One direction of one layer over the whole sequence."""
    d, weights = request.descriptor, request.weights[index]
    start = tuple(s[index] for s in request.state if s is not None)  # [B, P or H], [B, H]
    restart = start if request.reset_to is ResetTo.INITIAL else tuple(map(torch.zeros_like, start))
    steps: Iterable[tuple[Tensor, Tensor | None, Tensor | None]] = zip(
        _input_gates(d, weights, x).unbind(0),
        _unbind(marks.real, len(x)),
        _unbind(marks.cuts, len(x)),
        strict=True,
    )
    state, after = start, []
    for gates_x, real, cut in reversed(list(steps)) if reverse else steps:
        state = _step(d, weights, gates_x, state, restart, real, cut)
        after.append(state)
    return _Trace(after[::-1] if reverse else after, state)


def _step(
    d: RNNDescriptor,
    weights: LayerWeights,
    gates_x: Tensor,
    state: StateTensors,
    restart: StateTensors,
    real: Tensor | None,
    cut: Tensor | None,
) -> StateTensors:
    """The state after one step; a row whose step is not real keeps its state bit for bit."""
    before = (
        state if cut is None else tuple(torch.where(cut, r, s) for r, s in zip(restart, state, strict=True))
    )
    # Rows that do not step compute on zeros: their state may be inf or NaN, and 0 * NaN would reach dW.
    before = tuple(_select(real, s, 0.0) for s in before)
    gates_h = F.linear(before[0], weights.weight_hh, weights.bias_hh)  # [B, G*H]
    h, *c = CELLS[d.cell](gates_x, gates_h, before, d.cell_clip)
    if weights.weight_hr is not None:
        h = F.linear(h, weights.weight_hr)  # [B, P]
    new = (h, *c)
    return new if real is None else tuple(torch.where(real, n, s) for n, s in zip(new, state, strict=True))


def _input_gates(d: RNNDescriptor, weights: LayerWeights, x: Tensor) -> Tensor:
    """``W x + bW`` of every step at once, ``[T, B, G*H]``; a skip layer takes x itself for every gate."""
    if weights.weight_ih is not None:
        return F.linear(x, weights.weight_ih, weights.bias_ih)
    gates = x.repeat(1, 1, d.gates)
    return gates if weights.bias_ih is None else gates + weights.bias_ih


def _select(real: Tensor | None, values: Tensor, otherwise: float) -> Tensor:
    """*values* where real, a constant elsewhere; selected, so that nothing of the rest gets through."""
    return values if real is None else values.masked_fill(~real, otherwise)


def _unbind(flags: Tensor | None, num_steps: int) -> Iterable[Tensor | None]:
    return [None] * num_steps if flags is None else flags.unbind(0)


def _gather_states(traces: list[_Trace], which: ReturnStates) -> RNNState:
    if which is ReturnStates.LAST:
        return RNNState(*(torch.stack(parts) for parts in zip(*(t.final for t in traces), strict=True)))
    # [T, L*D, B, ·]: states of one step side by side, then the steps.
    by_step = zip(*(t.steps for t in traces), strict=True)
    stacked = [[torch.stack(parts) for parts in zip(*states, strict=True)] for states in by_step]
    return RNNState(*(torch.stack(parts) for parts in zip(*stacked, strict=True)))
