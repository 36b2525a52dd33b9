"""How the rows of a batch are handed to cuDNN, and its answers given back: dense, padded with lengths, or packed.

Masks and resets cut rows into runs, which cuDNN sees as rows of their own, sorted and packed; the plan of them is
made on the host, from one copy of the flags.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

import torch
from torch import Tensor

from ...steps import on_device, real_steps
from ..base import Request, ReturnStates
from ..order import Order
from ..plan import Plan, dense_plan, plan_on_host
from .constraints import MOST_STEPS, takes_empty_rows
from .enums import Layout

__all__ = ["Rows", "rows_of"]


class Rows:
    """A batch whose rows cuDNN takes as they are, every step being real.

    Attributes:
        steps: T, as cuDNN sees it.
        batch: rows that cuDNN sees.
        turned: whether the batch is the first axis in memory, so that cuDNN is given it that way.
        layout: cuDNN's word for how the rows lie.
        lengths: of these rows; None where each has T steps.
    """

    lengths: tuple[int, ...] | None = None

    def __init__(self, steps: int, batch: int, turned: bool = False) -> None:
        self.steps, self.batch, self.turned = steps, batch, turned
        self.layout = Layout.BATCH_MAJOR_UNPACKED if turned else Layout.SEQ_MAJOR_UNPACKED

    @property
    def plan(self) -> Plan:
        """How packed rows relate to the padded batch."""
        return dense_plan(self.steps, self.batch)

    def enter(self, x: Tensor) -> Tensor:
        """``[T, B, F]`` as cuDNN takes it."""
        return self.time_major(x)

    def leave(self, y: Tensor) -> Tensor:
        """An output as ``[T, B, F]``, with padding where a step is not real."""
        return self.time_major(y)

    def start(self, state: Tensor) -> Tensor:
        """The state ``[L*D, B, S]`` that the caller gave, as the rows start from it."""
        return state

    def final(self, last: Tensor, state: Tensor) -> Tensor:
        """The final state ``[L*D, B, S]``, out of the last state of the rows and the one that the caller gave."""
        return last

    def time_major(self, x: Tensor) -> Tensor:
        """What cuDNN takes or gives as ``[T, rows, F]`` of *lengths*, for plain operations."""
        return x.transpose(0, 1) if self.turned else x

    def as_taken(self, y: Tensor) -> Tensor:
        """The inverse of :meth:`time_major`."""
        return self.time_major(y)

    def backward(self, x: Tensor) -> Tensor:
        """The steps of each row in reversed time; its own inverse."""
        return x.flip(0)

    def parts(self, limit: int) -> list[tuple[Rows, int, int]]:
        """The rows in stretches of at most *limit* steps, each with where it lies along the first axis."""
        ends = [*range(limit, self.steps, limit), self.steps]
        return [
            (Rows(high - low, self.batch), low, high) for low, high in zip([0, *ends], ends, strict=False)
        ]


class Padded(Rows):
    """Rows that end early, in any order; cuDNN reads what lies behind their ends, so it is made finite."""

    def __init__(self, request: Request, lengths: Tensor, turned: bool) -> None:
        super().__init__(len(request.x), request.x.shape[1], turned)
        self.lengths = tuple(lengths.tolist())
        real = real_steps(on_device(lengths, request.x.device), self.steps)
        self.gaps = ~self.time_major(real)[:, :, None]  # [T, B, 1] or [B, T, 1]
        self.padding = request.padding_value

    def enter(self, x: Tensor) -> Tensor:
        return self.time_major(x).masked_fill(self.gaps, 0)

    def leave(self, y: Tensor) -> Tensor:
        if self.padding != 0:  # cuDNN's own padding is 0
            y = y.masked_fill(self.gaps, self.padding)
        return self.time_major(y)


class Runs(Rows):
    """Packed rows ``[N, F]``, longest first: *sizes* rows at each step, non-increasing."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__(len(sizes), sizes[0])
        self.layout = Layout.SEQ_MAJOR_PACKED
        self.sizes = sizes
        rising = sizes[::-1]  # rows of each step, from the last step on
        self.lengths = tuple(self.steps - bisect_right(rising, run) for run in range(self.batch))

    def time_major(self, x: Tensor) -> Tensor:
        return self._order.pad(x)

    def as_taken(self, y: Tensor) -> Tensor:
        return self._order.unpad(y)

    @cached_property
    def _order(self) -> Order:
        return Order(self.sizes, reverse=False)

    def backward(self, x: Tensor) -> Tensor:
        return x.index_select(0, on_device(self._mirrored, x.device))

    @cached_property
    def _mirrored(self) -> Tensor:
        """For each packed row, the one that stands in its place when each run is walked from its end."""
        sizes, lengths = torch.tensor(self.sizes), torch.tensor(self.lengths)
        offset = sizes.cumsum(0) - sizes
        place = self._order.place  # [N]
        step, run = torch.div(place, self.batch, rounding_mode="floor"), place % self.batch
        return offset[lengths[run] - 1 - step] + run

    def parts(self, limit: int) -> list[tuple[Rows, int, int]]:
        found: list[tuple[Rows, int, int]] = []
        low = 0
        for begin in range(0, self.steps, limit):
            sizes = self.sizes[begin : begin + limit]
            found.append((Runs(sizes), low, low + sum(sizes)))
            low += sum(sizes)
        return found


class Planned(Runs):
    """Runs of real steps without a reset inside, as a plan lays them out."""

    def __init__(self, request: Request, plan: Plan) -> None:
        super().__init__(plan.sizes)
        self._plan = plan
        self.padding = request.padding_value
        self.directions = request.descriptor.num_directions

    @property
    def plan(self) -> Plan:
        return self._plan

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
    steps, batch = request.x.shape[:2]
    # Where the states of every step are wanted, or stretches of time run apart, rows lie step after step.
    apart = request.return_states is ReturnStates.ALL or steps > MOST_STEPS
    turned = not apart and not request.x.is_contiguous() and request.x.transpose(0, 1).is_contiguous()
    if request.dense:
        return Rows(steps, batch, turned)
    if request.lengths is not None and request.resets is None and not apart:
        if not request.lengths.any():
            return None
        if takes_empty_rows() or request.lengths.all():
            return Padded(request, request.lengths, turned)
    plan = plan_on_host(request)
    return Planned(request, plan) if plan.sizes else None
