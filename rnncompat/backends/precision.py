"""The dtype a request is computed in: its own, whatever autocast says, except float16 on the CPU.

float16 is computed in float32 there, which is several times faster and more exact.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..versions import autocast_enabled
from ..weights import LayerWeights
from .base import Request, Result

__all__ = ["in_own_dtype"]


def in_own_dtype(run: Callable[[Request], Result], request: Request) -> Result:
    """Runs a request with autocast off; the result has the request's dtype."""
    device = request.x.device.type
    if autocast_enabled(device):  # asked first: entering the context costs more than a small step
        with torch.autocast(device, enabled=False):
            return in_own_dtype(run, request)
    if request.x.dtype is not torch.float16 or device != "cpu":
        return run(request)
    output, state = run(_cast(request, torch.float32))
    return Result(output.to(torch.float16), state.to(dtype=torch.float16))


def _cast(request: Request, dtype: torch.dtype) -> Request:
    weights = tuple(
        LayerWeights(*(None if t is None else t.to(dtype) for t in w))  # type: ignore[arg-type]  # weight_hh is set
        for w in request.weights
    )
    return request._replace(x=request.x.to(dtype), weights=weights, state=request.state.to(dtype=dtype))
