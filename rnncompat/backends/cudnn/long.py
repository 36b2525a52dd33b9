"""One layer over more steps than cuDNN takes at once: stretches of time, the state handed on from each to the next."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from ...descriptor import RNNDescriptor
from ...state import RNNState
from ..base import Request, Result
from .constraints import MOST_STEPS
from .function import run
from .rows import Rows

__all__ = ["run_long"]


def run_long(request: Request, rows: Rows) -> Result:
    """Runs one layer; each direction walks alone, for the stretches of the two come in opposite orders."""
    directions = [
        _walk(_direction(request, k, rows.backward(request.x) if k else request.x), rows)
        for k in range(request.descriptor.num_directions)
    ]
    outputs = [rows.backward(result.output) if k else result.output for k, result in enumerate(directions)]
    return Result(torch.cat(outputs, -1), _joined([result.state for result in directions], 0))


def _direction(request: Request, direction: int, x: Tensor) -> Request:
    state = RNNState(*(None if s is None else s[direction : direction + 1] for s in request.state))  # type: ignore[arg-type]  # h is set
    weights = request.weights[direction : direction + 1]
    return request._replace(descriptor=_one_way(request.descriptor), x=x, weights=weights, state=state)


@lru_cache(maxsize=256)
def _one_way(d: RNNDescriptor) -> RNNDescriptor:
    return replace(d, bidirectional=False)


def _walk(request: Request, rows: Rows) -> Result:
    """One direction, stretch after stretch; rows that have ended keep their state."""
    outputs, state = [], request.state
    for part, low, high in rows.parts(MOST_STEPS):
        given = RNNState(*(None if s is None else s[:, : part.batch] for s in state))  # type: ignore[arg-type]  # h is set
        output, after = run(request._replace(x=request.x[low:high], state=given), part)
        ended = RNNState(*(None if s is None else s[:, part.batch :] for s in state))  # type: ignore[arg-type]  # h is set
        state = _joined([after, ended], 1)
        outputs.append(output)
    return Result(torch.cat(outputs), state)


def _joined(states: list[RNNState], dim: int) -> RNNState:
    h, c = zip(*states, strict=True)
    return RNNState(torch.cat(h, dim), None if c[0] is None else torch.cat(c, dim))
