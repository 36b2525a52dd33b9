"""``SequenceBatch``: padded, packed, masked or listed sequences as one padded tensor and its real steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_sequence

from .errors import InvalidTypeError, InvalidValueError, UnsupportedError, bad_shape, bad_type
from .steps import check_flags, check_lengths, lengths_of, on_device, on_host, real_steps

__all__ = ["SequenceBatch"]


class SequenceBatch:
    """A batch of sequences of any lengths, zero included, as one time-major tensor.

    Build it with :meth:`from_padded`, :meth:`from_mask`, :meth:`from_packed` or :meth:`from_list`. Values at
    steps that are not real are never read.

    Attributes:
        data: ``[T, B, I]``, time first.

    Example:
        >>> batch = SequenceBatch.from_list([torch.ones(3, 2), torch.ones(0, 2), torch.ones(1, 2)])
        >>> batch.data.shape, batch.lengths.tolist()
        (torch.Size([3, 3, 2]), [3, 0, 1])
        >>> [len(row) for row in batch.to_list()]
        [3, 0, 1]
    """

    def __init__(self, data: Tensor, lengths: Tensor | None, mask: Tensor | None) -> None:
        self.data = data
        # On the host where their values are known, whatever device the data is on.
        self._lengths = lengths  # [B], None if every step is real or the mask has holes
        self._mask = mask  # [T, B], only where lengths cannot say it

    @classmethod
    def from_padded(cls, x: Tensor, lengths: Any = None, *, batch_first: bool = False) -> SequenceBatch:
        """Sequences that begin at step 0 of a padded tensor.

        Args:
            x: ``[T, B, I]``, or ``[B, T, I]`` if batch_first.
            lengths: ``[B]`` list, tuple, NumPy array or integer tensor, ``0 <= length <= T`` in any order;
                None if every step is real.
            batch_first: whether x has the batch first.

        Raises:
            InvalidValueError: a shape is wrong, or a length is below 0 or above T.
            InvalidTypeError: lengths are no whole numbers.
        """
        data = _time_major(x, batch_first)
        if lengths is None:
            return cls(data, None, None)
        return cls(data, check_lengths(lengths, data, batch_first), None)

    @classmethod
    def from_mask(cls, x: Tensor, mask: Any, *, batch_first: bool = False) -> SequenceBatch:
        """Sequences whose real steps lie anywhere: right padding, left padding, holes.

        Args:
            x: ``[T, B, I]``, or ``[B, T, I]`` if batch_first.
            mask: ``[T, B]`` booleans (``[B, T]`` if batch_first), True = real.
            batch_first: whether x and mask have the batch first.
        """
        data = _time_major(x, batch_first)
        real = on_host(check_flags("mask", mask, data, batch_first))
        lengths = lengths_of(real)
        return cls(data, lengths, real if lengths is None else None)

    @classmethod
    def from_packed(cls, packed: PackedSequence) -> SequenceBatch:
        """The rows of a ``PackedSequence`` in the caller's order, padded with zeros.

        Raises:
            InvalidValueError: its ``batch_sizes`` do not fit its data.
        """
        sizes = packed.batch_sizes
        _check_packed(packed.data, sizes)
        batch = int(sizes[0])
        rows = torch.arange(batch)
        real = rows[None, :] < sizes[:, None]  # [T, B] in packed order, on the host
        lengths = real.sum(0)
        place = real.flatten().nonzero().squeeze(1).to(packed.data.device)  # [S]
        flat = packed.data.new_zeros(len(sizes) * batch, packed.data.shape[-1])
        data = flat.index_copy(0, place, packed.data).view(len(sizes), batch, -1)  # [T, B, I]
        if packed.unsorted_indices is not None:
            data = data.index_select(1, packed.unsorted_indices)
            lengths = lengths.index_select(0, packed.unsorted_indices.cpu())
        return cls(data, lengths, None)

    @classmethod
    def from_list(cls, sequences: Sequence[Tensor]) -> SequenceBatch:
        """One tensor ``[T_b, I]`` a row, of any lengths, zero included."""
        if not len(sequences):
            raise InvalidValueError(
                "sequences is empty, so its feature size is unknown; pass a tensor [T, 0, I] instead."
            )
        for row, sequence in enumerate(sequences):
            if not isinstance(sequence, Tensor):
                raise bad_type(f"sequences[{row}]", sequence, "a tensor [T, I]")
            if sequence.dim() != 2 or sequence.shape[1] != sequences[0].shape[-1]:
                raise bad_shape(f"sequences[{row}]", sequence, f"[T, {sequences[0].shape[-1]}]")
        kinds = {(str(s.dtype), str(s.device)) for s in sequences}
        if len(kinds) > 1:
            raise InvalidTypeError(f"sequences mixes {sorted(kinds)}; expected one dtype and one device.")
        data = pad_sequence(list(sequences))  # [T, B, I]
        lengths = torch.tensor([len(s) for s in sequences])
        return cls(data, lengths, None)

    @property
    def lengths(self) -> Tensor:
        """``[B]`` int64: number of real steps of each row."""
        return on_device(self._lengths_as_known(), self.data.device)

    def _lengths_as_known(self) -> Tensor:
        """As :attr:`lengths`, where they lie: no trip to the device of the data and back."""
        return self.mask.sum(0) if self._lengths is None else self._lengths

    @property
    def known_lengths(self) -> Tensor | None:
        """``[B]`` if lengths were given or said by a right-padded mask, else None; on the host if it can be read."""
        return self._lengths

    @property
    def known_mask(self) -> Tensor | None:
        """``[T, B]`` where lengths cannot say which steps are real, else None; on the host if it can be read."""
        return self._mask

    @property
    def mask(self) -> Tensor:
        """``[T, B]`` booleans: True = real."""
        real = self.real
        if real is None:
            return torch.ones(self.data.shape[:2], dtype=torch.bool, device=self.data.device)
        return real

    @property
    def real(self) -> Tensor | None:
        """As :attr:`mask`, but None where every step is known to be real."""
        if self._mask is None and self._lengths is not None:
            return real_steps(self.lengths, self.data.shape[0])
        return None if self._mask is None else on_device(self._mask, self.data.device)

    def with_data(self, data: Tensor) -> SequenceBatch:
        """Other values ``[T, B, ·]`` at the same steps."""
        if data.shape[:2] != self.data.shape[:2]:
            raise bad_shape("data", data, f"[{self.data.shape[0]}, {self.data.shape[1]}, ·]")
        return SequenceBatch(data, self._lengths, self._mask)

    def to_padded(self, padding_value: float = 0.0) -> Tensor:
        """``[T, B, I]`` with *padding_value* at every step that is not real; T never shrinks."""
        real = self.real
        return self.data if real is None else self.data.masked_fill(~real[:, :, None], padding_value)

    def to_list(self) -> list[Tensor]:
        """The real steps of each row, ``[T_b, I]`` each."""
        if self._mask is None:
            lengths = self._lengths_as_known().tolist()
            return [row[:n] for row, n in zip(self.data.unbind(1), lengths, strict=True)]
        return [row[keep] for row, keep in zip(self.data.unbind(1), self.mask.unbind(1), strict=True)]

    def to_packed(self) -> PackedSequence:
        """The real steps as a ``PackedSequence``, longest row first, with the indices to undo that.

        Raises:
            UnsupportedError: a row has no real step, which torch's format cannot express.
        """
        lengths = self._lengths_as_known().cpu()
        if not bool((lengths > 0).all()) or not len(lengths):
            empty = (lengths == 0).nonzero().flatten().tolist()
            raise UnsupportedError(
                f"rows {empty} of {len(lengths)} have no real step; "
                "a PackedSequence needs at least one row and one step in each. Use to_list()."
            )
        data = self.data if self._mask is None else pad_sequence(self.to_list())
        return pack_padded_sequence(data, lengths, enforce_sorted=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return SequenceBatch, (self.data, self._lengths, self._mask)

    def __repr__(self) -> str:
        steps, batch, size = self.data.shape
        return f"SequenceBatch(T={steps}, B={batch}, I={size}, lengths={self._lengths_as_known().tolist()})"


def _check_packed(data: Tensor, sizes: Tensor) -> None:
    """Refuses a ``PackedSequence`` that contradicts itself: torch builds it without a word."""
    if data.dim() != 2:
        raise bad_shape("x.data", data, "[steps of all rows, I]")
    if int(sizes.sum()) != len(data) or bool((sizes < 0).any()) or bool((sizes[1:] > sizes[:-1]).any()):
        raise InvalidValueError(
            f"x.batch_sizes is {sizes.tolist()} beside {len(data)} steps in x.data; expected sizes that never "
            f"grow and add up to {len(data)}. Was a length above T given to pack_padded_sequence()?"
        )


def _time_major(x: Tensor, batch_first: bool) -> Tensor:
    if not isinstance(x, Tensor):
        raise bad_type("x", x, "a tensor")
    if x.dim() != 3:
        raise bad_shape("x", x, "[B, T, I]" if batch_first else "[T, B, I]")
    return x.transpose(0, 1) if batch_first else x
