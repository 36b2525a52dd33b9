"""How the rows of a batch are handed to cuDNN, and its answers given back: dense, padded with lengths, or packed.

Masks and resets cut rows into runs, which cuDNN sees as rows of their own, sorted and packed; one copy of the
flags to the host makes the plan.
"""

from __future__ import annotations

from bisect import bisect_right

import torch
from torch import Tensor

from ..base import Request
from ..plan import Plan, packed_plan
from .enums import Layout

__all__ = ["Rows", "rows_of"]


class Rows:
    """A batch whose rows cuDNN takes as they are, every step being real.

    Attributes:
        layout: cuDNN's word for how they lie.
        steps: T, as cuDNN sees it.
        batch: rows that cuDNN sees.
        lengths: of these rows; None where each has T steps.
    """

    layout = Layout.SEQ_MAJOR_UNPACKED
    lengths: tuple[int, ...] | None = None

    def __init__(self, steps: int, batch: int) -> None:
        self.steps, self.batch = steps, batch

    def enter(self, x: Tensor) -> Tensor:
        """``[T, B, F]`` as cuDNN takes it."""
        return x

    def leave(self, y: Tensor) -> Tensor:
        """An output as ``[T, B, F]``, with padding where a step is not real."""
        return y

    def start(self, state: Tensor) -> Tensor:
        """The state ``[L*D, B, S]`` that the caller gave, as the rows start from it."""
        return state

    def final(self, last: Tensor, state: Tensor) -> Tensor:
        """The final state ``[L*D, B, S]``, out of the last state of the rows and the one that the caller gave."""
        return last


class Padded(Rows):
    """Rows that end early, in any order; cuDNN reads what lies behind their ends, so it is made finite."""

    def __init__(self, request: Request, real: Tensor, lengths: Tensor) -> None:
        super().__init__(*real.shape)
        self.lengths = tuple(lengths.tolist())
        self.column = real[:, :, None]  # [T, B, 1]
        self.padding = request.padding_value

    def enter(self, x: Tensor) -> Tensor:
        return torch.where(self.column, x, torch.zeros_like(x))

    def leave(self, y: Tensor) -> Tensor:
        return torch.where(self.column, y, torch.full_like(y, self.padding))


class Packed(Rows):
    """Runs of real steps without a reset inside."""

    layout = Layout.SEQ_MAJOR_PACKED

    def __init__(self, request: Request, plan: Plan) -> None:
        super().__init__(len(plan.sizes), plan.sizes[0])
        rising = plan.sizes[::-1]  # rows of each step, from the last step on
        self.lengths = tuple(self.steps - bisect_right(rising, run) for run in range(self.batch))
        self.plan = plan
        self.padding = request.padding_value
        self.directions = request.descriptor.num_directions

    def enter(self, x: Tensor) -> Tensor:
        return self.plan.pack(x)

    def leave(self, y: Tensor) -> Tensor:
        return self.plan.unpack(y, self.padding)

    def start(self, state: Tensor) -> Tensor:
        return torch.stack(
            [self.plan.start(s, index % self.directions) for index, s in enumerate(state.unbind(0))]
        )

    def final(self, last: Tensor, state: Tensor) -> Tensor:
        pairs = zip(last.unbind(0), state.unbind(0), strict=True)
        return torch.stack(
            [self.plan.final(own, given, index % self.directions) for index, (own, given) in enumerate(pairs)]
        )


def rows_of(request: Request) -> Rows | None:
    """How to hand over the batch of *request*; None where no step is real."""
    if request.real is None and request.resets is None:
        return Rows(*request.x.shape[:2])
    if request.resets is None and request.real is not None and request.lengths is not None:
        padded = Padded(request, request.real, request.lengths)
        return padded if padded.lengths and any(padded.lengths) else None
    plan = packed_plan(request)
    return Packed(request, plan) if plan.sizes else None
