"""What the layers of KnetLayers take: features, or ids counted from 1 in four shapes, as features ``(X, ...)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rnncompat import InvalidTypeError, InvalidValueError, UnsupportedError

from ..knet.parameters import xavier
from .ragged import Packed, is_whole, pack

__all__ = ["Tokens", "make_embedding", "read_input"]

Tokens = Tensor | Sequence[int] | Sequence[Sequence[int] | Tensor]


def read_input(
    embedding: nn.Embedding | None, x: Tokens, batch_sizes: Any, promised: bool
) -> tuple[Tensor, Packed | None]:
    """Features of an input of any kind, and how it was packed if it is ragged.

    Args:
        embedding: the layer's, or None.
        x: as the layer takes it.
        batch_sizes: as the layer takes them.
        promised: whether the caller says that a ragged batch has its longest instance first.
    """
    if isinstance(x, Tensor) and x.is_floating_point():
        return x if embedding is None else _embed_features(embedding, x), None
    if not isinstance(x, (Tensor, Sequence)):
        raise InvalidTypeError(
            f"x is a {type(x).__name__}; expected a tensor, or a list of ids or instances."
        )
    if embedding is None:
        raise UnsupportedError("x holds ids, but the layer has no embedding; expected floats, or embed=.")
    if isinstance(x, Sequence) and not len(x):
        raise InvalidValueError("x is an empty list; expected ids, or instances of ids.")
    if isinstance(x, Tensor) or all(is_whole(token) for token in x):
        return _embed_ids(embedding, _ids("x", x, embedding), batch_sizes), None
    batch = [_ids(f"x[{i}]", instance, embedding) for i, instance in enumerate(x)]
    _check_instances(batch, batch_sizes, promised)
    if len({len(instance) for instance in batch}) == 1:
        return _embed_ids(embedding, torch.stack(batch), None), None
    packed = pack(batch)
    return _embed_ids(embedding, packed.tokens, packed.batch_sizes), packed


def make_embedding(
    size: int,
    embed: int | nn.Embedding | None,
    dtype: torch.dtype | None,
    device: torch.device | str | None,
) -> nn.Embedding | None:
    """The embedding of *size* ids that the option *embed* asks for."""
    if embed is None:
        return None
    if isinstance(embed, nn.Embedding):
        if embed.num_embeddings != size:
            raise InvalidValueError(f"embed has {embed.num_embeddings} ids; expected {size}, as input says.")
        return embed
    if not is_whole(embed) or embed < 1:
        raise InvalidTypeError(f"embed is {embed!r}; expected None, a whole number >= 1 or an nn.Embedding.")
    weight = xavier(dtype or torch.get_default_dtype(), (size, embed))
    made: nn.Embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]  # torch's own gap
        weight.to(torch.empty(0).device if device is None else device), freeze=False
    )
    return made


def _ids(name: str, given: object, embedding: nn.Embedding) -> Tensor:
    """Ids, counted from 1 and checked, as a tensor counted from 0: a wrong one would kill a GPU's context."""
    device = embedding.weight.device
    if not isinstance(given, Tensor):
        if not isinstance(given, Sequence) or not all(is_whole(token) for token in given):
            raise InvalidTypeError(f"{name} is {given!r}; expected a tensor or a list of ids.")
        given = torch.tensor(given, dtype=torch.int64, device=device)
    if given.is_floating_point() or given.is_complex() or given.dtype is torch.bool:
        raise InvalidTypeError(f"{name} is {given.dtype}; expected whole numbers.")
    if given.device != device:
        raise InvalidTypeError(f"{name} is on {given.device}; expected {device}, as the embedding.")
    if given.numel() and not 1 <= int(given.min()) <= int(given.max()) <= embedding.num_embeddings:
        raise InvalidValueError(
            f"{name} holds ids from {int(given.min())} to {int(given.max())}; expected 1 to "
            f"{embedding.num_embeddings}: ids count from 1."
        )
    return given.to(torch.int64) - 1


def _check_instances(batch: list[Tensor], batch_sizes: Any, promised: bool) -> None:
    lengths = [len(instance) if instance.dim() == 1 else 0 for instance in batch]
    if not all(lengths):
        raise InvalidValueError(
            f"x has instances of lengths {lengths}; expected vectors of at least one id each."
        )
    if batch_sizes is not None:
        raise InvalidValueError("batchSizes is given beside a list of instances, which have their own.")
    if promised and lengths != sorted(lengths, reverse=True):
        raise InvalidValueError(f"sorted is True, but the lengths are {lengths}; expected the longest first.")


def _embed_ids(embedding: nn.Embedding, ids: Tensor, batch_sizes: Any) -> Tensor:
    """Ids ``[T]`` as one instance ``(E, 1, T)``, packed ``[S]`` as ``(E, S)``, ``[B, T]`` as ``(E, B, T)``."""
    if ids.dim() not in (1, 2):
        raise InvalidValueError(f"x is of shape {list(ids.shape)}; expected ids (T,) or (B, T).")
    rows = ids[None] if ids.dim() == 1 and batch_sizes is None else ids
    features: Tensor = embedding(rows)  # [..., E]
    return features.movedim(-1, 0)


def _embed_features(embedding: nn.Embedding, x: Tensor) -> Tensor:
    """One-hot or other features ``(V, ...)`` as ``(E, ...)``."""
    if x.dim() not in (1, 2, 3) or x.shape[0] != embedding.num_embeddings:
        raise InvalidValueError(
            f"x is of shape {list(x.shape)}; expected ({embedding.num_embeddings}[, B[, T]]) for the embedding."
        )
    features: Tensor = torch.tensordot(embedding.weight, x, dims=([0], [0]))
    return features
