"""Autograd's view of a call of cuDNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...descriptor import RNNDescriptor
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
from .network import Told, tell
from .rows import Rows

__all__ = ["run", "run_plainly", "run_told"]


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
    x = request.x.contiguous()
    h, c = (None if s is None else s.contiguous() for s in request.state)
    how = (algorithm_of(request), math_of(x.dtype), rows.layout)
    told = tell(request.descriptor, (x.dtype, x.device), how, rows.steps, rows.batch, rows.lengths)
    return run_told(request._replace(x=x), rows, told, h, c)


def run_told(request: Request, rows: Rows, told: Told, h: Tensor | None, c: Tensor | None) -> Result:
    """As :func:`run`, x and the states *h* and *c* being contiguous; None for zeros."""
    leaves = (request.x, h, c, *in_layout_order(request.descriptor, request.weights))
    if torch.is_grad_enabled() and any([t is not None and t.requires_grad for t in leaves]):  # noqa: C419  # 1 µs less
        y, h_after, c_after = _Recorded.apply(request, rows, told, *leaves)  # type: ignore[no-untyped-call]  # torch's gap
    else:
        y, h_after, c_after, _ = _whole(_inputs(told, *leaves), ForwardMode.INFERENCE)
    return Result(y, RNNState(h_after, c_after))


def _inputs(told: Told, x: Any, h: Tensor | None, c: Tensor | None, *weights: Any) -> Inputs:
    """The tensors of a call, the weights in one."""
    return Inputs(*told, x, h, c, flat_weights(told.network.descriptor, weights))


def _whole(given: Inputs, mode: ForwardMode) -> Outputs:
    """A call of cuDNN, and the final state of rows without a step, for which it returns zeros."""
    made = forward(given, mode)
    if not given.shape.empty:
        return made
    empty = _empty_rows(given)
    return made._replace(h=_kept(empty, given.h, made.h), c=_kept(empty, given.c, made.c))


def _kept(empty: Tensor, own: Tensor | None, made: Any) -> Any:
    """What rows without a step had, zeros if None, where cuDNN made zeros."""
    return made if own is None or made is None else torch.where(empty, own, made)


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
        told: Told,
        x: Tensor,
        h: Tensor | None,
        c: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor | None, ...]:
        made = _whole(_inputs(told, x, h, c, *weights), ForwardMode.TRAINING)
        ctx.request = request._replace(x=None, weights=(), state=None)  # type: ignore[arg-type]  # they are saved below
        ctx.rows, ctx.told = rows, told
        ctx.set_materialize_grads(False)  # cuDNN takes none for zeros
        ctx.save_for_backward(x, h, c, made.y, made.reserve, *weights)
        return made.y, made.h, made.c

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        x, h, c, y, reserve, *weights = ctx.saved_tensors
        needs = ctx.needs_input_grad[3:]
        if torch.is_grad_enabled() or batched(grads):  # create_graph=True, is_grads_batched=True
            return None, None, None, *_again(ctx.request, ctx.rows, [x, h, c, *weights], grads, needs)
        given = _inputs(ctx.told, x, h, c, *weights)
        # The calls write into the reserve, and a graph that is kept may be walked again.
        made = Outputs(y, h, c, reserve.clone() if _graph_is_kept() else reserve)
        return None, None, None, *_gradients(given, made, grads, needs)


def _gradients(
    given: Inputs, made: Outputs, grads: tuple[Tensor | None, ...], needs: tuple[bool, ...]
) -> list[Tensor | None]:
    """``dx, dh, dc`` and those of the weights, the latter if any of them is wanted."""
    dy, dh, dc = (None if grad is None else grad.contiguous() for grad in grads)
    dy = torch.zeros_like(made.y) if dy is None else dy
    dx, dh_before, dc_before = backward_data(given, made, dy, dh, dc, states=needs[1] or needs[2])
    if given.shape.empty and dh_before is not None:
        empty = _empty_rows(given)
        dh_before, dc_before = _kept(empty, dh, dh_before), _kept(empty, dc, dc_before)
    d = given.network.descriptor
    none: list[Tensor | None] = [None] * len(layout_of(d).slots)
    parts = split_gradient(d, backward_weights(given, made)) if any(needs[3:]) else none
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
        state = _full(request.descriptor, rows, x, h, c)
        result = run_plainly(request._replace(x=x, weights=layers, state=state), rows)
    values = (result.output, *result.state)
    pairs = [(v, g) for v, g in zip(values, grads, strict=True) if v is not None and g is not None]
    wanted = [t for t, needed in zip(leaves, needs, strict=True) if needed]
    found = torch.autograd.grad(
        [v for v, _ in pairs], wanted, [g for _, g in pairs], create_graph=recorded, allow_unused=True
    )
    left = iter(found)
    return [next(left) if needed else None for needed in needs]


def _full(d: RNNDescriptor, rows: Rows, x: Tensor, h: Tensor | None, c: Tensor | None) -> RNNState:
    """The state that was given, with zeros for what was not."""
    lead = (d.num_pseudo_layers, rows.batch)
    h = x.new_zeros(*lead, d.state_size) if h is None else h
    return RNNState(h, x.new_zeros(*lead, d.hidden_size) if c is None and d.has_cell_state else c)


def run_plainly(request: Request, rows: Rows) -> Result:
    """The request in plain operations."""
    lengths = None if rows.lengths is None else torch.tensor(rows.lengths)
    result = ReferenceBackend().forward(request._replace(x=rows.time_major(request.x), lengths=lengths))
    return result._replace(output=rows.as_taken(result.output))
