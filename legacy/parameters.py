"""The old calls about parameters: filling the buffer, viewing it, counting it."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import deprecated

from rnncompat import InvalidTypeError, InvalidValueError, RNNDescriptor, layout_of

from .buffer import Views, split_params
from .modes import cudnnRNNMode_t, read_mode
from .rnndesc import RNNDesc
from .warn import warn

__all__ = ["ngates", "params", "rnnParamSize", "setweights", "setweights_b"]


@deprecated(
    "legacy.ngates() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNDescriptor.gates. See docs/migrating.md#ngates",
    category=None,
)
def ngates(mode: cudnnRNNMode_t | int | RNNDesc) -> int:
    """Row blocks in each weight matrix: RELU and TANH 1, LSTM 4, GRU 3.

    Args:
        mode: a mode constant, its number, or a descriptor.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     legacy.ngates(legacy.CUDNN_LSTM)
        4
    """
    warn("ngates")
    return gates_of(mode)


def gates_of(mode: cudnnRNNMode_t | int | RNNDesc) -> int:
    """As :func:`ngates`, without the warning."""
    return read_mode(mode if isinstance(mode, int) else mode.mode).cell.gates


@deprecated(
    "legacy.params() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNWeights. See docs/migrating.md#params",
    category=None,
)
def params(w: Tensor, input: int, hidden: int, n: int = 1) -> Views:  # noqa: A002  # the old name
    """Views of a flat buffer as the old interface laid it out.

    Args:
        w: flat buffer, at least ``n*H*(I+H+1)`` elements.
        input: I.
        hidden: H.
        n: number of gates.

    Returns:
        ``((Wi, Wh), b)`` of shapes ``(I, n*H)``, ``(H, n*H)`` and ``(n*H,)``, live views.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     (wi, wh), b = legacy.params(torch.zeros(14), 3, 2)
        >>> wi.shape, wh.shape, b.shape
        (torch.Size([3, 2]), torch.Size([2, 2]), torch.Size([2]))
    """
    warn("params")
    return split_params(w, input, hidden, n)


@deprecated(
    "legacy.rnnParamSize() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.layout_of(descriptor).size. See docs/migrating.md#rnnparamsize",
    category=None,
)
def rnnParamSize(T: torch.dtype, r: RNNDesc, input: int) -> int:  # noqa: A002, N802, N803  # the old names
    """Number of elements (not bytes) of the flat buffer: ``G*H*(I+H+2)``.

    Args:
        T: element type; the count does not depend on it.
        r: a descriptor, for its mode and hidden size.
        input: I.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     legacy.rnnParamSize(torch.float32, legacy.RNNDesc(legacy.CUDNN_GRU, 3, 2), 3)
        42
    """
    warn("rnnParamSize")
    return layout_of(RNNDescriptor(r.mode.cell, input, r.hidden)).size


@deprecated(
    "legacy.setweights() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNWeights.from_named(). See docs/migrating.md#setweights",
    category=None,
)
def setweights(d: RNNDesc, Wi: Tensor, Wh: Tensor, b: Tensor) -> None:  # noqa: N803  # the old names
    """Copies weights into the descriptor's buffer (``setweights!``).

    If one of them requires a gradient, the gradients of later :func:`forward` calls reach it too.

    Args:
        d: the descriptor.
        Wi: ``(G*H, I)``.
        Wh: ``(G*H, H)``.
        b: ``(G*H,)``; it becomes the input-side bias.

    Raises:
        InvalidValueError: another shape. (A short bias once set a prefix silently.)
        InvalidTypeError: another dtype or device than the descriptor's.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     rnn = legacy.RNNDesc(legacy.CUDNN_RNN_TANH, 3, 2)
        ...     legacy.setweights(rnn, torch.ones(2, 3), torch.zeros(2, 2), torch.zeros(2))
        >>> rnn.weights[0].sum()
        tensor(6.)
    """
    warn("setweights")
    write_weights(d, Wi, Wh, b)


@deprecated(
    "legacy.setweights_b() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNWeights.from_named(). See docs/migrating.md#setweights_b",
    category=None,
)
def setweights_b(d: RNNDesc, Wi: Tensor, Wh: Tensor, b: Tensor) -> None:  # noqa: N803  # the old names
    """:func:`setweights` under the name that juliacall gives to ``setweights!``."""
    warn("setweights_b")
    write_weights(d, Wi, Wh, b)


def write_weights(d: RNNDesc, wi: Tensor, wh: Tensor, b: Tensor) -> None:
    """As :func:`setweights`, without the warning."""
    rows = d.descriptor.gates * d.hidden
    shapes = {"Wi": (rows, d.input), "Wh": (rows, d.hidden), "b": (rows,)}
    for (name, shape), given in zip(shapes.items(), (wi, wh, b), strict=True):
        check_like(name, given, d)
        if given.shape != shape:
            raise InvalidValueError(f"{name} is of shape {list(given.shape)}; expected {list(shape)}.")
    source = torch.cat([wi.reshape(-1), wh.reshape(-1), b])
    with torch.no_grad():
        d.params[: len(source)].copy_(source)
    d.source = source if source.requires_grad else None


def check_like(name: str, given: object, d: RNNDesc) -> None:
    """Refuses what is no tensor of the descriptor's dtype and device: the old interface never converted."""
    if not isinstance(given, Tensor):
        raise InvalidTypeError(f"{name} is a {type(given).__name__}; expected a tensor.")
    if given.dtype != d.params.dtype or given.device != d.params.device:
        raise InvalidTypeError(
            f"{name} is {given.dtype} on {given.device}; expected {d.params.dtype} on {d.params.device}, "
            "as the RNNDesc."
        )
