"""The layers that old programs wrote: a cell in a ``Recur``, and ``Chain``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import deprecated

from rnncompat import InvalidTypeError

from ..warn import own_calls, warn
from .cells import GRUCell, LSTMCell, RNNCell
from .initial import Init
from .recur import Recur

__all__ = ["GRU", "LSTM", "RNN", "Chain"]


@deprecated(
    "legacy.flux.RNN() is deprecated since 0.1 and will be removed in 1.0; "
    'use rnncompat.RNN(bias="input"). See docs/migrating.md#fluxrnn',
    category=None,
)
def RNN(  # noqa: N802  # the old name
    input: int,  # noqa: A002  # as RNNDesc
    output: int,
    σ: Callable[[Tensor], Tensor] = torch.tanh,  # noqa: PLC2401  # the old name
    init: Init | None = None,
) -> Recur:
    """``Recur(RNNCell(input, output, σ, init))``.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     m = legacy.flux.RNN(3, 5, torch.relu)
        ...     ys = [m(x) for x in torch.ones(7, 3, 4)]
        >>> len(ys), ys[0].shape
        (7, torch.Size([5, 4]))
    """
    warn("flux.RNN")
    with own_calls():
        return Recur(RNNCell(input, output, σ, init))


@deprecated(
    "legacy.flux.LSTM() is deprecated since 0.1 and will be removed in 1.0; "
    'use rnncompat.LSTM(bias="input"). See docs/migrating.md#fluxlstm',
    category=None,
)
def LSTM(input: int, output: int, init: Init | None = None) -> Recur:  # noqa: A002, N802  # the old names
    """``Recur(LSTMCell(input, output, init))``."""
    warn("flux.LSTM")
    with own_calls():
        return Recur(LSTMCell(input, output, init))


@deprecated(
    "legacy.flux.GRU() is deprecated since 0.1 and will be removed in 1.0; "
    'use rnncompat.GRU(bias="input"). See docs/migrating.md#fluxgru',
    category=None,
)
def GRU(input: int, output: int, init: Init | None = None) -> Recur:  # noqa: A002, N802  # the old names
    """``Recur(GRUCell(input, output, init))``."""
    warn("flux.GRU")
    with own_calls():
        return Recur(GRUCell(input, output, init))


@deprecated(
    "legacy.flux.Chain() is deprecated since 0.1 and will be removed in 1.0; "
    "use a torch.nn.Module that hands each state on. See docs/migrating.md#fluxchain",
    category=None,
)
class Chain(nn.Sequential):
    """``torch.nn.Sequential`` that takes plain functions too; a Sequential of Recurs serves as well.

    Args:
        *layers: modules and functions of one array, features first: ``torch.nn.Linear`` has them last.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     m = legacy.flux.Chain(legacy.flux.LSTM(3, 5), lambda h: h.softmax(0))
        ...     m(torch.ones(3, 4)).shape
        torch.Size([5, 4])
    """

    def __init__(self, *layers: Any) -> None:
        warn("flux.Chain")
        if len(layers) == 1 and isinstance(layers[0], OrderedDict):  # a slice of a Sequential
            super().__init__(layers[0])
        else:
            super().__init__(*(_as_module(i, layer) for i, layer in enumerate(layers)))


class Function(nn.Module):
    """A plain function as a layer of a :class:`Chain`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        """The function of x."""
        return self.function(x)

    def extra_repr(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", self.function))


def _as_module(position: int, layer: Any) -> nn.Module:
    if isinstance(layer, nn.Module):
        return layer
    if not callable(layer):
        raise InvalidTypeError(
            f"layer {position} is a {type(layer).__name__}; expected a module or a function."
        )
    return Function(layer)
