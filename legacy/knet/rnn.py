"""``RNN``: the old layer, a module with its parameters in one flat ``w`` and its state in ``h`` and ``c``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Self, deprecated

import rnncompat
from rnncompat import (
    InputMode,
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNWeights,
)

from ..modes import cudnnRNNMode_t
from ..successor import successor
from ..warn import warn
from .compute import LayerOutput, check_input, run_layer
from .options import ALGORITHMS, CELLS, LayerOptions, State, choose, refuse_gone
from .parameters import Initial, draw_parameters
from .random import Stream

__all__ = ["RNN", "LayerOptions", "State", "run_rnn"]

_MODES = {mode.cell: mode for mode in cudnnRNNMode_t}


@deprecated(
    "legacy.RNN() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.LSTM(), rnncompat.GRU() or rnncompat.RNN(). See docs/migrating.md#rnn",
    category=None,
)
class RNN(nn.Module):
    """The old recurrent layer: ``r(x)`` gives y, and ``r.h`` and ``r.c`` hold the state.

    Sizes: X input, H hidden, B batch, T steps, L layers, D directions.

    Args:
        inputSize: X.
        hiddenSize: H.
        h: initial state: None, 0 or a tensor ``(H, B, L*D)``; see :meth:`forward`.
        c: the same for an LSTM's cell.
        rnnType: ``"lstm"``, ``"gru"``, ``"relu"`` or ``"tanh"``.
        bidirectional: run each layer backward in time too.
        skipInput: add x to every gate of layer 1 instead of W·x; needs X == H.
        numLayers: L.
        dropout: probability of dropping a value of the input and between layers, while gradients are recorded.
        winit: makes each gate's matrix: called as ``winit(dtype, (in, H))``; xavier if None.
        binit: makes each gate's bias: ``binit(dtype, (H,))``; zeros if None.
        finit: makes both forget biases of an LSTM; ones if None, which add up to 2.
        algo: 0, or cuDNN's 1 (static persistent) or 2 (dynamic persistent), which are obeyed or refused.
        seed: seeds the dropout; 0 draws it from torch's own generator.
        dtype: floating-point dtype of w; torch's default if None.
        device: where w lies; torch's default device if None.
        atype, dataType, usegpu, handle: refused, with what says it here.

    Attributes:
        w: the parameter, ``(1, 1, n)``, in the core's flat layout with double bias.
        h: the state, as the argument.
        c: the same for an LSTM's cell.
        descriptor: the core's descriptor; its dropout is 0 where L is 1.

    Raises:
        InvalidValueError: an unknown type or algorithm, or a size or probability that cannot be right.
        UnsupportedError: an argument that has no meaning here.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     r = legacy.RNN(3, 2, h=0, c=0, bidirectional=True)
        ...     y = r(torch.ones(3, 5, 4))
        >>> r.w.shape, y.shape, r.h.shape
        (torch.Size([1, 1, 112]), torch.Size([4, 5, 4]), torch.Size([2, 5, 2]))
    """

    w: nn.Parameter
    h: State
    c: State

    def __init__(
        self,
        inputSize: int,  # noqa: N803  # the old name
        hiddenSize: int,  # noqa: N803  # the old name
        *,
        h: State = None,
        c: State = None,
        rnnType: str = "lstm",  # noqa: N803  # the old name
        bidirectional: bool = False,
        skipInput: bool = False,  # noqa: N803  # the old name
        numLayers: int = 1,  # noqa: N803  # the old name
        dropout: float = 0.0,
        winit: Initial | None = None,
        binit: Initial | None = None,
        finit: Initial | None = None,
        algo: int = 0,
        seed: int = 0,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        atype: None = None,
        dataType: None = None,  # noqa: N803  # the old name
        usegpu: None = None,
        handle: None = None,
    ) -> None:
        warn("RNN")
        refuse_gone({"atype": atype, "dataType": dataType, "usegpu": usegpu, "handle": handle})
        super().__init__()
        self.descriptor = RNNDescriptor(
            choose("rnnType", rnnType, CELLS),
            inputSize,
            hiddenSize,
            num_layers=numLayers,
            bidirectional=bidirectional,
            input_mode="skip" if skipInput else "linear",
        )
        self.dropout = dropout
        choose("algo", algo, ALGORITHMS)
        self.algo = algo
        self.stream = Stream(seed)
        self.h, self.c = h, c
        fresh = draw_parameters(self.descriptor, dtype or torch.get_default_dtype(), winit, binit, finit)
        self.w = nn.Parameter(fresh.to(torch.empty(0).device if device is None else device))

    def forward(self, x: Tensor, *, batchSizes: Any = None) -> Tensor:  # noqa: N803  # the old name
        """Runs x from the state held, and holds the state after it.

        Where h (or c) is None it starts at zero and stays None; 0 starts at zero and becomes the final
        state; a tensor starts there and becomes the final state, ``(H, B, L*D)``. The states held are part
        of the graph: between iterations, ``r.h = r.h.detach()``.

        Args:
            x: ``(X,)``, ``(X, B)`` for one step, or ``(X, B, T)``; columns in time order beside batchSizes.
            batchSizes: batch size of each step, never growing, its sum the number of columns: the
                sequences end at different times, longest first.

        Returns:
            y, of as many dimensions as x: ``(H*D,)``, ``(H*D, B)`` or ``(H*D, B, T)``.

        Raises:
            InvalidValueError: a shape or batch size does not fit; the state held is kept.
            InvalidTypeError: another dtype or device than w's.
            UnsupportedError: c is a tensor, but the cell has none.
        """
        warn("RNN")
        hx, cx = _start("h", self.h), _start("c", self.c)
        after = run_rnn(self, self.w, x, hx, cx, batchSizes, drop_input=True)
        if self.h is not None:
            self.h = after.h
        if self.c is not None and after.c is not None:
            self.c = after.c
        return after.y

    def to_new(self, name: str = "layer") -> rnncompat.LSTM | rnncompat.GRU | rnncompat.RNN:
        """The core's module with copies of these weights; prints the code that builds it.

        Its arrays have the features last, ``[T, B, X]``, and its state goes in and out of each call.

        Args:
            name: of the variable in the printed line.
        """
        if self.dropout:
            print(f"# The old call also dropped its input: torch.nn.Dropout({self.dropout}).")  # noqa: T201  # as below
        weights = RNNWeights(self.descriptor, self.w.detach().flatten())
        return successor(self.descriptor, dict(weights.named()), name).train(self.training)

    @property
    def dropout(self) -> float:
        """Probability of dropping a value of the input and between layers; may be set."""
        return self._dropout

    @dropout.setter
    def dropout(self, p: float) -> None:
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
            raise InvalidValueError(f"dropout is {p!r}; expected a probability from 0 to 1.")
        self._dropout = float(p)
        between = self._dropout if self.descriptor.num_layers > 1 else 0.0
        self.descriptor = replace(self.descriptor, dropout=between)

    @property
    def seed(self) -> int:
        """The seed of the dropout; 0 draws it from torch's own generator."""
        return self.stream.seed

    @property
    def inputSize(self) -> int:  # noqa: N802  # the old name
        """X."""
        return self.descriptor.input_size

    @property
    def hiddenSize(self) -> int:  # noqa: N802  # the old name
        """H."""
        return self.descriptor.hidden_size

    @property
    def numLayers(self) -> int:  # noqa: N802  # the old name
        """L."""
        return self.descriptor.num_layers

    @property
    def inputMode(self) -> int:  # noqa: N802  # the old name
        """1 with skipInput, else 0."""
        return int(self.descriptor.input_mode is InputMode.SKIP)

    @property
    def direction(self) -> int:
        """1 if bidirectional, else 0."""
        return int(self.descriptor.bidirectional)

    @property
    def mode(self) -> cudnnRNNMode_t:
        """The cell, under cuDNN's numbers."""
        return _MODES[self.descriptor.cell]

    @property
    def dataType(self) -> torch.dtype:  # noqa: N802  # the old name
        """The dtype of w."""
        return self.w.dtype

    def extra_repr(self) -> str:
        """What is computed."""
        return repr(self.descriptor)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("h", "c"):  # a state, even one given as a Parameter: the next call replaces it
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Self:
        super()._apply(fn, *args, **kwargs)  # type: ignore[no-untyped-call]  # torch's own gap
        self.h, self.c = (fn(s) if isinstance(s, Tensor) else s for s in (self.h, self.c))
        return self

    def __getstate__(self) -> dict[str, Any]:
        # Copies and files hold the values of the state; torch can copy no part of a graph.
        return {
            name: value.detach() if name in ("h", "c") and isinstance(value, Tensor) else value
            for name, value in vars(self).items()
        }


def run_rnn(
    r: RNN,
    w: Tensor,
    x: Tensor,
    hx: Tensor | None,
    cx: Tensor | None,
    batch_sizes: Any,
    *,
    drop_input: bool,
) -> LayerOutput:
    """Runs *x* with the weights *w*; dropout acts while gradients are recorded, unless ``r.eval()`` was called."""
    check_input(r.descriptor, x)
    tensors = [t for t in (w, x, hx, cx) if isinstance(t, Tensor)]
    recorded = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    training = recorded and r.training and r.dropout > 0
    with r.stream.on(w.device) if training else nullcontext():
        if training and drop_input:
            x = F.dropout(x, r.dropout)
        algorithm = ALGORITHMS[r.algo]
        return run_layer(r.descriptor, w, x, hx, cx, batch_sizes, training=training, algorithm=algorithm)


def _start(name: str, state: object) -> Tensor | None:
    """Where a held state starts a call; asking a tensor whether it is 0 would answer for each element."""
    if state is None or isinstance(state, Tensor):
        return state
    if isinstance(state, (int, float)) and state == 0:
        return None
    raise InvalidTypeError(f"{name} is {state!r}; expected None, 0 or a tensor (H, B, L*D).")
