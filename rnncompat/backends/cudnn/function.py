"""Autograd's view of a call of cuDNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...layout import layout_of
from ...state import RNNState
from ...steps import real_steps
from ...transforms import batched
from ...weights import group_by_layer
from ..base import Request, Result
from ..reference import ReferenceBackend
from .calls import Inputs, Outputs, backward_data, backward_weights, forward
from .enums import ForwardMode
from .flat import flat_weights, in_layout_order, split_gradient
from .network import Network, Shape

__all__ = ["run"]


_graph_is_kept: Callable[[], bool] = getattr(
    torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True
)
"""Whether ``retain_graph=True`` was said; older torch does not tell."""


def run(request: Request, network: Network, shape: Shape) -> Result:
    """Runs a request, recorded for autograd where something is to be differentiated.

    Args:
        request: x is dense, or finite where a row has ended, or packed ``[N, I]``; *shape* has the lengths.
        network: its network.
        shape: of its batch.
    """
    d = request.descriptor
    weights = in_layout_order(d, request.weights)
    h, c = (None if s is None else s.contiguous() for s in request.state)
    assert h is not None
    leaves = [request.x.contiguous(), h, c, *weights]
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in leaves):
        y, h_after, c_after = _Recorded.apply(request, network, shape, *leaves)  # type: ignore[no-untyped-call]  # torch's gap
    else:
        given = Inputs(network, shape, leaves[0], h, c, flat_weights(d, weights))  # type: ignore[arg-type]  # x is set
        y, h_after, c_after, _ = _whole(given, ForwardMode.INFERENCE)
    return Result(y, RNNState(h_after, c_after))


def _whole(given: Inputs, mode: ForwardMode) -> Outputs:
    """A call of cuDNN, and the final state of rows without a step, for which it returns zeros."""
    made = forward(given, mode)
    if not given.shape.empty:
        return made
    empty = _empty_rows(given)
    return made._replace(
        h=torch.where(empty, given.h, made.h),
        c=None if made.c is None or given.c is None else torch.where(empty, given.c, made.c),
    )


def _empty_rows(given: Inputs) -> Tensor:
    """``[B, 1]``: the rows without a step."""
    return torch.tensor([[length == 0] for length in given.shape.lengths or ()], device=given.x.device)


class _Recorded(torch.autograd.Function):
    """First derivatives by cuDNN; further ones lead through the definition."""

    @staticmethod
    def forward(
        ctx: Any,
        request: Request,
        network: Network,
        shape: Shape,
        x: Tensor,
        h: Tensor,
        c: Tensor | None,
        *weights: Tensor,
    ) -> tuple[Tensor | None, ...]:
        given = Inputs(network, shape, x, h, c, flat_weights(network.descriptor, weights))
        made = _whole(given, ForwardMode.TRAINING)
        ctx.request = request._replace(x=None, weights=(), state=None)  # type: ignore[arg-type]  # they are saved below
        ctx.network, ctx.shape = network, shape
        ctx.save_for_backward(x, h, c, made.y, made.reserve, *weights)
        return made.y, made.h, made.c

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        x, h, c, y, reserve, *weights = ctx.saved_tensors
        needs = ctx.needs_input_grad[3:]
        if torch.is_grad_enabled() or batched(grads):  # create_graph=True, is_grads_batched=True
            return None, None, None, *_again(ctx.request, ctx.shape, [x, h, c, *weights], grads, needs)
        given = Inputs(ctx.network, ctx.shape, x, h, c, flat_weights(ctx.network.descriptor, weights))
        # The calls write into the reserve, and a graph that is kept may be walked again.
        made = Outputs(y, h, c, reserve.clone() if _graph_is_kept() else reserve)
        return None, None, None, *_gradients(given, made, grads, any(needs[3:]))


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
    shape: Shape,
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
        result = _plain(request._replace(x=x, weights=layers, state=RNNState(h, c)), shape)
    values = (result.output, *result.state)
    pairs = [(v, g) for v, g in zip(values, grads, strict=True) if v is not None and g is not None]
    wanted = [t for t, needed in zip(leaves, needs, strict=True) if needed]
    found = torch.autograd.grad(
        [v for v, _ in pairs], wanted, [g for _, g in pairs], create_graph=recorded, allow_unused=True
    )
    left = iter(found)
    return [next(left) if needed else None for needed in needs]


def _plain(request: Request, shape: Shape) -> Result:
    """The request in plain operations, packed rows being padded for it."""
    if shape.lengths is None:
        return ReferenceBackend().forward(request)
    lengths = torch.tensor(shape.lengths, device=request.x.device)
    real = real_steps(lengths, shape.steps)
    request = request._replace(real=real, lengths=lengths)
    if request.x.dim() == 3:
        return ReferenceBackend().forward(request)
    padded = request.x.new_zeros(*real.shape, request.x.shape[-1]).index_put((real,), request.x)
    result = ReferenceBackend().forward(request._replace(x=padded))
    return result._replace(output=result.output[real])
