"""Backend ``cudnn``: a network in one call of the library that torch has loaded, or in one a layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch

from ...descriptor import InputMode, RNNDescriptor
from ...state import RNNState
from ...transforms import transforms_active
from ..base import Algorithm, Backend, Request, Result, ReturnStates
from ..dropout import apply_dropout
from ..precision import in_own_dtype
from ..reference import ReferenceBackend
from .constraints import why_not
from .enums import DATA_TYPES, MathType
from .function import run
from .library import why_missing
from .network import network_for, shape_for
from .rows import Rows, rows_of

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
        dense = request.real is None and request.resets is None
        return why_not(request.descriptor, x.dtype, _algorithm(request), len(x), dense)

    def describe(self, request: Request) -> str:
        """The algorithm, and whether products of float32 may be rounded."""
        x = request.x
        rounded = x.dtype is torch.float32 and _math(x.dtype) is MathType.DEFAULT
        products = ", products in TF32" if rounded else ""
        return f"algorithm {_algorithm(request).value!r}{products}"

    def forward(self, request: Request) -> Result:
        """Runs the network in one call, with dropout in one a layer; lengths or flags are copied to the host once."""
        return in_own_dtype(_forward, request)


_CHECKS: tuple[tuple[Callable[[Request], bool], str], ...] = (
    (lambda r: r.x.dtype not in DATA_TYPES, "it has no such dtype"),
    (lambda r: r.x.numel() == 0, "there is nothing to compute"),
    (lambda r: r.return_states is ReturnStates.ALL, "it returns the last state only, so far"),
    (
        lambda _: transforms_active(),
        "its calls have no rules for torch.func's transforms and forward-mode derivatives",
    ),
)
"""When it does not serve a request, and why."""


def _algorithm(request: Request) -> Algorithm:
    return Algorithm.STANDARD if request.algorithm is Algorithm.AUTO else request.algorithm


def _math(dtype: torch.dtype) -> MathType:
    """As torch's own switch says: it is on for cuDNN unless the user turns it off."""
    if dtype is torch.float32:
        return MathType.DEFAULT if torch.backends.cudnn.allow_tf32 else MathType.FMA
    return MathType.DEFAULT if dtype is torch.float64 else MathType.TENSOR_OP


def _forward(request: Request) -> Result:
    device = request.x.device
    if device.index in (None, torch.cuda.current_device()):  # entering the context costs 4 µs
        return _forward_here(request)
    with torch.cuda.device(device):
        return _forward_here(request)


def _forward_here(request: Request) -> Result:
    rows = rows_of(request)
    if rows is None:
        return ReferenceBackend().forward(request)  # cuDNN fails where no row has a step
    given = request._replace(
        x=rows.enter(request.x),
        state=RNNState(*(None if s is None else rows.start(s) for s in request.state)),  # type: ignore[arg-type]  # h is set
        real=None,
        lengths=None,
        resets=None,
        padding_value=0.0,
    )
    result = _by_layer(given, rows) if request.drops else _run(given, rows)
    final = (
        None if last is None or begin is None else rows.final(last, begin)
        for last, begin in zip(result.state, request.state, strict=True)
    )
    return Result(rows.leave(result.output), RNNState(*final))  # type: ignore[arg-type]  # h is set


def _by_layer(request: Request, rows: Rows) -> Result:
    """A call a layer: our dropout acts between them."""
    d, x = request.descriptor, request.x
    finals = []
    for layer in range(d.num_layers):
        if layer:
            x = apply_dropout(x, rows.enter(request.drops[layer - 1]))
        own = slice(layer * d.num_directions, (layer + 1) * d.num_directions)
        state = RNNState(*(None if s is None else s[own] for s in request.state))  # type: ignore[arg-type]  # h is set
        alone = request._replace(
            descriptor=_alone(d, layer), x=x, weights=request.weights[own], state=state, drops=()
        )
        x, after = _run(alone, rows)
        finals.append([s for s in after if s is not None])
    return Result(x, RNNState(*(torch.cat(parts) for parts in zip(*finals, strict=True))))


@lru_cache(maxsize=256)
def _alone(d: RNNDescriptor, layer: int) -> RNNDescriptor:
    """One layer as a network of its own."""
    mode = d.input_mode if layer == 0 else InputMode.LINEAR
    return replace(d, input_size=d.layer_input_size(layer), input_mode=mode, num_layers=1, dropout=0.0)


def _run(request: Request, rows: Rows) -> Result:
    d, x = request.descriptor, request.x
    network = network_for(d, x.dtype, x.device, _algorithm(request), _math(x.dtype), rows.layout)
    return run(request, network, shape_for(network, rows.steps, rows.batch, rows.lengths))
