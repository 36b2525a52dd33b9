"""One layer over packed rows, all its directions: what a runner is given and gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ...descriptor import RNNDescriptor
from ...weights import LayerWeights
from ..plan import Plan

__all__ = ["Layer", "LayerResult", "Runner", "States"]

States = tuple[Tensor, ...]
"""``(h,)`` or ``(h, c)``."""


class Layer(NamedTuple):
    """A layer: its weights and the given states ``[B, ·]``, one entry a direction."""

    descriptor: RNNDescriptor
    plan: Plan
    weights: tuple[LayerWeights, ...]
    states: tuple[States, ...]

    def starts(self) -> list[States]:
        """The states ``[R, ·]`` that the runs of each direction start from."""
        return [
            tuple(self.plan.start(s, direction) for s in states)
            for direction, states in enumerate(self.states)
        ]

    def result(
        self, outputs: list[Tensor], last: list[States], every: list[States] | None = None
    ) -> LayerResult:
        """Joins the directions, given the last states ``[R, ·]`` of every run in each."""
        final = [
            tuple(self.plan.final(e, s, direction) for e, s in zip(last[direction], states, strict=True))
            for direction, states in enumerate(self.states)
        ]
        return LayerResult(outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1), final, every)


class LayerResult(NamedTuple):
    """A layer after its walk.

    Attributes:
        output: ``[N, D*P]``.
        final: the final states ``[B, ·]`` of each direction.
        every: the states after every packed step ``[N, ·]`` of each direction, if the runner keeps them.
    """

    output: Tensor
    final: list[States]
    every: list[States] | None


Runner = Callable[[Tensor, Layer], LayerResult]
