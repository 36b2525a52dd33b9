"""Backend ``cudnn``: a whole network in one call of the library that torch has loaded."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...transforms import batched, transforms_active
from ..base import Algorithm, Backend, Request, Result, ReturnStates
from ..precision import in_own_dtype
from ..reference import ReferenceBackend
from .constraints import why_not
from .enums import DATA_TYPES, MathType
from .function import run
from .library import why_missing
from .plan import plan_for, shape_for

__all__ = ["CudnnBackend"]


class CudnnBackend(Backend):
    """NVIDIA's cuDNN: four cells, layers, directions, every bias mode, projection, clip, skip input, lengths."""

    name = "cudnn"

    def supports(self, request: Request) -> str | None:
        """Refuses other devices, what cuDNN has no option for, and what its own rules exclude."""
        x = request.x
        if not x.is_cuda:
            return f"it runs on an NVIDIA GPU, and the input is on {x.device}"
        missing = why_missing()
        if missing is not None:
            return missing
        for applies, reason in _CHECKS:
            if applies(request):
                return reason
        return why_not(request.descriptor, x.dtype, _algorithm(request), len(x), request.real is None)

    def describe(self, request: Request) -> str:
        """The algorithm, and whether products of float32 may be rounded."""
        x = request.x
        rounded = x.dtype is torch.float32 and _math(x.dtype) is MathType.DEFAULT
        products = ", products in TF32" if rounded else ""
        return f"algorithm {_algorithm(request).value!r}{products}"

    def forward(self, request: Request) -> Result:
        """Runs the network in one call; lengths are copied to the host once."""
        return in_own_dtype(_forward, request)


_CHECKS: tuple[tuple[Callable[[Request], bool], str], ...] = (
    (lambda r: r.x.dtype not in DATA_TYPES, "it has no such dtype"),
    (lambda r: r.x.numel() == 0, "there is nothing to compute"),
    (lambda r: r.resets is not None, "it has no resets yet"),
    (lambda r: r.real is not None and r.lengths is None, "it has no masks but lengths yet"),
    (lambda r: r.return_states is ReturnStates.ALL, "it returns the last state only, so far"),
    (lambda r: bool(r.drops), "it does not run dropout yet, which is drawn by torch's generator"),
    (
        lambda r: transforms_active() or batched(_tensors(r)),
        "its calls have no rules for torch.func's transforms and forward-mode derivatives",
    ),
)
"""When it does not serve a request, and why."""


def _tensors(request: Request) -> list[Tensor | None]:
    return [request.x, *request.state, *(t for w in request.weights for t in w)]


def _algorithm(request: Request) -> Algorithm:
    return Algorithm.STANDARD if request.algorithm is Algorithm.AUTO else request.algorithm


def _math(dtype: torch.dtype) -> MathType:
    """As torch's own switch says: it is on for cuDNN unless the user turns it off."""
    if dtype is torch.float32:
        return MathType.DEFAULT if torch.backends.cudnn.allow_tf32 else MathType.FMA
    return MathType.DEFAULT if dtype is torch.float64 else MathType.TENSOR_OP


def _forward(request: Request) -> Result:
    x, real = request.x, request.real
    if real is None or request.lengths is None:
        return _run(request, None)
    lengths = tuple(request.lengths.tolist())
    if not any(lengths):
        return ReferenceBackend().forward(request)  # cuDNN fails where no row has a step
    column = real[:, :, None]  # [T, B, 1]
    result = _run(request._replace(x=torch.where(column, x, torch.zeros_like(x))), lengths)
    output = torch.where(column, result.output, torch.full_like(result.output, request.padding_value))
    return result._replace(output=output)


def _run(request: Request, lengths: tuple[int, ...] | None) -> Result:
    device = request.x.device
    if device.index in (None, torch.cuda.current_device()):  # entering the context costs 4 µs
        return _run_here(request, lengths)
    with torch.cuda.device(device):
        return _run_here(request, lengths)


def _run_here(request: Request, lengths: tuple[int, ...] | None) -> Result:
    x = request.x
    plan = plan_for(request.descriptor, x.dtype, x.device, _algorithm(request), _math(x.dtype))
    return run(request, plan, shape_for(plan, *x.shape[:2], lengths))
