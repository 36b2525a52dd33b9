"""``Runs``: the stretches of real steps without a reset inside, row after row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..steps import cuts_of

__all__ = ["Runs", "find_runs"]


class Runs(NamedTuple):
    """R runs in order of rows, and of time within a row.

    Attributes:
        first: ``[R]`` how many real steps come before each run, counted row after row.
        row: ``[R]`` row of the batch that each run belongs to.
        head: ``[R]`` True where a run is the first of its row.
        cut: ``[R]`` True where a run begins by a reset.
        total: N, the real steps.
        spots: ``[N]`` position ``t * B + b`` of each real step in that order; None where every step is real.
    """

    first: Tensor
    row: Tensor
    head: Tensor
    cut: Tensor
    total: int
    spots: Tensor | None


def find_runs(real: Tensor | None, resets: Tensor | None) -> Runs:
    """The runs of flags ``[T, B]``, at least one of which is there, made where these lie."""
    if real is None:
        assert resets is not None
        return _of_whole_rows(resets) if resets.numel() else find_runs(torch.ones_like(resets), resets)
    steps, batch = real.shape
    place = real.t().flatten().nonzero().squeeze(1)  # [N] b * T + t
    row = torch.div(place, max(steps, 1), rounding_mode="floor")  # [N]
    opens = torch.ones_like(row, dtype=torch.bool)
    opens[1:] = row[1:] != row[:-1]
    cut = torch.zeros_like(opens) if resets is None else cuts_of(resets, real).t().flatten()[place]
    first = (opens | cut).nonzero().squeeze(1)  # [R]
    spots = (place - row * steps) * batch + row
    return Runs(first, row[first], opens[first], cut[first], len(place), spots)


def _of_whole_rows(resets: Tensor) -> Runs:
    """As :func:`find_runs` where every step is real: little is as long as N."""
    steps = len(resets)
    begins = resets.t().clone(memory_format=torch.contiguous_format)  # [B, T]
    begins[:, 0] = True
    first = begins.flatten().nonzero().squeeze(1)  # [R]
    row = torch.div(first, steps, rounding_mode="floor")
    step = first - row * steps
    return Runs(first, row, step == 0, resets[step, row], resets.numel(), None)
