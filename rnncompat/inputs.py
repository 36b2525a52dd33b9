"""Reads an input of any accepted kind and remembers how to give the output back in that kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from .errors import InvalidValueError, bad_shape, bad_type
from .sequence import SequenceBatch

__all__ = ["Input", "as_column", "read_input"]


class Input(NamedTuple):
    """An input in the one form that everything below works on.

    Attributes:
        batch: the sequences.
        batched: False for ``[T, I]``, which runs as a batch of one.
        as_given: turns a padded output ``[T, B, ·]`` into the kind that came in.
    """

    batch: SequenceBatch
    batched: bool
    as_given: Callable[[Tensor], Any]


def read_input(x: Any, lengths: Any, mask: Any, batch_first: bool) -> Input:
    """Reads *x* with its lengths or mask, or says what is wrong with them."""
    if lengths is not None and mask is not None:
        raise InvalidValueError("lengths and mask are both given; expected one of them.")
    if isinstance(x, Tensor):
        return _read_tensor(x, lengths, mask, batch_first)
    for kind, read in _READERS:
        if isinstance(x, kind):
            if lengths is not None or mask is not None:
                name = "lengths" if mask is None else "mask"
                raise InvalidValueError(f"{name} is given, but a {type(x).__name__} has its own lengths.")
            return read(x)
    raise bad_type("x", x, "a tensor, PackedSequence, SequenceBatch or list of tensors")


def _read_tensor(x: Tensor, lengths: Any, mask: Any, batch_first: bool) -> Input:
    if x.dim() == 2:
        return _read_unbatched(x, lengths, mask)
    if x.dim() != 3:
        raise bad_shape("x", x, f"{'[B, T, I]' if batch_first else '[T, B, I]'} or, unbatched, [T, I]")
    if mask is None:
        batch = SequenceBatch.from_padded(x, lengths, batch_first=batch_first)
    else:
        batch = SequenceBatch.from_mask(x, mask, batch_first=batch_first)
    return Input(batch, True, _turned if batch_first else _unchanged)


def _unchanged(y: Tensor) -> Tensor:
    return y


def _turned(y: Tensor) -> Tensor:
    return y.transpose(0, 1)


def _read_unbatched(x: Tensor, lengths: Any, mask: Any) -> Input:
    """``[T, I]`` as a batch of one row; its mask is ``[T]``, its length a number or one in a list."""
    if mask is not None:
        batch = SequenceBatch.from_mask(x[:, None], as_column(mask))
    else:
        batch = SequenceBatch.from_padded(x[:, None], _as_list(lengths))
    return Input(batch, False, lambda y: y.squeeze(1))


def _as_list(length: Any) -> Any:
    """A number of any kind as a list of one; anything else is left for the check to read or refuse."""
    if isinstance(length, Tensor):
        return length[None] if length.dim() == 0 else length
    return length if hasattr(length, "__len__") or length is None else [length]


def as_column(flags: Any) -> Any:
    """``[T]`` flags of an unbatched input as ``[T, 1]``; anything else is left for the check to refuse."""
    if isinstance(flags, Tensor):
        return flags[:, None] if flags.dim() == 1 else flags
    return [[flag] for flag in flags] if isinstance(flags, Iterable) else flags


def _read_packed(x: PackedSequence) -> Input:
    batch = SequenceBatch.from_packed(x)
    known, order = batch.known_lengths, x.sorted_indices
    assert known is not None

    def as_given(y: Tensor) -> PackedSequence:
        rows = y if order is None else y.index_select(1, order)
        lengths = known if order is None else known.index_select(0, order.to(known.device))
        # The caller's own indices are kept: sorting again could order rows of one length otherwise.
        return x._replace(data=pack_padded_sequence(rows, lengths.cpu()).data)

    return Input(batch, True, as_given)


def _read_batch(x: SequenceBatch) -> Input:
    return Input(x, True, x.with_data)


def _read_list(x: list[Tensor] | tuple[Tensor, ...]) -> Input:
    batch = SequenceBatch.from_list(x)  # checks them first
    sizes = [len(sequence) for sequence in x]
    return Input(batch, True, lambda y: [row[:n] for row, n in zip(y.unbind(1), sizes, strict=True)])


# PackedSequence is a tuple, so it comes first.
_READERS: tuple[tuple[Any, Callable[[Any], Input]], ...] = (
    (PackedSequence, _read_packed),
    (SequenceBatch, _read_batch),
    ((list, tuple), _read_list),
)
