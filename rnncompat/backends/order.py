"""``Order``: in which order one direction walks over packed rows.

Packed rows ``[N, ·]`` hold step after step; step t has ``sizes[t]`` rows, never more than the step before, and
row r of every step belongs to the same sequence. A dense batch is the special case of equal sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from ..steps import on_device

__all__ = ["Block", "Order", "enter"]

V = TypeVar("V")

# Coefficients of the backward pass are made for so many numbers at a time (16 MB in float32), which caps
# memory for long sequences and costs nothing for short ones.
_BLOCK_NUMBERS = 1 << 22


class Block(NamedTuple):
    """Consecutive steps of a walk, and the packed rows ``low:high`` they cover."""

    steps: list[int]
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Order:
    """A walk over packed rows, forward or backward in time.

    Attributes:
        sizes: rows of each step in order of time, non-increasing.
        reverse: whether the walk begins at each row's last step.
    """

    sizes: list[int]
    reverse: bool

    @cached_property
    def dense(self) -> bool:
        """Whether every step has all rows."""
        return self.sizes[0] == self.sizes[-1]

    @cached_property
    def place(self) -> Tensor:
        """``[N]`` on the host: where each packed row lies in ``[T * R]`` steps and rows."""
        rows, sizes = self.sizes[0], torch.tensor(self.sizes)
        return (torch.arange(rows) < sizes[:, None]).flatten().nonzero().squeeze(1)

    def pad(self, packed: Tensor, fill: float = 0.0) -> Tensor:
        """Packed rows ``[N, F]`` as ``[T, R, F]``, with *fill* where a row has ended."""
        shape = (len(self.sizes), self.sizes[0], packed.shape[1])
        if self.dense:
            return packed.view(shape)
        place = on_device(self.place, packed.device)
        return packed.new_full((shape[0] * shape[1], shape[2]), fill).index_copy(0, place, packed).view(shape)

    def unpad(self, padded: Tensor) -> Tensor:
        """The inverse of :meth:`pad`."""
        flat = padded.flatten(0, 1)
        return flat if self.dense else flat.index_select(0, on_device(self.place, padded.device))

    def steps(self) -> list[int]:
        """The steps in the order of the walk."""
        return self.walked(range(len(self.sizes)))

    def along(self, tensor: Tensor) -> list[Tensor]:
        """*tensor* ``[N, ·]`` cut into steps, in the order of the walk."""
        return self.walked(tensor.split(self.sizes))  # type: ignore[no-untyped-call]  # torch's own gap

    def walked(self, steps: Sequence[V]) -> list[V]:
        """What belongs to each step, from order of time into the order of the walk."""
        return list(steps[::-1] if self.reverse else steps)

    def before(self, after: Tensor, start: Tensor) -> Tensor:
        """The state before every step ``[N, ·]``, given the state after it and the start ``[R, ·]``."""
        if self.dense:
            rows = self.sizes[0]
            return torch.cat([after[rows:], start] if self.reverse else [start, after[:-rows]])
        return torch.cat([after, start]).index_select(0, self._index_before.to(after.device))

    @cached_property
    def _index_before(self) -> Tensor:
        """For each packed row, where ``cat([after, start])`` holds the state before it."""
        sizes = torch.tensor(self.sizes)
        total = int(sizes.sum())
        if not self.reverse:
            rows = self.sizes[0]
            back = torch.arange(rows, total) - sizes[:-1].repeat_interleave(sizes[1:])
            return torch.cat([torch.arange(total, total + rows), back])
        row = torch.arange(total) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        following = torch.cat([sizes[1:], sizes.new_zeros(1)]).repeat_interleave(sizes)
        ahead = torch.arange(total) + sizes.repeat_interleave(sizes)
        return torch.where(row < following, ahead, total + row)

    def final(self, after: Tensor) -> Tensor:
        """The state of each of the R rows after its last step in the walk, out of those after every step."""
        rows = self.sizes[0]
        if self.reverse:
            return after[:rows]
        return after[-rows:] if self.dense else after.index_select(0, self._last.to(after.device))

    @cached_property
    def _last(self) -> Tensor:
        """The packed row of each row's last step, going forward."""
        sizes, rows = torch.tensor(self.sizes), torch.arange(self.sizes[0])
        steps = len(sizes) - 1 - torch.searchsorted(sizes.flip(0).contiguous(), rows + 1)
        return (sizes.cumsum(0) - sizes)[steps] + rows

    def blocks_back(self, width: int) -> Iterator[Block]:
        """The walk from its end, in blocks of steps whose rows times *width* stay within a budget."""
        limit, rows, walk = max(1, _BLOCK_NUMBERS // width), 0, self.steps()[::-1]
        begin, low = 0, 0 if self.reverse else sum(self.sizes)
        for end, step in enumerate(walk, 1):
            rows += self.sizes[step]
            if rows >= limit or end == len(walk):
                low -= 0 if self.reverse else rows
                yield Block(walk[begin:end], low, low + rows)
                low += rows if self.reverse else 0
                begin, rows = end, 0


def enter(state: Tensor, start: Tensor, rows: int) -> Tensor:
    """The state of a step's *rows*: rows that have ended fall away, rows that begin come from *start*."""
    have = len(state)
    return state[:rows] if rows <= have else torch.cat([state, start[have:rows]])
