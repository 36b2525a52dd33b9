"""The dtype a request is computed in: its own, whatever autocast says, except float16 on the CPU.

float16 is computed in float32 there, which is several times faster and more exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from ..versions import autocast_enabled
from ..weights import LayerWeights
from .base import Request, Result

__all__ = ["dtype_of_work", "in_own_dtype", "without_autocast"]

R = TypeVar("R")


def in_own_dtype(run: Callable[[Request], Result], request: Request) -> Result:
    """Runs a request with autocast off; the result has the request's dtype."""
    return without_autocast(request.x.device.type, lambda: _in_own_dtype(run, request))


def without_autocast(device: str, run: Callable[[], R]) -> R:
    """What *run* returns, autocast being off for that type of device."""
    if not autocast_enabled(device):  # asked first: entering the context costs more than a small step
        return run()
    with torch.autocast(device, enabled=False):
        return run()


def _in_own_dtype(run: Callable[[Request], Result], request: Request) -> Result:
    dtype, work = request.x.dtype, dtype_of_work(request.x)
    if dtype is work:
        return run(request)
    output, state = run(_cast(request, work))
    return Result(output.to(dtype), state.to(dtype=dtype))


def dtype_of_work(x: Tensor) -> torch.dtype:
    """The dtype that an input is computed in."""
    return torch.float32 if x.dtype is torch.float16 and x.is_cpu else x.dtype


def _cast(request: Request, dtype: torch.dtype) -> Request:
    weights = tuple(
        LayerWeights(*(None if t is None else t.to(dtype) for t in w))  # type: ignore[arg-type]  # weight_hh is set
        for w in request.weights
    )
    return request._replace(x=request.x.to(dtype), weights=weights, state=request.state.to(dtype=dtype))
