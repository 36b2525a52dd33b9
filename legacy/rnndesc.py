"""``RNNDesc``: the old descriptor together with its flat parameter buffer.

The buffer is the core's flat layout of one layer with double bias: ``weight_ih``, ``weight_hh``, ``bias_ih``,
``bias_hh``, row-major. The old interface wrote the first three; the recurrent bias stays 0 unless
the caller writes ``params`` himself.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self, deprecated

from rnncompat import (
    GRU,
    LSTM,
    RNN,
    InvalidTypeError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    layout_of,
)
from rnncompat.versions import allow_in_files

from .buffer import split_params
from .modes import cudnnRNNMode_t, read_mode
from .successor import successor
from .warn import warn

__all__ = ["RNNDesc"]


_DTYPES = (torch.float16, torch.float32, torch.float64)  # those with a cuDNN type in the old interface


class _ByDtype(type):
    """Makes ``RNNDesc[torch.float32]`` the class of float32 descriptors, as ``RNNDesc{Float32}`` was."""

    bound_dtype: torch.dtype | None = None
    """The dtype a class is for; None for one that leaves it open."""
    _bound: ClassVar[dict[tuple[type, torch.dtype], Any]] = {}

    def __getitem__(cls, dtype: torch.dtype) -> type[RNNDesc]:
        if dtype not in _DTYPES or cls.bound_dtype is not None:
            allowed = "no further dtype" if cls.bound_dtype else f"one of {', '.join(map(str, _DTYPES))}"
            raise InvalidTypeError(f"{cls.__name__}[...] was given {dtype!r}; expected {allowed}.")
        if (cls, dtype) not in _ByDtype._bound:
            name = f"{cls.__name__}[{dtype}]"
            namespace = {"bound_dtype": dtype, "__module__": cls.__module__, "__qualname__": name}
            _ByDtype._bound[cls, dtype] = type(cls)(name, (cls,), namespace)
        bound: type[RNNDesc] = _ByDtype._bound[cls, dtype]
        return bound


@deprecated(
    "legacy.RNNDesc() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNDescriptor() and rnncompat.RNNWeights. See docs/migrating.md#rnndesc",
    category=None,
)
class RNNDesc(metaclass=_ByDtype):
    """The old descriptor of one recurrent layer, together with its weights.

    Args:
        mode: ``CUDNN_RNN_RELU``, ``CUDNN_RNN_TANH``, ``CUDNN_LSTM``, ``CUDNN_GRU`` or its number.
        input: features of the input, I.
        hidden: hidden units, H.
        layers: 1; more never worked (the old views landed on other weights).
        dtype: float32, float64 or float16; also as ``RNNDesc[torch.float64](…)``. torch's default if None.
        device: where the buffer lies; torch's default device if None.

    Attributes:
        mode: the recurrence.
        input: I.
        hidden: H.
        core: the core's weights over the same buffer.
        source: what :func:`setweights` last copied, where that carries a graph; else None.

    Raises:
        InvalidValueError: an unknown mode, or sizes below 1.
        InvalidTypeError: a dtype the old interface did not have.
        UnsupportedError: more than one layer.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     rnn = legacy.RNNDesc[torch.float64](legacy.CUDNN_LSTM, 3, 2)
        >>> rnn.params.shape, rnn.weights[0].shape, rnn.bias.shape
        (torch.Size([56]), torch.Size([3, 8]), torch.Size([8]))
    """

    def __new__(cls, *args: Any, dtype: torch.dtype | None = None, **options: Any) -> Self:
        """Makes an instance of the class for *dtype*, so that ``RNNDesc(…, dtype=T)`` is an ``RNNDesc[T]``."""
        if dtype not in (None, cls.bound_dtype) and cls.bound_dtype is not None:
            raise InvalidTypeError(f"dtype is {dtype}, but the class is {cls.__name__}.")
        bound: Any = cls if cls.bound_dtype else cls[dtype or torch.get_default_dtype()]
        made: Self = object.__new__(bound)
        return made

    def __init__(
        self,
        mode: cudnnRNNMode_t | int,
        input: int,  # noqa: A002  # the old name
        hidden: int,
        layers: int = 1,
        *,
        dtype: torch.dtype | None = None,  # read by __new__
        device: torch.device | str | None = None,
    ) -> None:
        warn("RNNDesc")
        if layers != 1:
            raise UnsupportedError(
                f"layers is {layers}; RNNDesc works with 1 layer only, then as now. "
                "rnncompat.RNNDescriptor(num_layers=...) has more."
            )
        mode = read_mode(mode)
        descriptor = RNNDescriptor(mode.cell, input, hidden)
        buffer = torch.zeros(layout_of(descriptor).size, dtype=type(self).bound_dtype, device=device)
        self._set_up(mode, RNNWeights(descriptor, buffer))

    def _set_up(self, mode: cudnnRNNMode_t, core: RNNWeights) -> None:
        self.mode, self.core = mode, core
        self.input, self.hidden = core.descriptor.input_size, core.descriptor.hidden_size
        self.source: Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Element type of the buffer; nothing of another type is accepted beside it."""
        return self.params.dtype

    @property
    def descriptor(self) -> RNNDescriptor:
        """The core's descriptor of this layer."""
        return self.core.descriptor

    @property
    def params(self) -> Tensor:
        """The flat buffer ``[G*H*(I+H+2)]``, zeros at first; the same tensor for good."""
        return self.core.flat

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """Live views ``(I, G*H)`` and ``(H, G*H)`` into :attr:`params`: writing them writes the weights."""
        return split_params(self.params, self.input, self.hidden, self.descriptor.gates)[0]

    @property
    def bias(self) -> Tensor:
        """Live view ``(G*H,)`` of the input-side bias in :attr:`params`."""
        return split_params(self.params, self.input, self.hidden, self.descriptor.gates)[1]

    @property
    def ptr(self) -> None:
        """The raw cuDNN descriptor of old; there is none here."""
        raise UnsupportedError("RNNDesc.ptr does not exist: no raw cuDNN descriptor stands behind it.")

    def to_new(self, name: str = "rnn") -> RNN | LSTM | GRU:
        """The module of the core that computes the same, with copies of the weights; prints the code that builds it.

        Its bias is the one that the old calls had, unless something else was written into :attr:`params`.

        Args:
            name: of the variable in the printed line.

        Example:
            >>> import torch, rnncompat
            >>> from rnncompat import legacy
            >>> with legacy.legacy_warnings("quiet"):
            ...     rnn = legacy.RNNDesc(legacy.CUDNN_LSTM, 3, 2)
            >>> lstm = rnn.to_new()
            rnn = rnncompat.LSTM(3, 2, bias='input')
            >>> output, (h, c) = lstm(torch.ones(5, 4, 3))  # [T, B, I]
        """
        named = dict(self.core.named())
        bias = "double" if named["bias_hh_l0"].count_nonzero() else "input"
        return successor(RNNDescriptor(self.mode.cell, self.input, self.hidden, bias=bias), named, name)

    def __reduce__(self) -> tuple[Any, ...]:
        # A class that [] made has no importable name, so it is found again through the one it was made from.
        made_here = "bound_dtype" in vars(type(self))
        origin = type(self).__base__ if made_here else type(self)
        own = {name: value for name, value in vars(self).items() if name not in _REBUILT}
        return restore, (origin, int(self.mode), self.input, self.hidden, self.params), own or None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mode.name}, {self.input}, {self.hidden})"


_REBUILT = ("mode", "input", "hidden", "core", "source")


def restore(origin: type[RNNDesc], mode: int, input: int, hidden: int, params: Tensor) -> RNNDesc:  # noqa: A002
    """The descriptor that a file holds: of the class *origin*, or of that class for the dtype of *params*."""
    if not issubclass(origin, RNNDesc):
        raise InvalidTypeError(f"origin is {origin!r}; expected RNNDesc or a subclass of it.")
    rnn = object.__new__(origin if origin.bound_dtype else origin[params.dtype])
    known = read_mode(mode)
    rnn._set_up(known, RNNWeights(RNNDescriptor(known.cell, input, hidden), params))  # its class
    return rnn


allow_in_files([restore, RNNDesc])
