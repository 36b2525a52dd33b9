"""Batches of sequences of different lengths, as KnetLayers had them: packed, indexed, padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from typing_extensions import deprecated

from rnncompat import InvalidTypeError, InvalidValueError

from ..warn import warn

__all__ = ["Packed", "PadRNNOutput", "PadSequenceArray", "RNNOutput", "is_whole", "pack"]


class RNNOutput(NamedTuple):
    """What a layer of KnetLayers returns.

    Attributes:
        y: ``(H*D[, B[, T]])``; of a ragged batch ``(H*D, S)``, S all tokens, packed in time order.
        hidden: final state ``(H, B, L*D)`` in the caller's order, or None.
        memory: the same of an LSTM's cell.
        indices: of a ragged batch, for each instance in the caller's order the columns of y, counted
            from 0: ``y[:, indices[i]]``; else None.
    """

    y: Tensor
    hidden: Tensor | None
    memory: Tensor | None
    indices: list[Tensor] | None


class Packed(NamedTuple):
    """A ragged batch, time-major, longest instance first."""

    tokens: Tensor  # [S]
    batch_sizes: list[int]  # [Tmax]
    order: Tensor  # [B], the caller's place of each instance
    indices: list[Tensor]  # B times [T_b]: columns of each instance, in the caller's order

    @property
    def back(self) -> Tensor:
        """``[B]``: the packed place of each instance of the caller's."""
        return self.order.argsort()


def pack(batch: Sequence[Tensor]) -> Packed:
    """Packs instances ``[T_b]`` of any lengths, instances of one length in the caller's order."""
    lengths = torch.tensor([len(instance) for instance in batch])
    order = lengths.argsort(descending=True, stable=True)
    lengths = lengths[order]
    real = torch.arange(int(lengths[0]))[:, None] < lengths  # [Tmax, B]
    columns = (real.flatten().cumsum(0) - 1).view(real.shape)  # [Tmax, B], right where real
    place = order.argsort().tolist()
    device = batch[0].device
    padded = pad_sequence([batch[i] for i in order.tolist()])  # [Tmax, B]
    return Packed(
        tokens=padded[real.to(device)],
        batch_sizes=real.sum(1).tolist(),
        order=order.to(device),
        indices=[columns[: len(instance), b].to(device) for instance, b in zip(batch, place, strict=True)],
    )


def is_whole(value: object) -> bool:
    """Whether *value* is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


@deprecated(
    "legacy.knetlayers.PadSequenceArray() is deprecated since 0.1 and will be removed in 1.0; "
    "use torch.nn.utils.rnn.pad_sequence(). See docs/migrating.md#knetlayerspadsequencearray",
    category=None,
)
def PadSequenceArray(  # noqa: N802  # the old name
    batch: Sequence[Sequence[int]], direction: str = "Right", pad: int = 0
) -> Tensor:
    """Lists of ids as one ``(B, Tmax)`` array.

    Args:
        batch: one list of whole numbers an instance.
        direction: where the padding goes: ``"Right"`` or ``"Left"``.
        pad: what it holds.

    Raises:
        InvalidValueError: another direction, or an empty batch.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     legacy.knetlayers.PadSequenceArray([[1, 2, 3], [4]], direction="Left").tolist()
        [[1, 2, 3], [0, 0, 4]]
    """
    warn("knetlayers.PadSequenceArray")
    if direction not in ("Right", "Left"):
        raise InvalidValueError(f"direction is {direction!r}; expected 'Right' or 'Left'.")
    rows = [list(instance) for instance in batch]
    if not all(is_whole(token) for row in rows for token in row):
        raise InvalidTypeError(f"batch is {rows}; expected lists of whole numbers.")
    if not rows:
        raise InvalidValueError("batch is empty; expected at least one instance.")
    longest = max(map(len, rows))
    fill = [[pad] * (longest - len(row)) for row in rows]
    pairs = zip(rows, fill, strict=True)
    return torch.tensor([row + f if direction == "Right" else f + row for row, f in pairs], dtype=torch.int64)


@deprecated(
    "legacy.knetlayers.PadRNNOutput() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.SequenceBatch. See docs/migrating.md#knetlayerspadrnnoutput",
    category=None,
)
def PadRNNOutput(out: RNNOutput) -> tuple[RNNOutput, Tensor | None]:  # noqa: N802  # the old name
    """The output of a ragged batch with y padded to ``(H*D, B, Tmax)``, and which values are real.

    Args:
        out: what a layer returned.

    Returns:
        ``(padded, mask)``: y with zeros past each instance's end, the instances in the caller's order,
        no indices; the mask ``(H*D, B, Tmax)``, True = real. ``(out, None)`` if out has no indices.

    Example:
        >>> import torch
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     rnn = legacy.knetlayers.GRU(input=9, hidden=2, embed=4)
        ...     padded, mask = legacy.knetlayers.PadRNNOutput(rnn([[5], [1, 2, 3]]))
        >>> padded.y.shape, mask[0].tolist()
        (torch.Size([2, 2, 3]), [[True, False, False], [True, True, True]])
    """
    warn("knetlayers.PadRNNOutput")
    if not isinstance(out, RNNOutput):
        raise InvalidTypeError(f"out is a {type(out).__name__}; expected an RNNOutput.")
    if out.indices is None:
        return out, None
    columns = pad_sequence(out.indices, batch_first=True)  # [B, Tmax]
    lengths = torch.tensor([len(index) for index in out.indices], device=columns.device)
    real = torch.arange(columns.shape[1], device=columns.device) < lengths[:, None]  # [B, Tmax]
    y = out.y[:, columns].masked_fill(~real, 0)  # [H*D, B, Tmax]
    return out._replace(y=y, indices=None), real.expand(y.shape).clone()
