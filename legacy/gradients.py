"""The old gradient calls: in two halves after ``forwardTrain``, or as the ``back`` of a ``pullback``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor
from typing_extensions import deprecated

from rnncompat import InvalidTypeError, InvalidValueError

from .compute import differentiate, zero_or_tensor
from .rnndesc import RNNDesc
from .step import Reserve, step_outputs
from .warn import warn

__all__ = ["LSTMGradients", "RNNGradients", "backwardData", "backwardWeights", "pullback"]


class RNNGradients(NamedTuple):
    """What ``back(dy, dho)`` returns; h at the expanded shape, Wi ``(I, G*H)``, Wh ``(H, G*H)``, b ``(G*H,)``."""

    x: Tensor
    h: Tensor
    Wi: Tensor
    Wh: Tensor
    b: Tensor


class LSTMGradients(NamedTuple):
    """What ``back(dy, dho, dco)`` returns: as :class:`RNNGradients`, with c after h."""

    x: Tensor
    h: Tensor
    c: Tensor
    Wi: Tensor
    Wh: Tensor
    b: Tensor


@overload
def backwardData(
    rnn: RNNDesc, y: Tensor, dy: Any, dho: Any, hx: Tensor, reserve: Reserve, /
) -> tuple[Tensor, ...]: ...


@overload
def backwardData(
    rnn: RNNDesc,
    y: Tensor,
    dy: Any,
    dho: Any,
    dco: Any,
    h: Tensor,
    c: Tensor | None,
    reserve: Reserve,
    /,
) -> tuple[Tensor, ...]: ...


@deprecated(
    "legacy.backwardData() is deprecated since 0.1 and will be removed in 1.0; use torch.autograd "
    "on the output of rnncompat.rnn_step(). See docs/migrating.md#backwarddata",
    category=None,
)
def backwardData(  # noqa: N802  # the old name
    rnn: RNNDesc, y: Tensor, dy: Any, dho: Any, *rest: Any
) -> tuple[Tensor, ...]:
    """Gradients of one step for its data: ``(rnn, y, dy, dho, [dco,] h, [c,] reserve)``.

    The weights are read now, not remembered from the forward call, and calling twice gives the same.

    Args:
        rnn: the descriptor.
        y: the output of the forward call.
        dy: gradient of y; None or any whole number means zeros.
        dho: gradient of ho; None or 0 means zeros.
        *rest: ``h, reserve``; or ``dco, h, c, reserve``. h and c are expanded.

    Returns:
        ``(dx, dh)``, or ``(dx, dh, dc)`` if c is given.
    """
    warn("backwardData")
    if len(rest) not in (2, 4):
        raise InvalidTypeError(f"backwardData() has {4 + len(rest)} arguments; expected 6 or 8.")
    dco, h, c, reserve = rest if len(rest) == 4 else (None, rest[0], None, rest[1])
    _check_output(rnn, y, reserve)
    reserve.cell = c
    reserve.gradients = _incoming(dy, dho, dco)
    gradients = differentiate(rnn, reserve.x, _as_expanded(reserve.x, h), c, *reserve.gradients)
    return gradients[:2] if gradients.dc is None else (gradients.dx, gradients.dh, gradients.dc)


@deprecated(
    "legacy.backwardWeights() is deprecated since 0.1 and will be removed in 1.0; use torch.autograd "
    "on the output of rnncompat.rnn_step(). See docs/migrating.md#backwardweights",
    category=None,
)
def backwardWeights(  # noqa: N802  # the old name
    rnn: RNNDesc, x: Tensor, h: Tensor, y: Tensor, reserve: Reserve
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Gradients of one step for its weights; call it after :func:`backwardData`, with the same reserve.

    Args:
        rnn: the descriptor.
        x: the input of the forward call.
        h: the expanded state of the forward call.
        y: its output.
        reserve: as :func:`backwardData` left it.

    Returns:
        ``((dWi, dWh), db)`` of shapes ``(I, G*H)``, ``(H, G*H)``, ``(G*H,)``: transposed against what
        :func:`setweights` takes.
    """
    warn("backwardWeights")
    _check_output(rnn, y, reserve)
    if reserve.gradients is None:
        raise InvalidValueError("reserve has seen no backwardData() yet; call that first, then this.")
    gradients = differentiate(rnn, x, h, reserve.cell, *reserve.gradients)
    return (gradients.dwi, gradients.dwh), gradients.db


def _as_expanded(x: Tensor, h: Tensor) -> Tensor:
    if h.shape[1:] != x.shape[1:]:
        raise InvalidValueError(
            f"h is of shape {list(h.shape)}; expected (H, {x.shape[1]}): hBatch(x, h) expands it."
            if x.dim() == 2
            else f"h is of shape {list(h.shape)}; expected (H,)."
        )
    return h


def _check_output(rnn: RNNDesc, y: Tensor, reserve: object) -> None:
    if not isinstance(reserve, Reserve):
        raise InvalidTypeError(f"reserve is a {type(reserve).__name__}; expected what forwardTrain() gave.")
    expected = (rnn.hidden, *reserve.x.shape[1:])
    if y.shape != expected:
        raise InvalidValueError(f"y is of shape {list(y.shape)}; expected {list(expected)}.")


@overload
def pullback(
    rnn: RNNDesc, x: Tensor, h: Tensor, c: None = None
) -> tuple[tuple[Tensor, Tensor], Callable[[Any, Any], RNNGradients]]: ...


@overload
def pullback(
    rnn: RNNDesc, x: Tensor, h: Tensor, c: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor], Callable[[Any, Any, Any], LSTMGradients]]: ...


@deprecated(
    "legacy.pullback() is deprecated since 0.1 and will be removed in 1.0; use torch.autograd "
    "on the output of rnncompat.rnn_step(). See docs/migrating.md#pullback",
    category=None,
)
def pullback(rnn: RNNDesc, x: Tensor, h: Tensor, c: Tensor | None = None) -> Any:
    """One step and the function that gives its gradients.

    Args:
        rnn: the descriptor, float32 or float64.
        x: ``(I,)`` or ``(I, B)``.
        h: ``(H,)``, ``(H, 1)`` or ``(H, B)``.
        c: the same for an LSTM.

    Returns:
        ``((y, ho), back)`` with ``back(dy, dho) -> RNNGradients(x, h, Wi, Wh, b)``, or with c
        ``((y, ho, co), back)`` with ``back(dy, dho, dco) -> LSTMGradients(x, h, c, Wi, Wh, b)``. ``back`` reads
        x, h, c and the weights when it is called, and gives the same however often it is.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     rnn = legacy.RNNDesc(legacy.CUDNN_RNN_TANH, 3, 2)
        ...     (y, ho), back = legacy.pullback(rnn, torch.ones(3, 4), torch.zeros(2))
        >>> gradients = back(torch.ones(2, 4), None)
        >>> gradients.h.shape, gradients.Wi.shape
        (torch.Size([2, 4]), torch.Size([3, 2]))
    """
    warn("pullback")
    if rnn.params.dtype not in (torch.float32, torch.float64):
        raise InvalidTypeError(
            f"pullback() has float32 and float64 only, and the RNNDesc is {rnn.params.dtype}."
        )
    outputs = step_outputs(rnn, x, h, c)

    def back_rnn(dy: Any, dho: Any) -> RNNGradients:
        g = differentiate(rnn, x, h, None, *_incoming(dy, dho, None))
        return RNNGradients(g.dx, g.dh, g.dwi, g.dwh, g.db)

    def back_lstm(dy: Any, dho: Any, dco: Any) -> LSTMGradients:
        g = differentiate(rnn, x, h, c, *_incoming(dy, dho, dco))
        assert g.dc is not None
        return LSTMGradients(g.dx, g.dh, g.dc, g.dwi, g.dwh, g.db)

    return outputs, back_rnn if c is None else back_lstm


def _incoming(dy: Any, dho: Any, dco: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    return (
        zero_or_tensor("dy", dy, any_number=True),
        zero_or_tensor("dho", dho, any_number=False),
        zero_or_tensor("dco", dco, any_number=False),
    )
