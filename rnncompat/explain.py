"""``explain``: which backend would run a call, how, and why each other one would not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .backends import BACKENDS, Request, candidates
from .descriptor import RNNDescriptor
from .functional import Options, read_request
from .inputs import read_input
from .layout import layout_of
from .state import StateLike
from .weights import RNNWeights

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    """What :func:`explain` found; its ``str`` is a line a backend.

    Attributes:
        backend: name of the backend that would run the call, or None if none can.
        how: what that backend would do.
        reasons: for every other backend, why it would not run.
    """

    backend: str | None
    how: str
    reasons: dict[str, str]

    def __str__(self) -> str:
        first = "no backend can run this" if self.backend is None else f"{self.backend}: {self.how}"
        return "\n".join([first, *(f"{name}: no: {reason}" for name, reason in self.reasons.items())])


def explain(
    descriptor: RNNDescriptor,
    x: Any,
    state: StateLike = None,
    *,
    weights: RNNWeights | None = None,
    lengths: Any = None,
    mask: Any = None,
    resets: Any = None,
    reset_to: str = "zeros",
    batch_first: bool = False,
    training: bool = False,
    return_states: str = "last",
    backend: str = "auto",
    algorithm: str = "auto",
) -> Explanation:
    """Says what :func:`rnn_forward` would do with the same arguments, without doing it.

    Args:
        descriptor: as in :func:`rnn_forward`, like all the rest but *weights*.
        x: see there.
        state: see there.
        weights: the weights of the call; if None, such as are being trained where gradients are recorded.
        lengths: see there.
        mask: see there.
        resets: see there.
        reset_to: see there.
        batch_first: see there.
        training: see there.
        return_states: see there.
        backend: see there.
        algorithm: see there.

    Returns:
        The backend that would run, how, and the reason against each other one.

    Example:
        >>> import torch
        >>> descriptor = RNNDescriptor("gru", input_size=3, hidden_size=4)
        >>> print(explain(descriptor, torch.zeros(5, 2, 3)))
        aten: layer 0: hand
        cudnn: no: it runs on an NVIDIA GPU, and the input is on cpu
        reference: no: aten comes before it
    """
    if weights is None:
        data = read_input(x, lengths, mask, batch_first).batch.data
        flat = data.new_zeros(layout_of(descriptor).size)
        weights = RNNWeights(descriptor, flat).requires_grad_(torch.is_grad_enabled())
    options = Options(
        lengths=lengths,
        mask=mask,
        resets=resets,
        reset_to=reset_to,
        batch_first=batch_first,
        training=training,
        return_states=return_states,
        algorithm=algorithm,
    )
    _, request = read_request(descriptor, weights.by_layer(), x, state, options)
    return _explain(request, backend)


def _explain(request: Request, name: str) -> Explanation:
    allowed = candidates(name)
    chosen, how, reasons = None, "", {}
    for candidate in BACKENDS.values():
        reason = candidate.supports(request)
        if reason is None and chosen is not None:
            reason = f"{chosen} comes before it"
        if reason is None and candidate not in allowed:
            reason = f"{name} was asked for"
        if reason is None:
            chosen, how = candidate.name, candidate.describe(request)
        else:
            reasons[candidate.name] = reason
    return Explanation(chosen, how, reasons)
