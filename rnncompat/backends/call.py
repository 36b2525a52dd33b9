"""``Call``: a request as the flat arguments of an operator, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from torch import Tensor

from ..descriptor import RNNDescriptor
from ..layout import layout_of
from ..state import RNNState
from ..weights import LayerWeights
from .base import Algorithm, Request, ResetTo, ReturnStates

__all__ = ["ARGUMENTS", "Call", "call_of", "request_of"]

ARGUMENTS = (
    "Tensor x, Tensor[] weights, Tensor h, Tensor? c, Tensor? lengths, Tensor? mask, Tensor? resets, "
    "Tensor[] drops, str cell, int input_size, int hidden_size, int num_layers, bool bidirectional, str bias, "
    "str input_mode, int proj_size, float[]? cell_clip, str reset_to, float padding_value, str return_states, "
    "str backend, str algorithm"
)
"""The fields of :class:`Call` in the words of an operator's schema."""


class Call(NamedTuple):
    """The arguments of the operator.

    Attributes:
        weights: those there are, one pseudo-layer after the other, in the order of :class:`LayerWeights`.
        lengths: ``[B]``; *mask* is given only where lengths cannot say it.
        drops: one ``[T, B, D*P]`` a boundary between layers, if dropout acts.
    """

    x: Tensor
    weights: Sequence[Tensor]
    h: Tensor
    c: Tensor | None
    lengths: Tensor | None
    mask: Tensor | None
    resets: Tensor | None
    drops: Sequence[Tensor]
    cell: str
    input_size: int
    hidden_size: int
    num_layers: int
    bidirectional: bool
    bias: str
    input_mode: str
    proj_size: int
    cell_clip: Sequence[float] | None
    reset_to: str
    padding_value: float
    return_states: str
    backend: str
    algorithm: str

    @property
    def descriptor(self) -> RNNDescriptor:
        """What is computed; its dropout stands in :attr:`drops`."""
        clip = None if self.cell_clip is None else tuple(self.cell_clip)
        start = self._fields.index("cell")
        return _descriptor(*self[start : start + 8], clip)

    @property
    def leaves(self) -> list[Tensor]:
        """What the call can be differentiated by: x, the weights, h and c."""
        return [self.x, *self.weights, self.h, *([] if self.c is None else [self.c])]

    @property
    def tensors(self) -> list[Tensor]:
        """Every tensor of the call, the leaves first."""
        flags = (self.lengths, self.mask, self.resets)
        return [*self.leaves, *(t for t in flags if t is not None), *self.drops]

    def with_tensors(self, tensors: Sequence[Tensor]) -> Call:
        """The same call with others for the first of its :attr:`tensors`."""
        left = iter(tensors)

        def fill(old: Any) -> Any:
            return None if old is None else next(left, old)

        x, weights, h, c = fill(self.x), [fill(t) for t in self.weights], fill(self.h), fill(self.c)
        flags = [fill(t) for t in (self.lengths, self.mask, self.resets)]
        return Call(x, weights, h, c, *flags, [fill(t) for t in self.drops], *self[8:])  # type: ignore[call-arg]  # mypy counts no slice


@lru_cache(maxsize=1024)
def _descriptor(
    cell: str,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    bidirectional: bool,
    bias: str,
    input_mode: str,
    proj_size: int,
    cell_clip: tuple[float, float] | None,
) -> RNNDescriptor:
    return RNNDescriptor(
        cell,
        input_size,
        hidden_size,
        num_layers=num_layers,
        bidirectional=bidirectional,
        bias=bias,
        input_mode=input_mode,
        proj_size=proj_size,
        cell_clip=cell_clip,
    )


def call_of(request: Request, backend: str) -> Call:
    """The arguments that say *request*."""
    d = request.descriptor
    return Call(
        x=request.x,
        weights=[t for layer in request.weights for t in layer if t is not None],
        h=request.state.h,
        c=request.state.c,
        lengths=request.lengths,
        mask=request.mask,
        resets=request.resets,
        drops=list(request.drops),
        cell=d.cell.value,
        input_size=d.input_size,
        hidden_size=d.hidden_size,
        num_layers=d.num_layers,
        bidirectional=d.bidirectional,
        bias=d.bias.value,
        input_mode=d.input_mode.value,
        proj_size=d.proj_size,
        cell_clip=None if d.cell_clip is None else list(d.cell_clip),
        reset_to=request.reset_to.value,
        padding_value=request.padding_value,
        return_states=request.return_states.value,
        backend=backend,
        algorithm=request.algorithm.value,
    )


def request_of(call: Call) -> Request:
    """The request that a call says."""
    return Request(
        descriptor=call.descriptor,
        x=call.x,
        weights=_by_layer(call.descriptor, call.weights),
        state=RNNState(call.h, call.c),
        lengths=call.lengths,
        mask=call.mask,
        resets=call.resets,
        reset_to=ResetTo(call.reset_to),
        drops=tuple(call.drops),
        padding_value=call.padding_value,
        return_states=ReturnStates(call.return_states),
        algorithm=Algorithm(call.algorithm),
    )


def _by_layer(d: RNNDescriptor, weights: Sequence[Tensor]) -> tuple[LayerWeights, ...]:
    layout, left = layout_of(d), iter(weights)
    layers = layout.by_pseudo_layer([slot.kind for slot in layout.slots])
    return tuple(
        LayerWeights(*(next(left) if kind in layer else None for kind in LayerWeights._fields))  # type: ignore[arg-type]  # weight_hh is set
        for layer in layers
    )
