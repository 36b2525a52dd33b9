"""The old forward calls: one step, and the expansion of its state."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from typing_extensions import deprecated

from rnncompat import InvalidTypeError

from .compute import StepOutput, expand_state, run_step
from .rnndesc import RNNDesc
from .warn import warn

__all__ = ["Reserve", "forward", "forwardTrain", "hBatch"]


class Reserve:
    """What ``forwardTrain`` keeps for the backward calls; its content is nobody's business but theirs."""

    __slots__ = ("cell", "gradients", "x")

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self.cell: Tensor | None = None
        self.gradients: tuple[Tensor | None, Tensor | None, Tensor | None] | None = None

    def __repr__(self) -> str:
        return "Reserve(opaque)"


@deprecated(
    "legacy.hBatch() is deprecated since 0.1 and will be removed in 1.0; "
    "use nothing: rnncompat.rnn_step() broadcasts the state. See docs/migrating.md#hbatch",
    category=None,
)
def hBatch(x: Tensor, h: Tensor) -> Tensor:  # noqa: N802  # the old name
    """Expands a state to the batch of *x*.

    Args:
        x: ``(I,)`` or ``(I, B)``.
        h: ``(H,)``, or beside a batch also ``(H, 1)`` or ``(H, B)``.

    Returns:
        h itself beside a vector, else a new ``(H, B)``.

    Example:
        >>> import torch
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     legacy.hBatch(torch.zeros(3, 4), torch.zeros(2)).shape
        torch.Size([2, 4])
    """
    warn("hBatch")
    return expand_state(x, h)


@deprecated(
    "legacy.forward() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.rnn_step(). See docs/migrating.md#forward",
    category=None,
)
def forward(
    rnn: RNNDesc, x: Tensor, h: Tensor, c: Tensor | None = None, train: bool = False
) -> tuple[Any, ...]:
    """One step of the descriptor's layer.

    Args:
        rnn: descriptor with its weights.
        x: ``(I,)`` or ``(I, B)``, of the descriptor's dtype.
        h: ``(H,)``, ``(H, 1)`` or ``(H, B)``.
        c: the same for an LSTM's cell; None means 0, and the new cell is not returned.
        train: True to get what the backward calls need (``Val{true}``).

    Returns:
        ``(y, ho)``, or ``(y, ho, co)`` if c is given; with train ``(reserve, (y, ho[, co]))``. y is ``(H,)`` or
        ``(H, B)``; ho equals it in memory of its own.

    Raises:
        InvalidValueError: a shape does not fit.
        InvalidTypeError: another dtype or device than the descriptor's: nothing is converted.
        UnsupportedError: c is given to a cell that has none.

    Example:
        >>> import torch
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     rnn = legacy.RNNDesc(legacy.CUDNN_GRU, 3, 2)
        ...     y, ho = legacy.forward(rnn, torch.ones(3, 4), torch.zeros(2))
        >>> y.shape
        torch.Size([2, 4])
    """
    warn("forward")
    return step_outputs(rnn, x, h, c, train)


@deprecated(
    "legacy.forwardTrain() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.rnn_step(). See docs/migrating.md#forwardtrain",
    category=None,
)
def forwardTrain(  # noqa: N802  # the old name
    rnn: RNNDesc, x: Tensor, h: Tensor, c: Tensor | None = None
) -> tuple[Any, ...]:
    """:func:`forward` with ``train=True``: ``(reserve, (y, ho))`` or ``(reserve, (y, ho, co))``."""
    warn("forwardTrain")
    return step_outputs(rnn, x, h, c, train=True)


def step_outputs(
    rnn: RNNDesc, x: Tensor, h: Tensor, c: Tensor | None, train: bool = False
) -> tuple[Any, ...]:
    if not isinstance(train, bool):
        raise InvalidTypeError(f"train is a {type(train).__name__}; expected True or False.")
    result = _without_unasked_cell(run_step(rnn, x, h, c), c)
    return (Reserve(x), result) if train else result


def _without_unasked_cell(output: StepOutput, c: Tensor | None) -> tuple[Tensor, ...]:
    return (output.y, output.ho) if c is None or output.co is None else (output.y, output.ho, output.co)
