"""The short way for a dense call, where checks and bookkeeping may cost more than cuDNN's own call.

A control loop or a decoder runs one step a call. The general way takes about 80 µs of Python beside cuDNN's 30;
this one asks everything in a few conditions and takes a third of that. Whatever is unusual, wrong input included,
goes the general way, which knows how to serve it or how to refuse it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...descriptor import RNNDescriptor
from ...layout import layout_of
from ...state import RNNState
from ...transforms import transforms_active
from ...versions import autocast_enabled
from ...weights import LayerWeights
from ..base import Algorithm, Request, ResetTo, ReturnStates
from .calls import Inputs, forward
from .choice import math_of
from .constraints import MOST_STEPS, why_not
from .enums import DATA_TYPES, ForwardMode, MathType
from .function import run_told
from .library import why_missing
from .network import Told, tell
from .rows import Rows

__all__ = ["quick_call"]

_FIELDS = LayerWeights._fields


class _Prepared(NamedTuple):
    """All that depends on sizes and kinds alone.

    Attributes:
        request: the call without its tensors.
        weights: pseudo-layer, index in :class:`LayerWeights` and offset of each weight there is.
        states: sizes of h, or of h and c.
    """

    rows: Rows
    told: Told
    request: Request
    weights: tuple[tuple[int, int, int], ...]
    states: tuple[tuple[int, int, int], ...]


def quick_call(
    d: RNNDescriptor, layers: tuple[LayerWeights, ...], x: Tensor, state: Any, batch_first: bool
) -> tuple[Tensor, RNNState] | None:
    """Output, of the axes of *x*, and state of a dense call without dropout; or None for the general way."""
    if x.dim() != 3 or not x.is_contiguous() or transforms_active() or autocast_enabled("cuda"):
        return None
    prepared = _prepare(d, x.dtype, x.device, x.shape, batch_first, math_of(x.dtype))
    if prepared is None or x.device.index != torch.cuda.current_device():
        return None
    begin = _begin(prepared, layers, x)
    states = (None, None) if state is None else _states(prepared, state, x)
    if begin is None or states is None:
        return None
    if torch.is_grad_enabled():
        request = prepared.request._replace(x=x, weights=layers)
        y, after = run_told(request, prepared.rows, prepared.told, *states)
        return y, after
    y, h, c, _ = forward(Inputs(*prepared.told, x, *states, begin), ForwardMode.INFERENCE)
    return y, RNNState(h, c)


@lru_cache(maxsize=256)
def _prepare(
    d: RNNDescriptor,
    dtype: torch.dtype,
    device: torch.device,
    sizes: torch.Size,
    batch_first: bool,
    math: MathType,
) -> _Prepared | None:
    """What can be known before the tensors are; None where cuDNN or this way does not serve it."""
    steps, batch = sizes[1::-1] if batch_first else sizes[:2]
    served = dtype in DATA_TYPES and 0 < steps <= MOST_STEPS and batch > 0 and sizes[2] == d.input_size
    if not served or why_missing() or why_not(d, dtype, Algorithm.STANDARD, True):
        return None
    rows = Rows(steps, batch, batch_first)
    told = tell(d, (dtype, device), (Algorithm.STANDARD, math, rows.layout), steps, batch, None)
    weights = tuple((s.pseudo_layer, _FIELDS.index(s.kind), s.offset) for s in layout_of(d).slots)
    states = (told.shape.h.sizes, told.shape.c.sizes)[: 1 + d.has_cell_state]
    return _Prepared(rows, told, _without_tensors(d), weights, states)


def _without_tensors(d: RNNDescriptor) -> Request:
    nothing: Any = None
    return Request(
        descriptor=d,
        x=nothing,
        weights=(),
        state=nothing,
        lengths=None,
        mask=None,
        resets=None,
        reset_to=ResetTo.ZEROS,
        drops=(),
        padding_value=0.0,
        return_states=ReturnStates.LAST,
        algorithm=Algorithm.AUTO,
    )


def _begin(prepared: _Prepared, layers: tuple[LayerWeights, ...], x: Tensor) -> Tensor | None:
    """The first weight, if the others follow it in one buffer and all are like *x*."""
    layer, field, _ = prepared.weights[0]
    first: Tensor = layers[layer][field]  # type: ignore[assignment]  # as the layout says
    address, begin, width = first.data_ptr(), first.storage_offset(), first.element_size()
    if first.device != x.device:
        return None
    for layer, field, offset in prepared.weights:
        weight: Any = layers[layer][field]
        if (
            weight.data_ptr() != address + offset * width
            or weight.storage_offset() != begin + offset
            or weight.dtype is not x.dtype
            or not weight.is_contiguous()
        ):
            return None
    return first


def _states(prepared: _Prepared, state: Any, x: Tensor) -> tuple[Tensor | None, Tensor | None] | None:
    """The given h and c if they are at full shape and like *x*."""
    parts = (state,) if isinstance(state, Tensor) else state
    if type(state) is RNNState and state.c is None:
        parts = (state.h,)
    if not isinstance(parts, tuple) or len(parts) != len(prepared.states):
        return None
    for part, sizes in zip(parts, prepared.states, strict=True):
        if (
            not isinstance(part, Tensor)
            or part.shape != sizes
            or part.dtype is not x.dtype
            or part.device != x.device
            or not part.is_contiguous()
        ):
            return None
    return parts if len(parts) == 2 else (parts[0], None)
