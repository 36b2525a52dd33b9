"""Order of the gates: blocks of rows that every framework stacks in an order of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from ..descriptor import Cell
from ..errors import bad_shape, bad_value, check_choice

__all__ = ["KERAS", "OURS", "reorder", "said", "tell_cell"]

OURS: dict[Cell, str] = {Cell.RNN_RELU: "h", Cell.RNN_TANH: "h", Cell.LSTM: "ifgo", Cell.GRU: "rzn"}
"""A letter a gate, in the order of our rows, which is torch's and cuDNN's."""

KERAS: dict[Cell, str] = {**OURS, Cell.GRU: "zrn"}
"""In Keras's order: i f c o, which is ours, and z r h."""


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


def tell_cell(name: str, recurrent: Tensor, hidden: int, cell: Cell | str | None) -> Cell:
    """The cell whose gates are as many as the blocks of *hidden* rows in *recurrent*, the matrix *name*.

    Raises:
        InvalidValueError: there is none; *cell* is another; or it is None, and one gate fits ReLU and tanh.
    """
    gates, rest = divmod(recurrent.shape[0], max(hidden, 1))
    fitting = [one for one in Cell if one.gates == gates]
    if rest or not fitting:
        expected = f"[G*H, ...] with H = {hidden} and G = 1 (RNN), 3 (GRU) or 4 (LSTM)"
        raise bad_shape(name, recurrent, expected)
    choices = " or ".join(repr(one.value) for one in fitting)
    if cell is None and len(fitting) > 1:
        raise bad_value("cell", cell, choices, "The arrays of the two look alike.")
    chosen = fitting[0] if cell is None else check_choice("cell", cell, Cell)
    if chosen not in fitting:
        raise bad_value("cell", chosen.value, f"{choices}: {name} has {gates} times H = {hidden} rows")
    return chosen
