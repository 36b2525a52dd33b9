"""The cells: ``cell(state, x) -> (state, y)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import deprecated

from rnncompat import Cell, InvalidTypeError, UnsupportedError

from ..warn import warn
from .cell import FluxCell
from .initial import Init, uniform

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]

_NATIVE: tuple[tuple[Callable[..., Any], Cell], ...] = (
    (torch.tanh, Cell.RNN_TANH),
    (F.tanh, Cell.RNN_TANH),
    (torch.relu, Cell.RNN_RELU),
    (F.relu, Cell.RNN_RELU),
)
"""The functions that the core has a cell for; any other σ takes the plain formula, as in Flux."""


@deprecated(
    "legacy.RNNCell() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNN.step(). See docs/migrating.md#rnncell",
    category=None,
)
class RNNCell(FluxCell):
    """``h' = y = σ(Wi x + Wh h + b)``.

    Args:
        input: features of x, I.
        output: hidden units, H.
        σ: any function of a tensor; with tanh or relu of torch the core computes the cell.
        init: ``init(*sizes)`` makes Wi, Wh and b; glorot_uniform if None.

    Attributes:
        Wi: ``(H, I)``.
        Wh: ``(H, H)``.
        b: ``(H,)``.
        h: initial state ``(H,)``, zeros at first.
        σ: the function.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     cell = legacy.RNNCell(3, 5, torch.relu)
        ...     h, y = cell(cell.h, torch.ones(3, 4))
        >>> y.shape
        torch.Size([5, 4])
    """

    cores = (Cell.RNN_TANH, Cell.RNN_RELU)

    def __init__(
        self,
        input: int,  # noqa: A002  # as RNNDesc
        output: int,
        σ: Callable[[Tensor], Tensor] = torch.tanh,  # noqa: PLC2401  # the old name
        init: Init | None = None,
    ) -> None:
        warn("RNNCell")
        if not callable(σ):
            raise InvalidTypeError(f"σ is a {type(σ).__name__}; expected a function of a tensor.")
        super().__init__(input, output, init or uniform)
        self.σ = σ

    def __call__(self, state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`forward`, for whoever calls the cell himself."""
        warn("RNNCell")
        result: tuple[Tensor, Tensor] = super().__call__(state, x)
        return result

    @property
    def core(self) -> Cell:
        """The RNN of the core with this σ."""
        for function, cell in _NATIVE:
            if function is self.σ:
                return cell
        raise UnsupportedError(
            f"σ is {self.σ!r}; only with torch.tanh or torch.relu has the core such a cell."
        )

    def _run(self, x: Tensor, h: Tensor, c: Tensor | None = None) -> tuple[Tensor, ...]:
        if any(function is self.σ for function, _ in _NATIVE):
            return super()._run(x, h)
        ys = []
        for step in x.unbind(2) if x.dim() == 3 else (x,):
            h = self.σ(self.Wi @ step + self.Wh @ h + (self.b if step.dim() == 1 else self.b[:, None]))
            ys.append(h)
        return torch.stack(ys, 2) if x.dim() == 3 else ys[0], h.clone()

    def extra_repr(self) -> str:
        """The sizes and σ."""
        return f"{super().extra_repr()}, {getattr(self.σ, '__name__', self.σ)}"


@deprecated(
    "legacy.LSTMCell() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.LSTM.step(). See docs/migrating.md#lstmcell",
    category=None,
)
class LSTMCell(FluxCell):
    """Gates i f g o; the state is ``(h, c)``.

    Args:
        input: features of x, I.
        output: hidden units, H.
        init: ``init(*sizes)`` makes Wi, Wh and b, whose forget block is then set to 1;
            glorot_uniform if None.

    Attributes:
        Wi: ``(4*H, I)``.
        Wh: ``(4*H, H)``.
        b: ``(4*H,)``.
        h: initial h ``(H,)``, zeros at first.
        c: initial c ``(H,)``, zeros at first.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     cell = legacy.LSTMCell(3, 5)
        ...     (h, c), y = cell((cell.h, cell.c), torch.ones(3, 4))
        >>> c.shape
        torch.Size([5, 4])
    """

    states = ("h", "c")
    cores = (Cell.LSTM,)

    def __init__(self, input: int, output: int, init: Init | None = None) -> None:  # noqa: A002  # as RNNDesc
        warn("LSTMCell")
        super().__init__(input, output, init or uniform)
        with torch.no_grad():
            self.b[output : 2 * output] = 1

    def __call__(self, state: tuple[Tensor, Tensor], x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """As :meth:`forward`, for whoever calls the cell himself."""
        warn("LSTMCell")
        result: tuple[tuple[Tensor, Tensor], Tensor] = super().__call__(state, x)
        return result


@deprecated(
    "legacy.GRUCell() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.GRU.step(). See docs/migrating.md#grucell",
    category=None,
)
class GRUCell(FluxCell):
    """Gates r z n; the reset gate acts after the product, the bias outside it.

    Args:
        input: features of x, I.
        output: hidden units, H.
        init: ``init(*sizes)`` makes Wi, Wh and b; glorot_uniform if None.

    Attributes:
        Wi: ``(3*H, I)``.
        Wh: ``(3*H, H)``.
        b: ``(3*H,)``.
        h: initial state ``(H,)``, zeros at first.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     cell = legacy.GRUCell(3, 5)
        ...     h, y = cell(cell.h, torch.ones(3))
        >>> y.shape
        torch.Size([5])
    """

    cores = (Cell.GRU,)

    def __init__(self, input: int, output: int, init: Init | None = None) -> None:  # noqa: A002  # as RNNDesc
        warn("GRUCell")
        super().__init__(input, output, init or uniform)

    def __call__(self, state: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`forward`, for whoever calls the cell himself."""
        warn("GRUCell")
        result: tuple[Tensor, Tensor] = super().__call__(state, x)
        return result
