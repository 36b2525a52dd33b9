"""Backend ``cudnn``: a network in one call of the library that torch has loaded, or in one a layer."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...state import RNNState
from ...steps import on_host
from ...transforms import transforms_active
from ..base import Backend, Request, Result, ReturnStates
from ..precision import in_own_dtype
from ..reference import ReferenceBackend
from .choice import algorithm_of, math_of
from .constraints import why_not
from .enums import DATA_TYPES, MathType
from .function import run
from .layers import by_layer, runs_by_layer
from .library import why_missing
from .rows import rows_of

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
        return why_not(request.descriptor, x.dtype, algorithm_of(request), request.dense)

    def describe(self, request: Request) -> str:
        """The algorithm, whether products of float32 may be rounded, and where the states of every step come from."""
        x = request.x
        rounded = x.dtype is torch.float32 and math_of(x.dtype) is MathType.DEFAULT
        products = ", products in TF32" if rounded else ""
        every = request.return_states is ReturnStates.ALL and request.descriptor.has_cell_state
        cells = ", c of every step recomputed from the outputs" if every else ""
        return f"algorithm {algorithm_of(request).value!r}{products}{cells}"

    def forward(self, request: Request) -> Result:
        """Runs the network in one call, or in one a layer; lengths or flags on the GPU are copied to the host once."""
        return in_own_dtype(_forward, request)


def _unreadable(request: Request) -> bool:
    """Whether a CUDA graph is being captured whose plan would need values that only its replays know."""
    if request.dense or not torch.cuda.is_current_stream_capturing():
        return False
    only_lengths = request.lengths is not None and request.resets is None
    return not only_lengths or on_host(request.lengths).is_cuda  # type: ignore[arg-type]  # set, as just said


_CHECKS: tuple[tuple[Callable[[Request], bool], str], ...] = (
    (lambda r: r.x.dtype not in DATA_TYPES, "it has no such dtype"),
    (
        lambda _: transforms_active(),
        "its calls have no rules for torch.func's transforms and forward-mode derivatives",
    ),
    (
        _unreadable,
        "a CUDA graph takes lengths that lie on the host; others, masks and resets it cannot read while captured",
    ),
)
"""When it does not serve a request, and why."""


def _forward(request: Request) -> Result:
    device = request.x.device
    if device.index in (None, torch.cuda.current_device()):  # entering the context costs 4 µs
        return _forward_here(request)
    with torch.cuda.device(device):
        return _forward_here(request)


def _forward_here(request: Request) -> Result:
    rows = rows_of(request) if request.x.numel() else None
    if rows is None:
        return ReferenceBackend().forward(request)  # cuDNN fails where no row has a step
    taken = request._replace(
        x=rows.enter(request.x),
        state=RNNState(*(None if s is None else rows.start(s) for s in request.state)),  # type: ignore[arg-type]  # h is set
        lengths=None,
        mask=None,
        resets=None,
        padding_value=0.0,
    )
    result = by_layer(taken, rows, request.state) if runs_by_layer(request, rows) else run(taken, rows)
    output = rows.leave(result.output)
    if request.return_states is ReturnStates.ALL:
        return Result(output, result.state)
    final = (
        None if last is None or begin is None else rows.final(last, begin)
        for last, begin in zip(result.state, request.state, strict=True)
    )
    return Result(output, RNNState(*final))  # type: ignore[arg-type]  # h is set
