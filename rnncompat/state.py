"""``RNNState``: h and c of every layer and direction, explicit in and explicit out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .descriptor import RNNDescriptor
from .errors import InvalidTypeError, InvalidValueError, bad_shape, bad_type, check_whole

__all__ = ["RNNState", "StateLike", "final_output", "full_state"]


class RNNState(NamedTuple):
    """The state of a recurrent network (cuDNN: hx cx, hy cy).

    Layers and directions lie along the first axis as pseudo-layers:
    ``state.h[descriptor.pseudo_layer(layer, direction)]``. It unpacks as torch's ``(h, c)``.

    Attributes:
        h: ``[L*D, B, P or H]``; ``[L*D, P or H]`` beside unbatched input.
        c: ``[L*D, B, H]``, or ``[L*D, H]`` unbatched; None unless the cell is an LSTM.

    Example:
        >>> descriptor = RNNDescriptor("lstm", 3, 4, num_layers=2)
        >>> state = RNNState.zeros(descriptor, batch_size=5)
        >>> state.h.shape, state.index_select([0, 2]).c.shape
        (torch.Size([2, 5, 4]), torch.Size([2, 2, 4]))
    """

    h: Tensor
    c: Tensor | None = None

    @classmethod
    def zeros(
        cls,
        descriptor: RNNDescriptor,
        batch_size: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> RNNState:
        """A state of zeros for *batch_size* rows."""
        rows = (descriptor.num_pseudo_layers, check_whole("batch_size", batch_size, 0))
        h = torch.zeros(*rows, descriptor.state_size, dtype=dtype, device=device)
        if not descriptor.has_cell_state:
            return cls(h)
        return cls(h, torch.zeros(*rows, descriptor.hidden_size, dtype=dtype, device=device))

    @classmethod
    def cat(cls, states: Sequence[RNNState]) -> RNNState:
        """Joins states along the batch axis, as for a batch made of several sessions.

        Example:
            >>> one = RNNState(torch.zeros(1, 2, 3))
            >>> RNNState.cat([one, one]).h.shape
            torch.Size([1, 4, 3])
        """
        if not states:
            raise InvalidValueError("states is empty; expected at least one RNNState.")
        if len({state.c is None for state in states}) > 1:
            raise InvalidValueError("states mixes some with c and some without; expected all alike.")
        h = torch.cat([_batched(state.h) for state in states], dim=1)
        cells = [_batched(state.c) for state in states if state.c is not None]
        return cls(h, torch.cat(cells, dim=1) if cells else None)

    def detach(self) -> RNNState:
        """The same values, cut from the graph: call it between chunks of truncated backpropagation."""
        return RNNState(self.h.detach(), None if self.c is None else self.c.detach())

    def clone(self) -> RNNState:
        """A copy in memory of its own; gradients flow through."""
        return RNNState(self.h.clone(), None if self.c is None else self.c.clone())

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> RNNState:
        """The state on another device or in another dtype; gradients flow through."""
        device, dtype = device or self.h.device, dtype or self.h.dtype
        return RNNState(
            self.h.to(device=device, dtype=dtype),
            None if self.c is None else self.c.to(device=device, dtype=dtype),
        )

    def index_select(self, rows: Tensor | Sequence[int]) -> RNNState:
        """The state of some rows of the batch, in the order given.

        Args:
            rows: ``[K]`` indices into the batch.
        """
        h = _batched(self.h)
        index = torch.as_tensor(rows, dtype=torch.int64, device=h.device)
        return RNNState(h.index_select(1, index), None if self.c is None else self.c.index_select(1, index))

    def reset(self, rows: Tensor | Sequence[bool] | Sequence[int]) -> RNNState:
        """The state with some rows of the batch set to zero, as at the start of an episode.

        Args:
            rows: ``[B]`` booleans, True = reset; or ``[K]`` indices into the batch.

        Example:
            >>> RNNState(torch.ones(1, 3, 1)).reset([False, True, False]).h.flatten().tolist()
            [1.0, 0.0, 1.0]
        """
        h = _batched(self.h)
        rows = torch.as_tensor(rows, device=h.device)
        chosen = torch.zeros(h.shape[1], dtype=torch.bool, device=h.device)
        if rows.dtype == torch.bool and rows.shape != chosen.shape:
            raise bad_shape("rows", rows, f"[{h.shape[1]}], one flag a row of the batch")
        if rows.dtype != torch.bool:
            rows = rows.to(torch.int64)
        chosen[rows] = True
        # A fill, never a product with a keep mask: 0 * inf is NaN.
        cut = chosen[:, None]  # [B, 1]
        return RNNState(h.masked_fill(cut, 0), None if self.c is None else self.c.masked_fill(cut, 0))


def _batched(tensor: Tensor) -> Tensor:
    if tensor.dim() != 3:
        hint = "An unbatched state has no rows to choose from."
        if tensor.dim() == 4:
            hint = 'With return_states="all", choose a step first: RNNState(state.h[t], …).'
        raise bad_shape("state", tensor, "[L*D, B, ·]", hint)
    return tensor


StateLike = RNNState | tuple[Tensor, Tensor | None] | Tensor | None
"""A state as a caller may give it: None for zeros, h alone, or (h, c)."""


def final_output(descriptor: RNNDescriptor, state: RNNState) -> Tensor:
    """The last layer's true final output, right for lengths and for both directions.

    The last step of a padded output is padding for short rows, and its backward half has read one
    step only; the final state has neither fault.

    Args:
        descriptor: the network that made *state*.
        state: a final state, h ``[L*D, B, P or H]`` or unbatched ``[L*D, P or H]``.

    Returns:
        ``[B, D*(P or H)]``, or ``[D*(P or H)]`` unbatched: forward half, then backward half.

    Example:
        >>> descriptor = RNNDescriptor("gru", 3, 4, bidirectional=True)
        >>> final_output(descriptor, RNNState(torch.zeros(2, 5, 4))).shape
        torch.Size([5, 8])
    """
    expected = f"[{descriptor.num_pseudo_layers}, B, {descriptor.state_size}] or unbatched, without B"
    ends = (state.h.shape[0], state.h.shape[-1])
    if state.h.dim() not in (2, 3) or ends != (descriptor.num_pseudo_layers, descriptor.state_size):
        raise bad_shape("state.h", state.h, expected, 'With return_states="all", choose a step first.')
    return torch.cat(state.h[-descriptor.num_directions :].unbind(0), dim=-1)


def full_state(
    descriptor: RNNDescriptor,
    state: StateLike,
    like: Tensor,
    batched: bool,
) -> RNNState:
    """Checks a state as a caller may give it and brings it to full shape.

    Args:
        descriptor: the network.
        state: None (zeros), h alone, or ``(h, c)``; each ``[S]``, ``[1, S]``, ``[L*D, 1, S]``,
            ``[B, S]`` (when L*D is 1) or ``[L*D, B, S]``; beside unbatched input ``[S]``, ``[1, S]``
            or ``[L*D, S]``. ``(h, None)`` for an LSTM means c = 0.
        like: ``[T, B, I]``, whose batch size, dtype and device the state must have.
        batched: whether the caller's input had a batch axis.

    Returns:
        h ``[L*D, B, P or H]`` and c ``[L*D, B, H]`` (None unless LSTM), expanded, not copied.
    """
    if state is None:
        return _zeros(descriptor, like)
    h, c = _parts(descriptor, state)
    h = _expand("state.h", h, descriptor.num_pseudo_layers, descriptor.state_size, like, batched)
    if not descriptor.has_cell_state:
        return RNNState(h)
    if c is None:
        return RNNState(h, like.new_zeros(*h.shape[:2], descriptor.hidden_size))
    c = _expand("state.c", c, descriptor.num_pseudo_layers, descriptor.hidden_size, like, batched)
    return RNNState(h, c)


def _zeros(descriptor: RNNDescriptor, like: Tensor) -> RNNState:
    """Zeros at full shape; nobody writes into a given state, so one tensor can serve for h and c."""
    rows = (descriptor.num_pseudo_layers, like.shape[1])
    h = like.new_zeros(*rows, descriptor.state_size)
    if not descriptor.has_cell_state:
        return RNNState(h)
    return RNNState(h, like.new_zeros(*rows, descriptor.hidden_size) if descriptor.proj_size else h)


def _parts(descriptor: RNNDescriptor, state: object) -> tuple[Tensor, Tensor | None]:
    """Splits a state of any accepted kind into h and c, or says which kind this cell needs."""
    expected = "(h, c)" if descriptor.has_cell_state else "the tensor h"
    hint = f"The cell is {descriptor.cell.value!r}."
    if isinstance(state, Tensor):
        if descriptor.has_cell_state:
            raise bad_type("state", state, expected, f"{hint} (h, None) means c = 0.")
        return state, None
    if not isinstance(state, tuple) or len(state) != 2:
        raise bad_type("state", state, expected, hint)
    h, c = state
    if not isinstance(h, Tensor):
        raise bad_type("state.h", h, "a tensor", hint)
    if c is not None and not descriptor.has_cell_state:
        raise bad_type("state.c", c, "None", f"{hint} It has no cell state.")
    if c is not None and not isinstance(c, Tensor):
        raise bad_type("state.c", c, "a tensor or None", hint)
    return h, c


def _expand(name: str, s: Tensor, layers: int, size: int, like: Tensor, batched: bool) -> Tensor:
    """Brings one tensor of a state to ``[L*D, B, S]``; its gradient keeps the caller's shape."""
    batch = like.shape[1]
    if s.dtype != like.dtype or s.device != like.device:
        raise InvalidTypeError(
            f"{name} is {s.dtype} on {s.device}, but the input is {like.dtype} on {like.device}; "
            "expected the same dtype and device."
        )
    shape = tuple(s.shape)
    accepted = [(size,), (1, size)]  # no set: the sizes of a traced tensor have no hash of their own
    if not batched:
        accepted.append((layers, size))
        s = s[:, None] if shape == (layers, size) else s  # [L*D, 1, S]
    else:
        accepted += [(layers, 1, size), (layers, batch, size), *([(batch, size)] if layers == 1 else [])]
    if shape not in accepted:
        raise bad_shape(name, s, _shapes_text(layers, batch, size, batched))
    return s if shape == (layers, batch, size) else s.expand(layers, batch, size)


def _shapes_text(layers: int, batch: int, size: int, batched: bool) -> str:
    if not batched:
        return f"[{layers}, {size}] beside unbatched input"
    return f"[{layers}, {batch}, {size}] ([L*D, B, ·]; the state is never batch-first), or one row to repeat"
