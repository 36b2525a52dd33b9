"""``Plan``: any lengths, mask and resets as packed rows, so that one loop without gaps serves them all.

Each row of the batch is cut into *runs*: stretches of real steps without a reset inside. Holes close, the runs
are sorted by length, longest first, and laid side by side as in a ``PackedSequence``; a run is one packed row.
Everything here is index arithmetic over the whole batch, without a loop over T or B.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..steps import cuts_of, on_device, on_host, real_steps
from .base import Request, ResetTo
from .order import Order

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

    def to(self, device: torch.device) -> Plan:
        """The plan with its indices on *device*, all in one copy."""
        if self.place is None:
            return self
        assert self.row is not None
        assert self.run is not None
        given = () if self.given is None else self.given
        indices = [self.place, self.row, *self.run, *given]
        moved = on_device(torch.cat(indices), device)
        place, row, *rest = moved.split([len(t) for t in indices])  # type: ignore[no-untyped-call]  # torch's own gap
        starts = (rest[2].bool(), rest[3].bool()) if given else None
        return self._replace(place=place, row=row, run=(rest[0], rest[1]), given=starts)

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
        state = state.index_select(0, self.row)
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
        held = padded.index_select(0, latest.clamp(min=0).flatten()).view(*latest.shape, -1)
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
    return _plan(request, request.real(), resets)


def plan_on_host(request: Request) -> Plan:
    """The same plan, made on the host and moved in one copy: a GPU would take dozens of tiny kernels."""
    real, resets = (None if t is None else on_host(t) for t in (request.mask, request.resets))
    if request.lengths is not None:
        real = real_steps(request.lengths, len(request.x))
    return _plan(request, real, resets).to(request.x.device)


def _plan(request: Request, real: Tensor | None, resets: Tensor | None) -> Plan:
    """The plan of flags ``[T, B]``, made where these lie."""
    steps = request.x.shape[0]
    there = _all_true(request, resets) if real is None else real
    place = there.t().flatten().nonzero().squeeze(1)  # [N] b * T + t: row after row, time within it
    row = torch.div(place, max(steps, 1), rounding_mode="floor")  # [N]
    opens = torch.ones_like(row, dtype=torch.bool)
    opens[1:] = row[1:] != row[:-1]
    cut = torch.zeros_like(opens)
    if resets is not None:
        cut = cuts_of(resets, real).t().flatten()[place]
    return _lay_out(request, place, row, opens, cut)


def _all_true(request: Request, like: Tensor | None) -> Tensor:
    device = request.x.device if like is None else like.device
    return torch.ones(request.x.shape[:2], dtype=torch.bool, device=device)


def _lay_out(request: Request, place: Tensor, row: Tensor, opens: Tensor, cut: Tensor) -> Plan:
    """Cuts the real steps into runs, sorts them and lays them side by side."""
    steps, batch = request.x.shape[:2]
    total = len(place)
    begins = opens | cut
    first = begins.nonzero().squeeze(1)  # [R] first real step of each run
    runs = len(first)
    length = torch.diff(first, append=first.new_full((1,), total))
    order = torch.sort(length, descending=True, stable=True).indices
    rank = torch.empty_like(order)
    rank[order] = torch.arange(runs, device=rank.device)
    # sizes[p]: runs longer than p
    sizes = runs - torch.bincount(length, minlength=1).cumsum(0)[:-1]
    offset = sizes.cumsum(0) - sizes
    run = begins.cumsum(0) - 1  # [N] run of each real step
    packed = offset[torch.arange(total, device=run.device) - first[run]] + rank[run]
    time_major = (place - row * steps) * batch + row
    at = torch.empty_like(place).scatter_(0, packed, time_major)
    from_reset = cut[first]
    row_of_run, head = row[first], opens[first]
    tail = torch.ones_like(head)
    tail[:-1] = head[1:]
    given = None
    if request.resets is not None and request.reset_to is ResetTo.ZEROS:
        given = ((head & ~from_reset)[order], tail[order])
    return Plan(
        num_steps=steps,
        batch_size=batch,
        sizes=sizes.tolist(),
        place=at,
        row=row_of_run[order],
        given=given,
        run=(_scatter(rank, row_of_run, tail, batch), _scatter(rank, row_of_run, head, batch)),
    )


def _scatter(ranks: Tensor, rows: Tensor, chosen: Tensor, batch: int) -> Tensor:
    """``[B]``: the rank of each row's chosen run, R for rows without one."""
    result = torch.full((batch,), len(ranks), dtype=ranks.dtype, device=ranks.device)
    result[rows[chosen]] = ranks[chosen]
    return result
