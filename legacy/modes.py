"""The old mode constants."""

from __future__ import annotations

from enum import IntEnum

from rnncompat import Cell, InvalidValueError

__all__ = [
    "CUDNN_GRU",
    "CUDNN_LSTM",
    "CUDNN_RNN_RELU",
    "CUDNN_RNN_TANH",
    "cudnnRNNMode_t",
]


class cudnnRNNMode_t(IntEnum):  # noqa: N801  # the old name
    """The recurrence of an ``RNNDesc``, under cuDNN's numbers."""

    CUDNN_RNN_RELU = 0
    CUDNN_RNN_TANH = 1
    CUDNN_LSTM = 2
    CUDNN_GRU = 3

    @property
    def cell(self) -> Cell:
        """The cell of the core that computes it."""
        return _CELLS[self]


CUDNN_RNN_RELU = cudnnRNNMode_t.CUDNN_RNN_RELU
CUDNN_RNN_TANH = cudnnRNNMode_t.CUDNN_RNN_TANH
CUDNN_LSTM = cudnnRNNMode_t.CUDNN_LSTM
CUDNN_GRU = cudnnRNNMode_t.CUDNN_GRU

_CELLS = {
    CUDNN_RNN_RELU: Cell.RNN_RELU,
    CUDNN_RNN_TANH: Cell.RNN_TANH,
    CUDNN_LSTM: Cell.LSTM,
    CUDNN_GRU: Cell.GRU,
}


def read_mode(mode: object) -> cudnnRNNMode_t:
    """The mode that a constant or its number names."""
    try:
        return cudnnRNNMode_t(mode)  # type: ignore[arg-type]  # refusing the rest is the point
    except ValueError:
        names = ", ".join(member.name for member in cudnnRNNMode_t)
        raise InvalidValueError(f"mode is {mode!r}; expected one of {names}.") from None
