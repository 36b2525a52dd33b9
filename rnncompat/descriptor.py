"""``RNNDescriptor``: what a recurrent network computes, as plain data.

A descriptor never says *how* (backend, algorithm and precision belong to a call) nor *where* (dtype
and device belong to tensors). It is frozen and hashable, so plans and layouts are cached by it, and
it does not import torch.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .errors import (
    InvalidValueError,
    UnsupportedError,
    bad_type,
    bad_value,
    check_choice,
    check_whole,
)

__all__ = ["Bias", "Cell", "InputMode", "RNNDescriptor"]


class Cell(str, Enum):
    """The recurrence that is computed at each step (cuDNN: ``cellMode``)."""

    RNN_RELU = "rnn_relu"
    RNN_TANH = "rnn_tanh"
    LSTM = "lstm"
    GRU = "gru"

    @property
    def gates(self) -> int:
        """Number of row blocks in each weight matrix: RNN 1, GRU 3, LSTM 4."""
        return _GATES[self]


_GATES = {Cell.RNN_RELU: 1, Cell.RNN_TANH: 1, Cell.LSTM: 4, Cell.GRU: 3}


class Bias(str, Enum):
    """Which of the two bias vectors a layer has (cuDNN: ``biasMode``)."""

    DOUBLE = "double"
    INPUT = "input"
    RECURRENT = "recurrent"
    NONE = "none"

    @property
    def on_input(self) -> bool:
        """Whether ``bias_ih`` exists."""
        return self in (Bias.DOUBLE, Bias.INPUT)

    @property
    def on_recurrent(self) -> bool:
        """Whether ``bias_hh`` exists."""
        return self in (Bias.DOUBLE, Bias.RECURRENT)


class InputMode(str, Enum):
    """How layer 0 takes its input (cuDNN: ``inputMode``)."""

    LINEAR = "linear"
    SKIP = "skip"


@dataclass(frozen=True, init=False, repr=False)
class RNNDescriptor:
    """What is computed: cell, sizes and options of a recurrent network (cuDNN: RNN descriptor).

    Args:
        cell: ``"rnn_relu"``, ``"rnn_tanh"``, ``"lstm"`` or ``"gru"``.
        input_size: features of one input step, I >= 1.
        hidden_size: hidden units, H >= 1.
        num_layers: stacked layers, L >= 1.
        bidirectional: run each layer forward and backward in time; its output is ``[forward; backward]``.
        bias: ``"double"``, ``"input"``, ``"recurrent"`` or ``"none"``; True means double, False none.
            The modes differ in numbers for the GRU only, whose recurrent bias stands inside the
            reset product.
        input_mode: ``"linear"``, or ``"skip"``: layer 0 adds x to every gate instead of W·x, which
            needs ``input_size == hidden_size``; its biases stay.
        proj_size: size P of the recurrent projection ``h' <- W_hr h'``, LSTM only; 0 is off.
        dropout: probability in [0, 1] of dropping a value between two layers while training.
        cell_clip: None or ``(low, high)``, LSTM only: c is clipped to this closed range wherever it
            is used; the stored c stays unclipped (cuDNN: clip).

    Raises:
        InvalidTypeError: an argument of the wrong kind.
        InvalidValueError: a size, choice or range that cannot be right.
        UnsupportedError: an option that the chosen cell does not have.

    Source: `cudnnSetRNNDescriptor_v8
    <https://docs.nvidia.com/deeplearning/cudnn/latest/api/cudnn-adv-library.html>`_.

    Example:
        >>> descriptor = RNNDescriptor("lstm", 40, 256, num_layers=2, bidirectional=True)
        >>> descriptor.gates, descriptor.num_directions, descriptor.state_size
        (4, 2, 256)
        >>> descriptor.pseudo_layer(layer=1, direction=0)
        2
        >>> descriptor
        RNNDescriptor('lstm', 40, 256, num_layers=2, bidirectional=True)
    """

    cell: Cell
    input_size: int
    hidden_size: int
    num_layers: int
    bidirectional: bool
    bias: Bias
    input_mode: InputMode
    proj_size: int
    dropout: float
    cell_clip: tuple[float, float] | None

    def __init__(
        self,
        cell: Cell | str,
        input_size: int,
        hidden_size: int,
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        bias: Bias | str | bool = Bias.DOUBLE,
        input_mode: InputMode | str = InputMode.LINEAR,
        proj_size: int = 0,
        dropout: float = 0.0,
        cell_clip: tuple[float, float] | None = None,
    ) -> None:
        options = locals()
        _fill(self, options)
        if self.dropout and self.num_layers == 1:
            # torch.nn accepts this with the same warning; nothing is between the layers of a single one.
            warnings.warn(
                f"dropout is {self.dropout} but num_layers is 1: dropout acts between layers only.",
                UserWarning,
                stacklevel=2,
            )

    def __reduce__(self) -> tuple[Any, ...]:
        # Words and numbers only, and no default: what files hold must outlive the shape of this class.
        options = {name: _plain(getattr(self, name)) for name in _CHECKS}
        return restore, (
            {n: v for n, v in options.items() if n not in _DEFAULTS or v != _plain(_DEFAULTS[n])},
        )

    def __repr__(self) -> str:
        shown = [repr(self.cell.value), repr(self.input_size), repr(self.hidden_size)]
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default:
                shown.append(f"{name}={_plain(value)!r}")
        return f"RNNDescriptor({', '.join(shown)})"

    @property
    def gates(self) -> int:
        """G: row blocks in each weight matrix (RNN 1, GRU 3, LSTM 4)."""
        return self.cell.gates

    @property
    def has_cell_state(self) -> bool:
        """Whether the state has a c beside h: the LSTM alone."""
        return self.cell is Cell.LSTM

    @property
    def num_directions(self) -> int:
        """D: 2 if bidirectional, else 1."""
        return 2 if self.bidirectional else 1

    @property
    def num_pseudo_layers(self) -> int:
        """L*D: leading size of h and c (cuDNN: pseudo-layers)."""
        return self.num_layers * self.num_directions

    @property
    def state_size(self) -> int:
        """Size of h in each direction: P with a projection, else H."""
        return self.proj_size or self.hidden_size

    @property
    def output_size(self) -> int:
        """Features of one output step: D times :attr:`state_size`."""
        return self.num_directions * self.state_size

    def layer_input_size(self, layer: int) -> int:
        """Features that *layer* reads: I for layer 0, D*P (or D*H) above."""
        return self.input_size if layer == 0 else self.output_size

    def pseudo_layer(self, layer: int, direction: int = 0) -> int:
        """Index into h and c of *layer* in *direction* (0 forward, 1 backward): ``layer * D + direction``."""
        for name, value, limit in (
            ("layer", layer, self.num_layers),
            ("direction", direction, self.num_directions),
        ):
            if not 0 <= value < limit:
                raise bad_value(name, value, f"a whole number from 0 to {limit - 1}")
        return layer * self.num_directions + direction


_DEFAULTS: dict[str, object] = RNNDescriptor.__init__.__kwdefaults__  # type: ignore[assignment]  # set: it has defaults


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _check_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise bad_type(name, value, "True or False")
    return value


def _check_bias(bias: object) -> Bias:
    if isinstance(bias, bool):
        return Bias.DOUBLE if bias else Bias.NONE
    return check_choice("bias", bias, Bias)


def _check_dropout(dropout: object) -> float:
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)):
        raise bad_type("dropout", dropout, "a probability from 0 to 1")
    if not 0 <= dropout <= 1:
        raise bad_value("dropout", dropout, "a probability from 0 to 1")
    return float(dropout)


def _check_clip(clip: object) -> tuple[float, float] | None:
    if clip is None:
        return None
    expected = "None or (low, high) with low <= high"
    if not isinstance(clip, (tuple, list)) or len(clip) != 2:
        raise bad_value("cell_clip", clip, expected)
    try:
        low, high = float(clip[0]), float(clip[1])
    except (TypeError, ValueError):
        raise bad_value("cell_clip", clip, expected) from None
    if math.isnan(low) or math.isnan(high) or low > high:
        raise bad_value("cell_clip", clip, expected)
    return low, high


_CHECKS: dict[str, Callable[[Any], object]] = {
    "cell": lambda value: check_choice("cell", value, Cell),
    "input_size": lambda value: check_whole("input_size", value, 1),
    "hidden_size": lambda value: check_whole("hidden_size", value, 1),
    "num_layers": lambda value: check_whole("num_layers", value, 1),
    "bidirectional": lambda value: _check_flag("bidirectional", value),
    "bias": _check_bias,
    "input_mode": lambda value: check_choice("input_mode", value, InputMode),
    "proj_size": lambda value: check_whole("proj_size", value, 0),
    "dropout": _check_dropout,
    "cell_clip": _check_clip,
}
"""Every option, in the order of the constructor, with what it is checked and turned into."""


def restore(options: dict[str, Any]) -> RNNDescriptor:
    """The descriptor that a file holds as its options.

    Raises:
        UnsupportedError: the options are not those of this version.
    """
    if not {"cell", "input_size", "hidden_size"} <= options.keys() <= _CHECKS.keys():
        raise UnsupportedError(
            f"The file holds a descriptor with the options {sorted(options)}; this version of rnncompat "
            f"knows {list(_CHECKS)}. It was written by a newer version, or damaged."
        )
    descriptor = object.__new__(RNNDescriptor)
    _fill(descriptor, {**_DEFAULTS, **options})
    return descriptor


def _fill(descriptor: RNNDescriptor, options: dict[str, Any]) -> None:
    for name, check in _CHECKS.items():
        object.__setattr__(descriptor, name, check(options[name]))
    _check_together(descriptor)


def _check_together(d: RNNDescriptor) -> None:
    """Refuses options that do not go with each other."""
    if d.proj_size and d.cell is not Cell.LSTM:
        raise UnsupportedError(
            f"proj_size is {d.proj_size} for cell {d.cell.value!r}; only the LSTM has a recurrent projection."
        )
    if d.cell_clip is not None and d.cell is not Cell.LSTM:
        raise UnsupportedError(
            f"cell_clip is {d.cell_clip} for cell {d.cell.value!r}; only the LSTM has a cell state to clip."
        )
    if d.proj_size >= d.hidden_size:
        raise bad_value(
            "proj_size",
            d.proj_size,
            f"a whole number below hidden_size = {d.hidden_size}",
            "Use 0 for no projection.",
        )
    if d.input_mode is InputMode.SKIP and d.input_size != d.hidden_size:
        raise InvalidValueError(
            f"input_mode is 'skip' with input_size = {d.input_size} and hidden_size = {d.hidden_size}; "
            "skip adds x itself to every gate, so the two sizes must be equal."
        )
