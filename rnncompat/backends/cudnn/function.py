"""Autograd's view of a call of cuDNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...layout import layout_of
from ...state import RNNState
from ...steps import on_device
from ...transforms import batched
from ...weights import group_by_layer
from ..base import Request, Result
from ..flat import flat_weights, in_layout_order, split_gradient
from ..reference import ReferenceBackend
from .calls import Inputs, Outputs, backward_data, backward_weights, forward
from .choice import algorithm_of, math_of
from .enums import ForwardMode
from .network import network_for, shape_for
from .rows import Rows

__all__ = ["run", "run_plainly"]


_graph_is_kept: Callable[[], bool] = getattr(
    torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True
)
"""Whether ``retain_graph=True`` was said; older torch does not tell."""


def run(request: Request, rows: Rows) -> Result:
    """Runs a request in one call, recorded for autograd where something is to be differentiated.

    Args:
        request: x is as *rows* gives it to cuDNN, finite where a row has ended; *rows* has the lengths.
        rows: how the batch lies.
    """
    d = request.descriptor
    weights = in_layout_order(d, request.weights)
    h, c = (None if s is None else s.contiguous() for s in request.state)
    assert h is not None
    leaves = [request.x.contiguous(), h, c, *weights]
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in leaves):
        y, h_after, c_after = _Recorded.apply(request, rows, *leaves)  # type: ignore[no-untyped-call]  # torch's gap
    else:
        given = _inputs(request, rows, *leaves)
        y, h_after, c_after, _ = _whole(given, ForwardMode.INFERENCE)
    return Result(y, RNNState(h_after, c_after))


def _inputs(
    request: Request,
    rows: Rows,
    x: Tensor | None,
    h: Tensor | None,
    c: Tensor | None,
    *weights: Tensor | None,
) -> Inputs:
    """The tensors of a call beside what cuDNN was told of their sizes."""
    assert x is not None
    assert h is not None
    d = request.descriptor
    network = network_for(d, x.dtype, x.device, algorithm_of(request), math_of(x.dtype), rows.layout)
    shape = shape_for(network, rows.steps, rows.batch, rows.lengths)
    return Inputs(network, shape, x, h, c, flat_weights(d, weights))  # type: ignore[arg-type]  # there are no gaps


def _whole(given: Inputs, mode: ForwardMode) -> Outputs:
    """A call of cuDNN, and the final state of rows without a step, for which it returns zeros."""
    made = forward(given, mode)
    if not given.shape.empty:
        return made
    empty = _empty_rows(given)
    return made._replace(
        h=torch.where(empty, given.h, made.h),  # type: ignore[arg-type]  # a state that is given
        c=None if made.c is None or given.c is None else torch.where(empty, given.c, made.c),
    )


def _empty_rows(given: Inputs) -> Tensor:
    """``[B, 1]``: the rows without a step."""
    lengths = torch.tensor(given.shape.lengths)[:, None]
    return on_device(lengths == 0, given.x.device)


class _Recorded(torch.autograd.Function):
    """First derivatives by cuDNN; further ones lead through the definition."""

    @staticmethod
    def forward(
        ctx: Any,
        request: Request,
        rows: Rows,
        x: Tensor,
        h: Tensor,
        c: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor | None, ...]:
        made = _whole(_inputs(request, rows, x, h, c, *weights), ForwardMode.TRAINING)
        ctx.request = request._replace(x=None, weights=(), state=None)  # type: ignore[arg-type]  # they are saved below
        ctx.rows = rows
        ctx.save_for_backward(x, h, c, made.y, made.reserve, *weights)
        return made.y, made.h, made.c

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        x, h, c, y, reserve, *weights = ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        if torch.is_grad_enabled() or batched(grads):  # create_graph=True, is_grads_batched=True
            return None, None, *_again(ctx.request, ctx.rows, [x, h, c, *weights], grads, needs)
        given = _inputs(ctx.request, ctx.rows, x, h, c, *weights)
        # The calls write into the reserve, and a graph that is kept may be walked again.
        made = Outputs(y, h, c, reserve.clone() if _graph_is_kept() else reserve)
        return None, None, *_gradients(given, made, grads, any(needs[3:]))


def _gradients(
    given: Inputs, made: Outputs, grads: tuple[Tensor | None, ...], weights: bool
) -> list[Tensor | None]:
    """``dx, dh, dc`` and those of the weights, if they are wanted."""
    likes = (made.y, given.h, given.c)
    dy, dh, dc = (
        None if like is None else torch.zeros_like(like) if grad is None else grad.contiguous()
        for like, grad in zip(likes, grads, strict=True)
    )
    assert dy is not None
    assert dh is not None
    dx, dh_before, dc_before = backward_data(given, made, dy, dh, dc)
    if given.shape.empty:
        empty = _empty_rows(given)
        dh_before = torch.where(empty, dh, dh_before)
        dc_before = None if dc is None or dc_before is None else torch.where(empty, dc, dc_before)
    d = given.network.descriptor
    none: list[Tensor | None] = [None] * len(layout_of(d).slots)
    parts = split_gradient(d, backward_weights(given, made)) if weights else none
    return [dx, dh_before, dc_before, *parts]


def _again(
    request: Request,
    rows: Rows,
    tensors: list[Any],
    grads: tuple[Tensor | None, ...],
    needs: tuple[bool, ...],
) -> list[Tensor | None]:
    """The gradients in plain operations, which vmap knows, and which lead back to the leaves if that is recorded."""
    recorded = torch.is_grad_enabled()
    with torch.enable_grad():
        leaves: list[Any] = [None if t is None else t.view_as(t) for t in tensors]
        x, h, c, *weights = leaves
        layers = group_by_layer(layout_of(request.descriptor), weights)
        result = run_plainly(request._replace(x=x, weights=layers, state=RNNState(h, c)), rows)
    values = (result.output, *result.state)
    pairs = [(v, g) for v, g in zip(values, grads, strict=True) if v is not None and g is not None]
    wanted = [t for t, needed in zip(leaves, needs, strict=True) if needed]
    found = torch.autograd.grad(
        [v for v, _ in pairs], wanted, [g for _, g in pairs], create_graph=recorded, allow_unused=True
    )
    left = iter(found)
    return [next(left) if needed else None for needed in needs]


def run_plainly(request: Request, rows: Rows) -> Result:
    """The request in plain operations."""
    lengths = None if rows.lengths is None else torch.tensor(rows.lengths)
    result = ReferenceBackend().forward(request._replace(x=rows.time_major(request.x), lengths=lengths))
    return result._replace(output=rows.as_taken(result.output))
