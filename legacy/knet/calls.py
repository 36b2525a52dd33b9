"""The functions around ``RNN``: a call with the weights given, and views of single matrices and biases."""

from __future__ import annotations

from typing import Any, overload

from torch import Tensor
from typing_extensions import Unpack, deprecated

from rnncompat import InvalidTypeError, InvalidValueError

from ..warn import own_calls, warn
from .options import LayerOptions
from .parameters import all_parameters, parameter
from .rnn import RNN, run_rnn

__all__ = ["rnnforw", "rnninit", "rnnparam", "rnnparams"]


@deprecated(
    "legacy.rnninit() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.LSTM(), rnncompat.GRU() or rnncompat.RNN(). See docs/migrating.md#rnninit",
    category=None,
)
def rnninit(
    inputSize: int,  # noqa: N803  # the old name
    hiddenSize: int,  # noqa: N803  # the old name
    **options: Unpack[LayerOptions],
) -> tuple[RNN, Tensor]:
    """An :class:`RNN` and its ``w``: ``(r, r.w)``.

    Args:
        inputSize: X.
        hiddenSize: H.
        **options: those of :class:`RNN`.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     r, w = legacy.rnninit(3, 2, rnnType="gru")
        >>> w is r.w, w.shape
        (True, torch.Size([1, 1, 42]))
    """
    warn("rnninit")
    with own_calls():
        r = RNN(inputSize, hiddenSize, **options)
    return r, r.w


@deprecated(
    "legacy.rnnforw() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.rnn_forward(). See docs/migrating.md#rnnforw",
    category=None,
)
def rnnforw(
    r: RNN,
    w: Tensor,
    x: Tensor,
    hx: Tensor | None = None,
    cx: Tensor | None = None,
    *,
    batchSizes: Any = None,  # noqa: N803  # the old name
    hy: bool | None = None,
    cy: bool | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
    """Runs x from the states given; ``r.h`` and ``r.c`` are neither read nor changed, and x is not dropped.

    Args:
        r: the layer.
        w: ``r.w``.
        x: as :class:`RNN` takes it.
        hx: initial state ``(H, B, L*D)``; None for zeros.
        cx: the same for an LSTM's cell.
        batchSizes: as :class:`RNN` takes it.
        hy: whether to return the final state; if None, whether hx is given.
        cy: the same for an LSTM's cell; of no effect on other cells.

    Returns:
        ``(y, hy, cy, None)``; states not asked for are None. The last once was the reserve: autograd keeps it.

    Example:
        >>> import torch
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     r, w = legacy.rnninit(3, 2)
        ...     y, h, c, _ = legacy.rnnforw(r, w, torch.ones(3, 5, 4), hy=True)
        >>> y.shape, h.shape, c
        (torch.Size([2, 5, 4]), torch.Size([2, 5, 1]), None)
    """
    warn("rnnforw")
    check_own(r, w)
    after = run_rnn(r, w, x, hx, cx, batchSizes, drop_input=False)
    keep_h, keep_c = (hx is not None) if hy is None else hy, (cx is not None) if cy is None else cy
    return after.y, after.h if keep_h else None, after.c if keep_c else None, None


@overload
def rnnparam(r: RNN, layer: int, id: int, par: int, /) -> Tensor | None: ...


@overload
def rnnparam(r: RNN, w: Tensor, layer: int, id: int, par: int, /) -> Tensor | None: ...


@deprecated(
    "legacy.rnnparam() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNWeights. See docs/migrating.md#rnnparam",
    category=None,
)
def rnnparam(r: RNN, *place: Any) -> Tensor | None:
    """One gate's matrix or bias as a live view into ``r.w``: ``(r, layer, id, par)`` or ``(r, w, layer, id, par)``.

    Gradients flow through it to ``r.w``; write to it under ``torch.no_grad()``.

    Args:
        r: the layer.
        *place: ``[w,] layer, id, par``, all counted from 1. layer: 1 to L*D, where forward and backward layers
            alternate. id: LSTM 1 to 4 on the input i, f, g, o and 5 to 8 on the state; GRU 1 to 3 r, z, n and
            4 to 6; else 1 and 2. par: 1 for the matrix, 2 for the bias.

    Returns:
        The matrix, **transposed**: ``(in, H)``, where in is X, H or, above a bidirectional layer, 2H; the bias
        ``(H,)``; or None for an input matrix that skipInput leaves out.

    Raises:
        InvalidValueError: a layer, id or par that r does not have.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     r = legacy.RNN(3, 2)
        ...     legacy.rnnparam(r, 1, 1, 1).shape
        torch.Size([3, 2])
    """
    warn("rnnparam")
    if len(place) not in (3, 4):
        raise InvalidTypeError(f"rnnparam() has {1 + len(place)} arguments; expected 4, or 5 with w.")
    w, layer, gate, part = place if len(place) == 4 else (r.w, *place)
    check_own(r, w)
    return parameter(r.descriptor, w, layer, gate, part)


@deprecated(
    "legacy.rnnparams() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNWeights. See docs/migrating.md#rnnparams",
    category=None,
)
def rnnparams(r: RNN, w: Tensor | None = None) -> list[Tensor | None]:
    """Every :func:`rnnparam`: all matrices by (layer, id), then all biases in the same order.

    Args:
        r: the layer.
        w: ``r.w``, as the older form had it.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     [tuple(p.shape) for p in legacy.rnnparams(legacy.RNN(3, 2, rnnType="tanh"))]
        [(3, 2), (2, 2), (2,), (2,)]
    """
    warn("rnnparams")
    check_own(r, r.w if w is None else w)
    return list(all_parameters(r.descriptor, r.w if w is None else w))


def check_own(r: RNN, w: Tensor) -> None:
    """Refuses a *w* other than ``r.w`` or a view of its memory, such as ``r.w.detach()``."""
    if not isinstance(r, RNN):
        raise InvalidTypeError(f"r is a {type(r).__name__}; expected a legacy.RNN.")
    if w is r.w:
        return
    if not isinstance(w, Tensor) or w.shape != r.w.shape or w.data_ptr() != r.w.data_ptr():
        raise InvalidValueError("w is not r.w; expected the layer's own weights.")
