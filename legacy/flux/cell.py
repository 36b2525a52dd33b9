"""What the three cells share: their fields, their call, and the one call of the core that computes it."""

from __future__ import annotations

from typing import Any, ClassVar
from weakref import WeakSet

import torch
from torch import Tensor, nn

from rnncompat import (
    GRU,
    LSTM,
    RNN,
    Cell,
    InvalidTypeError,
    RNNDescriptor,
    RNNState,
    RNNWeights,
    rnn_forward,
)
from rnncompat.versions import autocast_enabled, is_compiling

from ..compute import from_core, state_to_core, step_with
from ..successor import successor
from .initial import Init
from .inputs import as_wide, read_input, read_state

__all__ = ["FluxCell", "State", "ran"]

State = Tensor | tuple[Tensor, Tensor]
"""h, or ``(h, c)`` of an LSTM: each ``(H,)`` or ``(H, B)``."""

ran: WeakSet[FluxCell] = WeakSet()
"""The cells that have run, by identity: those of which Flux held a descriptor."""


class FluxCell(nn.Module):
    """What the three cells share; use ``RNNCell``, ``LSTMCell`` or ``GRUCell``.

    Wi, Wh, b and the initial state are parameters: Flux trained them all.
    """

    Wi: nn.Parameter
    Wh: nn.Parameter
    b: nn.Parameter
    h: nn.Parameter
    states: ClassVar[tuple[str, ...]] = ("h",)
    """Fields of the initial state."""

    cores: ClassVar[tuple[Cell, ...]]
    """The cells of the core that may compute this one."""

    def __init__(self, input: int, output: int, init: Init) -> None:  # noqa: A002  # as RNNDesc
        super().__init__()
        # Zeros on the recurrent side make "input" of the double bias, which is the form with a short way.
        self._descriptors = {core: RNNDescriptor(core, input, output) for core in self.cores}
        rows = self.cores[0].gates * output
        self.Wi = nn.Parameter(init(rows, input))
        self.Wh = nn.Parameter(init(rows, output))
        self.b = nn.Parameter(init(rows))
        for name in self.states:
            setattr(self, name, nn.Parameter(self.b.detach().new_zeros(output)))

    @property
    def core(self) -> Cell:
        """The cell of the core that computes this one."""
        return self.cores[0]

    @property
    def descriptor(self) -> RNNDescriptor:
        """What is computed, as the core says it: the descriptor of an ``RNNDesc``, whose recurrent bias is 0."""
        return self._descriptors[self.core]

    def hidden(self) -> State:
        """The initial state: h, or ``(h, c)``."""
        h, *c = (getattr(self, name) for name in self.states)
        return (h, c[0]) if c else h

    def to_new(self, name: str = "module") -> RNN | LSTM | GRU:
        """The module of the core with this cell's weights; prints the line that builds it.

        Args:
            name: of the variable in the printed line.

        Raises:
            UnsupportedError: σ is neither tanh nor relu.

        Example:
            >>> from rnncompat import legacy
            >>> with legacy.legacy_warnings("quiet"):
            ...     cell = legacy.GRUCell(3, 5)
            >>> gru = cell.to_new("gru")
            gru = rnncompat.GRU(3, 5, bias='input')
        """
        single = RNNDescriptor(self.core, self.Wi.shape[1], self.Wh.shape[1], bias="input")
        return successor(single, self._named(), name)

    def forward(self, state: State, x: Tensor) -> tuple[State, Tensor]:
        """One step, or a whole sequence; the old interface knew no autocast.

        Args:
            state: h, or ``(h, c)``: each ``(H,)``, ``(H, 1)`` or ``(H, B)``.
            x: ``(I,)``, ``(I, B)`` or, for a whole sequence in one call, ``(I, B, T)``; converted to dtype and
                device of the cell, as nothing else is.

        Returns:
            The state after it, and y of shape ``(H,)``, ``(H, B)`` or ``(H, B, T)``.

        Raises:
            InvalidValueError: a shape does not fit; after a batch of another size, ``reset()`` mends it.
            InvalidTypeError: a state of another dtype or device than the cell's.
        """
        device = self.Wi.device.type
        if autocast_enabled(device):
            with torch.autocast(device, enabled=False):
                return self.forward(state, x)
        if not is_compiling() and self not in ran:
            ran.add(self)
        hidden = self.Wh.shape[1]
        x = read_input(x, self.Wi.shape[1], self.Wi)
        parts = [
            read_state(name, part, hidden, x, self.Wi)
            for name, part in zip(self.states, self._parts(state), strict=True)
        ]
        if x.dim() == 3 and not x.shape[2]:
            return state, x.new_zeros(hidden, *x.shape[1:])
        y, *after = self._run(x, *(as_wide(part, x) for part in parts))
        return (after[0], after[1]) if len(after) > 1 else after[0], y

    def _parts(self, state: Any) -> tuple[Any, ...]:
        if len(self.states) == 1:
            return (state,)
        if not isinstance(state, (tuple, list)) or len(state) != 2:
            raise InvalidTypeError(f"state is a {type(state).__name__}; expected a pair (h, c).")
        return tuple(state)

    def _named(self) -> dict[str, Tensor]:
        return {"weight_ih_l0": self.Wi, "weight_hh_l0": self.Wh, "bias_ih_l0": self.b}

    def _run(self, x: Tensor, h: Tensor, c: Tensor | None = None) -> tuple[Tensor, ...]:
        """``(y, h[, c])``, y and h apart."""
        named = {**self._named(), "bias_hh_l0": torch.zeros_like(self.b)}
        weights = RNNWeights.from_named(self.descriptor, named)
        result = step_with(weights, x, h, c) if x.dim() < 3 else _sequence(weights, x, h, c)
        return tuple(part for part in result if part is not None)

    def extra_repr(self) -> str:
        """The sizes, as Flux showed them."""
        return f"{self.Wi.shape[1]}, {self.Wh.shape[1]}"


def _sequence(
    weights: RNNWeights, x: Tensor, h: Tensor, c: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """``(I, B, T)`` and ``(H, B)`` in, ``(H, B, T)`` and ``(H, B)`` out: one call of the core."""
    start = RNNState(state_to_core(h, vector=False), None if c is None else state_to_core(c, vector=False))
    output, after = rnn_forward(weights.descriptor, weights, x.permute(2, 1, 0), start)  # [T, B, I]
    cell = None if after.c is None else from_core(after.c, vector=False)
    return output.permute(2, 1, 0), from_core(after.h, vector=False), cell
