"""What the backward passes of all kernels share: the gradient that walks from step to step, and the products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..order import Block, Order
from .hand import Arguments, Gradients
from .products import linear, rows_product

__all__ = ["StateGradient", "gate_parts", "gradients", "needed", "own", "recurrent_gradients", "rows_of"]

Flow = list[tuple[Tensor, "slice | None"]]


class StateGradient:
    """The gradient of one state (h or c), filled from the end of the walk.

    Attributes:
        total: ``[N, ·]``, the gradient of the state after every step; at first what came from outside.
        steps: the same, cut into steps in order of time.
        start: ``[R, ·]``, the gradient of the start.
        flow: for each step, the places where the gradient of the state *before* it is to be added, each
            with the rows that belong there (None: all). Rows that run on go to the step before, rows
            that begin with this step to the start.
    """

    def __init__(self, order: Order, total: Tensor, start: Tensor) -> None:
        self.total = total
        self.steps = total.split(order.sizes)  # type: ignore[no-untyped-call]  # torch's own gap
        self.start = torch.zeros_like(start)
        self.flow = self._dense_flow(order) if order.dense else self._flow(order)

    def _dense_flow(self, order: Order) -> list[Flow]:
        before = [*self.steps[1:], self.start] if order.reverse else [self.start, *self.steps[:-1]]
        return [[(place, None)] for place in before]

    def _flow(self, order: Order) -> list[Flow]:
        flow: list[Flow] = [[] for _ in order.sizes]
        have, target = 0, self.start
        for step in order.steps():
            flow[step] = self._places(target, have, order.sizes[step])
            have, target = order.sizes[step], self.steps[step]
        return flow

    def _places(self, before: Tensor, have: int, rows: int) -> Flow:
        if have == 0:
            return [(self.start[:rows], None)]
        if rows <= have:
            return [(before if rows == have else before[:rows], None)]
        return [(before, slice(0, have)), (self.start[have:rows], slice(have, rows))]


def own(outside: Tensor | None, like: Tensor) -> Tensor:
    """The gradient from outside in memory of its own, to be added to; zeros where there is none."""
    if outside is None:
        return torch.zeros_like(like)
    return outside.clone(memory_format=torch.contiguous_format)


def rows_of(block: Block, order: Order, *values: Tensor) -> Iterator[tuple[Any, ...]]:
    """The steps of a block in its order, each with its rows of the *values* ``[high - low, ·]``."""
    low, high = sorted((block.steps[0], block.steps[-1]))
    sizes = order.sizes[low : high + 1]
    parts = [value.split(sizes) for value in values]  # type: ignore[no-untyped-call]  # torch's own gap
    if block.steps[0] == high:
        parts = [part[::-1] for part in parts]
    return zip(block.steps, *parts, strict=True)


def gate_parts(order: Order, gates: Tensor, count: int) -> tuple[list[Tensor], list[Tensor]]:
    """*gates* ``[N, count*H]`` cut into steps, flat and as ``[rows, count, H]``."""
    flat = gates.split(order.sizes)  # type: ignore[no-untyped-call]  # torch's own gap
    by_gate = gates.view(len(gates), count, -1).split(order.sizes)  # type: ignore[no-untyped-call]  # likewise
    return list(flat), list(by_gate)


def recurrent_gradients(
    a: Arguments, dgates: Tensor, h_before: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Of R, by one product over all steps, and of its bias."""
    return (
        rows_product(dgates, h_before) if needed(a.weight_hh) else None,
        dgates.sum(0) if needed(a.bias_hh) else None,
    )


def input_gradients(a: Arguments, dgates: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Of x and W, by one product each over all steps, and of W's bias."""
    return (
        _gradient_of_x(a, dgates),
        rows_product(dgates, a.x) if needed(a.weight_ih) else None,
        dgates.sum(0) if needed(a.bias_ih) else None,
    )


def gradients(
    a: Arguments,
    dgates: Tensor,
    h_before: Tensor,
    dh0: Tensor,
    dgates_h: tuple[Tensor | None, Tensor | None] | None = None,
) -> Gradients:
    """All of them; *dgates_h* where the recurrent side saw other gates and is done already."""
    weight_hh, bias_hh = dgates_h or recurrent_gradients(a, dgates, h_before)
    x, weight_ih, bias_ih = input_gradients(a, dgates)
    return Gradients(x, weight_ih, weight_hh, bias_ih, bias_hh, None, dh0, None)


def _gradient_of_x(a: Arguments, dgates: Tensor) -> Tensor | None:
    if not needed(a.x):
        return None
    if a.weight_ih is not None:
        return linear(dgates, a.weight_ih.t())
    return dgates.view(len(dgates), -1, a.x.shape[1]).sum(1)  # a skip layer: x went to every gate


def needed(tensor: Tensor | None) -> bool:
    """Whether a gradient of this argument is wanted."""
    return tensor is not None and tensor.requires_grad
