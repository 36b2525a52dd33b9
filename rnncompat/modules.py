"""``RNN``, ``LSTM``, ``GRU``: the modules of ``torch.nn`` with our options; parameters and a call, nothing else."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar, cast

import torch
from torch import Tensor, nn
from typing_extensions import Self

from .descriptor import Bias, Cell, InputMode, RNNDescriptor
from .errors import UnsupportedError, bad_type, bad_value
from .functional import Options, X, run_layers, step_layers
from .packing import Device, WeightsModule
from .state import RNNState, StateLike

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

S = TypeVar("S", RNNState, Tensor)
"""The state that a module returns: ``(h, c)`` for the LSTM, h alone for the others, as ``torch.nn`` does."""

M = TypeVar("M", bound=nn.Module)

_NONLINEARITIES = {"tanh": Cell.RNN_TANH, "relu": Cell.RNN_RELU}
_SHOWN: dict[str, object] = {
    "proj_size": 0,
    "num_layers": 1,
    "bias": True,
    "batch_first": False,
    "dropout": 0.0,
    "bidirectional": False,
    "input_mode": "linear",
    "cell_clip": None,
}
"""Options that ``extra_repr`` shows when they are not these, in torch's order."""


class RNNBase(WeightsModule, Generic[S]):
    """What the three modules share; use :class:`RNN`, :class:`LSTM` or :class:`GRU`.

    A module holds its parameters under torch's names and nothing made from them: each call reads
    them anew, so parametrizations, pruning and ``functional_call`` work and no value can go stale.

    Args:
        descriptor: what is computed.
        batch_first: whether input and output have the batch first. The state never has.
        device, dtype: where and in which floating-point dtype the parameters are made.
    """

    torch_class: ClassVar[type[nn.RNNBase]]
    torch_options: ClassVar[tuple[str, ...]] = (
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
    )

    def __init__(
        self, descriptor: RNNDescriptor, *, batch_first: bool, device: Device, dtype: torch.dtype | None
    ) -> None:
        if not isinstance(batch_first, bool):
            raise bad_type("batch_first", batch_first, "True or False")
        super().__init__(descriptor, device=device, dtype=dtype)
        self.batch_first = batch_first

    def forward(
        self,
        x: X,
        state: StateLike = None,
        *,
        lengths: Any = None,
        mask: Any = None,
        resets: Any = None,
        reset_to: str = "zeros",
        padding_value: float = 0.0,
        return_states: str = "last",
        backend: str = "auto",
        algorithm: str = "auto",
    ) -> tuple[X, S]:
        """Runs whole sequences; every argument means what it does in :func:`rnncompat.rnn_forward`.

        Args:
            x: ``[T, B, I]`` (``[B, T, I]`` if batch_first), unbatched ``[T, I]``, or a ``PackedSequence``,
                :class:`rnncompat.SequenceBatch` or list of ``[T_b, I]``.
            state: initial state, never batch-first; None for zeros.
            lengths: real steps of each row ``[B]``.
            mask: instead of lengths, booleans of the axes of x, True = real.
            resets: booleans of the axes of x: a new episode starts at this step.
            reset_to: ``"zeros"`` or ``"initial"``.
            padding_value: what the output holds at steps that are not real.
            return_states: ``"last"`` or ``"all"``.
            backend: ``"auto"``, or the name of one.
            algorithm: ``"auto"``, or one of cuDNN's.

        Returns:
            The output, of the kind that came in, ``[T, B, D*(P or H)]``; and for an LSTM an
            :class:`rnncompat.RNNState`, which unpacks as ``(h, c)``, for RNN and GRU the tensor h:
            h ``[L*D, B, P or H]``, c ``[L*D, B, H]``.
        """
        options = Options(  # by place: names cost half a microsecond of a small call's twenty
            lengths,
            mask,
            resets,
            reset_to,
            self.batch_first,
            self.training,
            padding_value,
            return_states,
            backend,
            algorithm,
        )
        output, after = run_layers(self.descriptor, self.layers(), x, state, options)
        return output, self._returned(after)

    def step(self, x_t: Tensor, state: StateLike = None, *, backend: str = "auto") -> tuple[Tensor, S]:
        """Runs one step, as :func:`rnncompat.rnn_step`.

        Args:
            x_t: ``[B, I]`` or, unbatched, ``[I]``, whatever batch_first is.
            state: the state before the step; None for zeros.
            backend: ``"auto"``, or the name of one.

        Returns:
            The output ``[B, P or H]`` and the state after the step, of the kind that a call returns.
        """
        self._refresh_hooked()
        output, after = step_layers(
            self.descriptor, self.layers(), x_t, state, training=self.training, backend=backend
        )
        return output, self._returned(after)

    @classmethod
    def from_torch(cls, module: nn.RNNBase) -> Self:
        """Copies a module of ``torch.nn``: weights, options, dtype, device, ``training``, ``requires_grad``.

        Args:
            module: a ``torch.nn`` module of the same name; its hooks and gradients are not copied.
        """
        if not isinstance(module, cls.torch_class):
            raise bad_type("module", module, f"a torch.nn.{cls.torch_class.__name__}")
        options: dict[str, Any] = {name: getattr(module, name) for name in cls.torch_options}
        return _fill(cls(**options, device="meta", dtype=_any_weight(module).dtype), module)

    def to_torch(self) -> nn.RNNBase:
        """Copies this module into one of ``torch.nn``, the inverse of :meth:`from_torch`.

        Raises:
            UnsupportedError: an option that ``torch.nn`` does not have is on.
        """
        for name, plain in (("bias", (True, False)), ("input_mode", ("linear",)), ("cell_clip", (None,))):
            value = getattr(self, name)
            if value not in plain:
                raise UnsupportedError(
                    f"{name} is {value!r}, which torch.nn.{self.torch_class.__name__} lacks."
                )
        options: dict[str, Any] = {name: getattr(self, name) for name in self.torch_options}
        return _fill(self.torch_class(**options, device="meta", dtype=_any_weight(self).dtype), self)

    def __prepare_scriptable__(self) -> nn.Module:
        """Asked by ``torch.jit.script`` before it compiles a module, wherever in a model it stands."""
        name = type(self).__name__
        raise UnsupportedError(
            f"torch.jit.script cannot compile rnncompat's {name}: it takes arguments of many kinds. Use "
            f"torch.compile or torch.export; or script {name}.to_torch(), a torch.nn module of the same weights."
        )

    def extra_repr(self) -> str:
        """The options that differ from their defaults, as ``torch.nn`` shows them."""
        shown = [str(self.input_size), str(self.hidden_size)]
        values = {name: getattr(self, name) for name in _SHOWN}
        shown += [f"{name}={value!r}" for name, value in values.items() if value != _SHOWN[name]]
        return ", ".join(shown)

    def _returned(self, state: RNNState) -> S:
        return cast(S, state.h if state.c is None else state)

    def _refresh_hooked(self) -> None:
        """Runs the hooks that set weights (pruning, the old weight_norm), which only a call does."""
        if any([name in self.__dict__ for name in self.names]):  # noqa: C419  # torch 2.4 traces no generator
            self(_any_weight(self).new_empty(0, 1, self.input_size))


class RNN(RNNBase[Tensor]):
    """``torch.nn.RNN`` with our options: ``h' = tanh or relu (W x + bW + R h + bR)``.

    The first ten arguments, the parameters, their initial values and the results are those of
    ``torch.nn.RNN``; :class:`rnncompat.RNNDescriptor` says what each option means.

    Args:
        input_size: features of one input step, I.
        hidden_size: hidden units, H.
        num_layers: stacked layers, L.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        bias: True, False, or ``"double"``, ``"input"``, ``"recurrent"``, ``"none"``.
        batch_first: whether input and output have the batch first. The state never has.
        dropout: probability of dropping a value between two layers while training.
        bidirectional: run each layer backward in time too.
        device, dtype: where and in which floating-point dtype the parameters are made.
        input_mode: ``"linear"`` or ``"skip"``.

    Example:
        >>> rnn = RNN(3, 4, nonlinearity="relu")
        >>> output, h_n = rnn(torch.randn(5, 2, 3))
        >>> output.shape, h_n.shape
        (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    torch_class = nn.RNN
    torch_options = (*RNNBase.torch_options, "nonlinearity")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: Bias | str | bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        input_mode: InputMode | str = "linear",
    ) -> None:
        if nonlinearity not in _NONLINEARITIES:
            raise bad_value("nonlinearity", nonlinearity, f"one of {list(_NONLINEARITIES)}")
        descriptor = RNNDescriptor(
            _NONLINEARITIES[nonlinearity],
            input_size,
            hidden_size,
            num_layers=num_layers,
            bias=bias,
            dropout=dropout,
            bidirectional=bidirectional,
            input_mode=input_mode,
        )
        super().__init__(descriptor, batch_first=batch_first, device=device, dtype=dtype)

    @property
    def nonlinearity(self) -> str:
        """``"tanh"`` or ``"relu"``."""
        return self.descriptor.cell.value.removeprefix("rnn_")


class LSTM(RNNBase[RNNState]):
    """``torch.nn.LSTM`` with our options.

    The first ten arguments, the parameters, their initial values and the results are those of
    ``torch.nn.LSTM``; :class:`rnncompat.RNNDescriptor` says what each option means.

    Args:
        input_size: features of one input step, I.
        hidden_size: hidden units, H.
        num_layers: stacked layers, L.
        bias: True, False, or ``"double"``, ``"input"``, ``"recurrent"``, ``"none"``.
        batch_first: whether input and output have the batch first. The state never has.
        dropout: probability of dropping a value between two layers while training.
        bidirectional: run each layer backward in time too.
        proj_size: size P of the recurrent projection, 0 for none.
        device, dtype: where and in which floating-point dtype the parameters are made.
        input_mode: ``"linear"`` or ``"skip"``.
        cell_clip: None or ``(low, high)``.

    Example:
        >>> lstm = LSTM(3, 4, num_layers=2, cell_clip=(-1.0, 1.0))
        >>> output, (h_n, c_n) = lstm(torch.randn(5, 2, 3), lengths=[5, 1])
        >>> output.shape, c_n.shape
        (torch.Size([5, 2, 4]), torch.Size([2, 2, 4]))
        >>> y, state = lstm.step(torch.randn(2, 3))
        >>> y, state = lstm.step(torch.randn(2, 3), state)
    """

    torch_class = nn.LSTM
    torch_options = (*RNNBase.torch_options, "proj_size")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: Bias | str | bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        input_mode: InputMode | str = "linear",
        cell_clip: tuple[float, float] | None = None,
    ) -> None:
        descriptor = RNNDescriptor(
            Cell.LSTM,
            input_size,
            hidden_size,
            num_layers=num_layers,
            bias=bias,
            dropout=dropout,
            bidirectional=bidirectional,
            proj_size=proj_size,
            input_mode=input_mode,
            cell_clip=cell_clip,
        )
        super().__init__(descriptor, batch_first=batch_first, device=device, dtype=dtype)


class GRU(RNNBase[Tensor]):
    """``torch.nn.GRU`` with our options.

    The first nine arguments, the parameters, their initial values and the results are those of
    ``torch.nn.GRU``; :class:`rnncompat.RNNDescriptor` says what each option means.

    Args:
        input_size: features of one input step, I.
        hidden_size: hidden units, H.
        num_layers: stacked layers, L.
        bias: True, False, or ``"double"``, ``"input"``, ``"recurrent"``, ``"none"``.
        batch_first: whether input and output have the batch first. The state never has.
        dropout: probability of dropping a value between two layers while training.
        bidirectional: run each layer backward in time too.
        device, dtype: where and in which floating-point dtype the parameters are made.
        input_mode: ``"linear"`` or ``"skip"``.

    Example:
        >>> gru = GRU(3, 4, bidirectional=True, batch_first=True)
        >>> output, h_n = gru(torch.randn(2, 5, 3))
        >>> output.shape, h_n.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 4]))
    """

    torch_class = nn.GRU

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: Bias | str | bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        input_mode: InputMode | str = "linear",
    ) -> None:
        descriptor = RNNDescriptor(
            Cell.GRU,
            input_size,
            hidden_size,
            num_layers=num_layers,
            bias=bias,
            dropout=dropout,
            bidirectional=bidirectional,
            input_mode=input_mode,
        )
        super().__init__(descriptor, batch_first=batch_first, device=device, dtype=dtype)


def _any_weight(module: nn.Module) -> Tensor:
    return cast(Tensor, module.weight_hh_l0)


def _fill(module: M, source: nn.Module) -> M:
    """Gives *module*, which has no memory yet, copies of what *source* holds under the same names."""
    module.to_empty(device=_any_weight(source).device)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            theirs = getattr(source, name)
            parameter.copy_(theirs)
            parameter.requires_grad_(theirs.requires_grad)
    return module.train(source.training)
