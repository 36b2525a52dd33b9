"""``Plan``: any lengths, mask and resets as packed rows, so that one loop without gaps serves them all.

Each row of the batch is cut into *runs*: stretches of real steps without a reset inside. Holes close, the runs
are sorted by length, longest first, and laid side by side as in a ``PackedSequence``; a run is one packed row.
Everything here is index arithmetic over the whole batch, without a loop over T or B.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..steps import on_device, on_host, real_steps
from .base import Request, ResetTo
from .order import Order
from .runs import Runs, find_runs

__all__ = ["Plan", "dense_plan", "packed_plan", "plan_on_host"]


class Plan(NamedTuple):
    """How packed rows ``[N, ·]`` relate to the padded batch ``[T, B, ·]``.

    Attributes:
        num_steps: T.
        batch_size: B.
        sizes: runs of each packed step, non-increasing.
        place: ``[N]``, position ``t * B + b`` of each packed row; None where packing changes nothing.
        row: ``[R]``, row of the batch that each run belongs to; None: run r is row r.
        given: for each direction ``[R]``, True where the run starts from the caller's state, else zeros; or None,
            where all do.
        run: for each direction ``[B]``, the run that ends with the row's final state; R where there is none.
    """

    num_steps: int
    batch_size: int
    sizes: list[int]
    place: Tensor | None
    row: Tensor | None
    given: tuple[Tensor, Tensor] | None
    run: tuple[Tensor, Tensor] | None

    def orders(self, directions: int) -> tuple[Order, ...]:
        """The walks forward and, of two directions, backward."""
        return tuple(Order(self.sizes, reverse=reverse) for reverse in (False, True)[:directions])

    def pack(self, padded: Tensor) -> Tensor:
        """``[T, B, F]`` as packed rows ``[N, F]``."""
        flat = padded.reshape(-1, padded.shape[-1])
        return flat if self.place is None else _PackRows.apply(flat, self.place)  # type: ignore[no-untyped-call]  # torch's gap

    def unpack(self, rows: Tensor, padding: float) -> Tensor:
        """Packed rows ``[N, F]`` as ``[T, B, F]`` with *padding* elsewhere, in memory of its own.

        No view, which FSDP2 warns of; and no memory that a kernel keeps for its backward pass, so that the
        caller may change an output in place, as ``torch.nn``'s.
        """
        shape = (self.num_steps, self.batch_size, rows.shape[-1])
        if self.place is None:
            return rows.view(shape).clone() if rows.requires_grad else rows.view(shape)
        flat = rows.new_full((shape[0] * shape[1], shape[2]), padding).index_copy(0, self.place, rows)
        result: Tensor = torch.ops.aten._unsafe_view(flat, shape)  # safe: nobody else holds it
        return result

    def start(self, state: Tensor, direction: int) -> Tensor:
        """The state ``[B, S]`` that each run starts from, ``[R, S]``."""
        if self.row is None:
            return state
        state = state[self.row]  # not index_select, whose gradient adds up in any order on a GPU
        return state if self.given is None else state.masked_fill(~self.given[direction][:, None], 0)

    def final(self, last: Tensor, state: Tensor, direction: int) -> Tensor:
        """The final states ``[B, S]`` out of the last state of every run ``[R, S]``."""
        if self.run is None:
            return last
        run = self.run[direction]
        found = last.index_select(0, run.clamp(max=len(last) - 1))
        return torch.where((run == len(last))[:, None], state, found)

    def carried(self, after: Tensor, state: Tensor, direction: int) -> Tensor:
        """The state after every step of the padded batch ``[T, B, S]``; where not real, the carried one."""
        if self.place is None:
            return after.view(self.num_steps, self.batch_size, -1)
        total = self.num_steps * self.batch_size
        at = torch.full((total,), -1, dtype=torch.int64, device=after.device)
        at[self.place] = self.place
        steps = at.view(self.num_steps, self.batch_size)
        steps = steps.flip(0) if direction else steps
        # Positions grow with time, so a running extreme finds the nearest real step behind.
        latest = _nearest(steps, backward=bool(direction))
        latest = latest.flip(0) if direction else latest  # [T, B], -1 before the first real step
        padded = after.new_zeros(total, after.shape[1]).index_copy(0, self.place, after)
        held = padded[latest.clamp(min=0)]  # [T, B, S]; not index_select, as above
        return torch.where((latest < 0)[:, :, None], state, held)


def _nearest(steps: Tensor, *, backward: bool) -> Tensor:
    """The last entry that is not -1, going down the first axis."""
    if not backward:
        return steps.cummax(0).values
    huge = torch.iinfo(torch.int64).max
    found = torch.where(steps < 0, huge, steps).cummin(0).values
    return torch.where(found == huge, -1, found)


class _PackRows(torch.autograd.Function):
    """Selects rows that are all different, so that the gradient is a copy and needs no adding up."""

    @staticmethod
    def forward(ctx, flat, place):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN205  # autograd's own signature
        ctx.save_for_backward(place)
        ctx.size = len(flat)
        return flat.index_select(0, place)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN205  # likewise
        (place,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.size, gradient.shape[1]).index_copy(0, place, gradient), None


def dense_plan(num_steps: int, batch_size: int) -> Plan:
    """Every step real, no reset: the rows already lie packed."""
    return Plan(num_steps, batch_size, [batch_size] * num_steps, None, None, None, None)


def packed_plan(request: Request) -> Plan:
    """The plan of a request with gaps or resets, made where x lies."""
    device = request.x.device
    resets = None if request.resets is None else on_device(request.resets, device)
    return _lay_out(request, find_runs(request.real(), resets))


def plan_on_host(request: Request) -> Plan:
    """The same plan, made on the host from one copy of the flags; a GPU only spreads it out, and nobody waits for it."""
    real, resets = (None if t is None else on_host(t) for t in (request.mask, request.resets))
    if request.lengths is not None:
        real = real_steps(request.lengths, len(request.x))
    return _lay_out(request, find_runs(real, resets))


class _Indices(NamedTuple):
    """What a plan is made of, small beside N but for *spots*.

    Attributes:
        row, run_forward, run_backward, given_forward, given_backward: as in :class:`Plan`.
        first: ``[R]`` as in :class:`Runs`, longest run first.
        sizes: ``[T']`` runs of each packed step.
        spots: as in :class:`Runs`.
    """

    row: Tensor
    run_forward: Tensor
    run_backward: Tensor
    given_forward: Tensor | None
    given_backward: Tensor | None
    first: Tensor
    sizes: Tensor
    spots: Tensor | None

    def to(self, device: torch.device) -> _Indices:
        """The same on *device*, in one copy."""
        if self.row.device == device:
            return self
        there = [t for t in self if t is not None]
        copy = on_device(torch.cat(there), device)
        moved = iter(copy.split([len(t) for t in there]))  # type: ignore[no-untyped-call]  # torch's own gap
        return _Indices(*(None if t is None else next(moved).to(t.dtype) for t in self))  # type: ignore[arg-type]  # None as before


def _lay_out(request: Request, runs: Runs) -> Plan:
    """Lays the runs side by side, longest first."""
    steps, batch = request.x.shape[:2]
    indices = _sort(request, runs)
    sizes = indices.sizes.tolist()
    indices = indices.to(request.x.device)
    given = None
    if indices.given_forward is not None and indices.given_backward is not None:
        given = (indices.given_forward, indices.given_backward)
    run = (indices.run_forward, indices.run_backward)
    return Plan(steps, batch, sizes, _place(indices, steps, batch, runs.total), indices.row, given, run)


def _sort(request: Request, runs: Runs) -> _Indices:
    """The runs by their lengths, which of them end each row, and which start from the caller's state."""
    batch, count = request.x.shape[1], len(runs.first)
    length = torch.diff(runs.first, append=runs.first.new_full((1,), runs.total))
    order = torch.sort(length, descending=True, stable=True).indices
    rank = torch.empty_like(order)
    rank[order] = torch.arange(count, device=rank.device)
    tail = torch.ones_like(runs.head)
    tail[:-1] = runs.head[1:]
    zeros = request.resets is not None and request.reset_to is ResetTo.ZEROS
    return _Indices(
        row=runs.row[order],
        run_forward=_scatter(rank, runs.row, tail, batch),
        run_backward=_scatter(rank, runs.row, runs.head, batch),
        given_forward=(runs.head & ~runs.cut)[order] if zeros else None,
        given_backward=tail[order] if zeros else None,
        first=runs.first[order],
        sizes=count - torch.bincount(length, minlength=1).cumsum(0)[:-1],  # at p, runs longer than p
        spots=runs.spots,
    )


def _place(indices: _Indices, steps: int, batch: int, total: int) -> Tensor:
    """``[N]``, the position ``t * B + b`` of each packed row, by operations that read no value."""
    sizes = indices.sizes
    numbers = torch.arange(len(sizes), device=sizes.device)
    step = torch.repeat_interleave(numbers, sizes, output_size=total)  # [N] within its run
    offset = sizes.cumsum(0) - sizes
    slot = torch.arange(total, device=sizes.device) - offset[step]
    nth = indices.first[slot] + step  # as runs count real steps
    if indices.spots is not None:
        return indices.spots[nth]
    row = torch.div(nth, steps, rounding_mode="floor")
    return (nth - row * steps) * batch + row


def _scatter(ranks: Tensor, rows: Tensor, chosen: Tensor, batch: int) -> Tensor:
    """``[B]``: the rank of each row's chosen run, R for rows without one."""
    result = torch.full((batch,), len(ranks), dtype=ranks.dtype, device=ranks.device)
    result[rows[chosen]] = ranks[chosen]
    return result
