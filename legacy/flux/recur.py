"""``Recur``, a cell that holds its state between calls, and ``reset``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from typing_extensions import Self, deprecated

from rnncompat import GRU, LSTM, RNN, InvalidTypeError, RNNState, UnsupportedError

from ..warn import warn
from .cell import FluxCell

__all__ = ["Recur", "reset", "reset_b"]


@deprecated(
    "legacy.Recur() is deprecated since 0.1 and will be removed in 1.0; use a call of rnncompat.RNN, "
    "rnncompat.LSTM or rnncompat.GRU, whose state goes in and comes out. See docs/migrating.md#recur",
    category=None,
)
class Recur(nn.Module):
    """A cell with its state: ``m(x)`` runs ``(state, y) = cell(state, x)``, keeps the state and returns y.

    A sequence is ``[m(x) for x in xs]`` over steps ``(I,)`` or ``(I, B)``; or one tensor ``(I, B, T)``, which a cell
    of this package runs as one call, with the same numbers. The state keeps its graph, for backpropagation
    through time: :func:`reset` cuts it, or ``m.state = m.state.detach()`` does and keeps the values.
    ``m.to(...)`` and its like reset the state, as moving a model did.

    Args:
        cell: a cell of this package, or any function ``(state, *xs) -> (state, y)``.
        init: the initial state; the cell's own if None, which a function does not have.
        state: the state to begin with; *init* if None.

    Attributes:
        cell: the cell.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     m = legacy.Recur(lambda h, x: (h + x, x), 0)
        ...     ys = [m(x) for x in (2, 3)]
        >>> ys, m.state
        ([2, 3], 5)
    """

    def __init__(self, cell: Callable[..., Any], init: Any = None, state: Any = None) -> None:
        warn("Recur")
        super().__init__()
        if not callable(cell):
            raise InvalidTypeError(f"cell is a {type(cell).__name__}; expected a cell or a function.")
        if init is None and not isinstance(cell, FluxCell):
            raise InvalidTypeError(
                f"init is missing, and cell is a {type(cell).__name__}; expected RNNCell, LSTMCell or GRUCell, "
                "which have an initial state, or an init beside it."
            )
        self.cell: Any = cell
        self.given = None if init is None else Given(init)
        self._kept: tuple[Any, ...] = () if state is None else (state,)

    @property
    def init(self) -> Any:
        """The initial state, as it is now: the cell's parameters h, or ``(h, c)``, unless one was given."""
        return self.cell.hidden() if self.given is None else self.given.value()

    @property
    def state(self) -> Any:
        """The state: :attr:`init` until the first call; setting it is allowed."""
        return self._kept[0] if self._kept else self.init

    @state.setter
    def state(self, value: Any) -> None:
        self._kept = (value,)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "state":  # also where the value is a parameter, which a module would register
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def reset(self) -> None:
        """Sets the state back to :attr:`init`."""
        self._kept = ()

    def __call__(self, *xs: Any) -> Any:
        """As :meth:`forward`, with hooks."""
        warn("Recur")
        return super().__call__(*xs)

    def forward(self, *xs: Any) -> Any:
        """Runs the cell on its state.

        Args:
            *xs: what the cell takes beside its state; the cells of this package take one x.

        Returns:
            y, as the cell gives it.
        """
        if isinstance(self.cell, FluxCell):
            # With its hooks, but without its warning: it was not the user who called it.
            state, y = nn.Module.__call__(self.cell, self.state, *xs)
        else:
            state, y = self.cell(self.state, *xs)
        self._kept = (state,)
        return y

    def to_new(self, name: str = "module") -> tuple[RNN | LSTM | GRU, RNNState | Tensor]:
        """The module of the core with the cell's weights, and the state as that takes it.

        Args:
            name: of the variable in the line that is printed.

        Returns:
            The module, and h ``[1, B, H]``, or ``(h, c)`` for an LSTM; after :func:`reset` each is ``[H]``, which
            serves any batch. The state is a copy without a graph.

        Raises:
            UnsupportedError: the cell is none of this package, or its σ neither tanh nor relu.
        """
        if not isinstance(self.cell, FluxCell):
            raise UnsupportedError(f"cell is a {type(self.cell).__name__}, of which the core knows nothing.")
        module = self.cell.to_new(name)
        parts = self.state if isinstance(self.state, tuple) else (self.state,)
        h, *c = (_to_core(part) for part in parts)
        return module, RNNState(h, c[0]) if c else h

    def _apply(self, fn: Any, *args: Any, **options: Any) -> Self:  # recurse= came with torch 2.1
        self.reset()
        return super()._apply(fn, *args, **options)  # type: ignore[no-untyped-call, no-any-return]  # torch's own gap

    def __getstate__(self) -> dict[str, Any]:
        """For copies and files, which cannot hold a graph."""
        return {**self.__dict__, "_kept": _detached(self._kept)}


class Given(nn.Module):
    """An initial state given by hand: parameters are trained, tensors move along, the rest is as it is."""

    def __init__(self, init: Any) -> None:
        super().__init__()
        self.is_tuple = isinstance(init, tuple)
        parts = init if isinstance(init, tuple) else (init,)
        self.count = len(parts)
        for i, part in enumerate(parts):
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(f"part_{i}", part)
            else:
                setattr(self, f"part_{i}", part)

    def value(self) -> Any:
        """The initial state."""
        parts = tuple(getattr(self, f"part_{i}") for i in range(self.count))
        return parts if self.is_tuple else parts[0]


def _detached(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_detached(part) for part in value)
    return value.detach() if isinstance(value, Tensor) else value


def _to_core(part: Tensor) -> Tensor:
    """``(H,)`` as it is, ``(H, B)`` as ``[1, B, H]``."""
    part = part.detach().clone()
    return part if part.dim() == 1 else part.t()[None].contiguous()


@deprecated(
    "legacy.reset() is deprecated since 0.1 and will be removed in 1.0; "
    "use nothing: a call of rnncompat.LSTM without a state starts from zeros. See docs/migrating.md#reset",
    category=None,
)
def reset(m: object) -> None:
    """Sets the state of every :class:`Recur` in *m* back to its ``init`` (``reset!``).

    Args:
        m: a module, ``torch.nn.Sequential`` and modules of your own included, or a list, tuple or mapping of them.

    Raises:
        InvalidTypeError: m is nothing that could hold a Recur.

    Example:
        >>> import torch
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     m = torch.nn.Sequential(legacy.flux.GRU(3, 5))
        ...     _ = m(torch.ones(3, 4))
        ...     legacy.reset(m)
        >>> m[0].state.shape
        torch.Size([5])
    """
    warn("reset")
    reset_states(m)


@deprecated(
    "legacy.reset_b() is deprecated since 0.1 and will be removed in 1.0; "
    "use nothing: a call of rnncompat.LSTM without a state starts from zeros. See docs/migrating.md#reset_b",
    category=None,
)
def reset_b(m: object) -> None:
    """:func:`reset` under the name that juliacall gives to ``reset!``."""
    warn("reset_b")
    reset_states(m)


def reset_states(m: object) -> None:
    """As :func:`reset`, without the warning."""
    if isinstance(m, nn.Module):
        for module in m.modules():
            if isinstance(module, Recur):
                module.reset()
    elif isinstance(m, (list, tuple, Mapping)):
        for part in m.values() if isinstance(m, Mapping) else m:
            reset_states(part)
    else:
        raise InvalidTypeError(
            f"m is a {type(m).__name__}; expected a module, or a list or mapping of modules."
        )
