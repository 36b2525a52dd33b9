"""A request layer by layer: where dropout acts, where every state is wanted, and where steps are too many for a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from ...descriptor import InputMode, RNNDescriptor
from ...state import RNNState
from ..base import Request, Result, ReturnStates
from ..dropout import apply_dropout
from .constraints import MOST_STEPS
from .function import run
from .long import run_long
from .rows import Rows
from .states import cell_states

__all__ = ["by_layer", "runs_by_layer"]

States = tuple[Tensor, ...]
"""``(h,)`` or ``(h, c)``."""


def runs_by_layer(request: Request, rows: Rows) -> bool:
    """Whether one call for the whole network does not do."""
    return bool(request.drops) or request.return_states is ReturnStates.ALL or rows.steps > MOST_STEPS


def by_layer(request: Request, rows: Rows, given: RNNState) -> Result:
    """Runs a request whose x and state are as *rows* has them.

    Args:
        request: what to run.
        rows: how the batch lies.
        given: the caller's own state ``[L*D, B, ·]``, which rows without a step keep.
    """
    x, finals, every = request.x, [], []
    for layer in range(request.descriptor.num_layers):
        if layer and request.drops:
            x = apply_dropout(x, rows.enter(request.drops[layer - 1]))
        alone = _alone(request, x, layer)
        x, final = (run_long if rows.steps > MOST_STEPS else run)(alone, rows)
        if request.return_states is ReturnStates.ALL:
            every += _states(alone, x, rows)
        finals.append(_present(final))
    if not every:
        return Result(x, RNNState(*(torch.cat(parts) for parts in zip(*finals, strict=True))))
    return Result(x, _carried(every, rows, _present(given), request.descriptor.num_directions))


def _present(state: Sequence[Tensor | None]) -> States:
    return tuple(s for s in state if s is not None)


def _alone(request: Request, x: Tensor, layer: int) -> Request:
    """One layer as a request of its own."""
    d = request.descriptor
    own = slice(layer * d.num_directions, (layer + 1) * d.num_directions)
    state = RNNState(*(None if s is None else s[own] for s in request.state))  # type: ignore[arg-type]  # h is set
    return request._replace(
        descriptor=_layer(d, layer),
        x=x,
        weights=request.weights[own],
        state=state,
        drops=(),
        return_states=ReturnStates.LAST,
    )


@lru_cache(maxsize=256)
def _layer(d: RNNDescriptor, layer: int) -> RNNDescriptor:
    mode = d.input_mode if layer == 0 else InputMode.LINEAR
    return replace(d, input_size=d.layer_input_size(layer), input_mode=mode, num_layers=1, dropout=0.0)


def _states(request: Request, y: Tensor, rows: Rows) -> list[States]:
    """The states after every packed step ``[N, ·]`` of each direction of one layer."""
    d, plan = request.descriptor, rows.plan
    x = request.x.reshape(-1, d.input_size)  # [N, in]
    found: list[States] = []
    for k, h in enumerate(y.reshape(-1, d.output_size).chunk(d.num_directions, 1)):
        start = tuple(s[k] for s in _present(request.state))
        order = plan.orders(2)[k]
        c = [cell_states(d, request.weights[k], order, x, h, start)] if d.has_cell_state else []  # type: ignore[arg-type]  # h and c
        found.append((h, *c))
    return found


def _carried(every: list[States], rows: Rows, given: States, directions: int) -> RNNState:
    """``[T, L*D, B, ·]``, the carried state where a step is not real."""
    stacked = [
        torch.stack(
            [rows.plan.carried(s[i], given[i][n], n % directions) for n, s in enumerate(every)], dim=1
        )
        for i in range(len(given))
    ]
    return RNNState(*stacked)
