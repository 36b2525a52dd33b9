"""Order of the gates: blocks of rows that every framework stacks in an order of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from ..descriptor import Cell

__all__ = ["OURS", "reorder", "said"]

OURS: dict[Cell, str] = {Cell.RNN_RELU: "h", Cell.RNN_TANH: "h", Cell.LSTM: "ifgo", Cell.GRU: "rzn"}
"""A letter a gate, in the order of our rows, which is torch's and cuDNN's."""


def reorder(blocks: Tensor, have: str, want: str, dim: int = 0) -> Tensor:
    """*blocks*, equal parts along *dim* in the order *have*, in the order *want*.

    Example:
        >>> reorder(torch.tensor([1, 2, 3, 4]), "iofg", "ifgo").tolist()
        [1, 3, 4, 2]
    """
    assert sorted(have) == sorted(want)
    parts = dict(zip(have, blocks.chunk(len(have), dim), strict=True))
    return torch.cat([parts[gate] for gate in want], dim)


def said(have: str, want: str) -> tuple[str, ...]:
    """The entry of ``done`` for a new order; none where nothing changes."""
    return () if have == want else (f"gates {' '.join(have)} became {' '.join(want)}",)
