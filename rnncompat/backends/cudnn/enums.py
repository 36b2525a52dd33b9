"""cuDNN's numbers for what our enums say, by hand from its documentation (9.x; unchanged from 8.0 on).

Source: `cudnn_adv <https://docs.nvidia.com/deeplearning/cudnn/latest/api/cudnn-adv-library.html>`_.
"""

from __future__ import annotations

from enum import IntEnum

import torch

from ...descriptor import Bias, Cell, InputMode
from ..base import Algorithm

__all__ = [
    "ALGORITHMS",
    "BIAS_MODES",
    "CELL_MODES",
    "DATA_TYPES",
    "INPUT_MODES",
    "PRECISIONS",
    "ClipMode",
    "ForwardMode",
    "GradMode",
    "Layout",
    "MathType",
]


class MathType(IntEnum):
    """What the products may be computed with. For float32 every type but FMA means TF32."""

    DEFAULT = 0
    TENSOR_OP = 1
    FMA = 3


class ForwardMode(IntEnum):
    """Whether the reserve of the backward calls is filled."""

    INFERENCE = 0
    TRAINING = 1


class Layout(IntEnum):
    """Order of the data: time-major, padded or packed (rows sorted by length, none empty), or batch-major."""

    SEQ_MAJOR_UNPACKED = 0
    SEQ_MAJOR_PACKED = 1
    BATCH_MAJOR_UNPACKED = 2


class ClipMode(IntEnum):
    """Whether the cell is clipped."""

    NONE = 0
    MINMAX = 1


class GradMode(IntEnum):
    """What becomes of the memory that weight gradients go to; cuDNN refuses the other mode, SET."""

    ADD = 0


CELL_MODES = {Cell.RNN_RELU: 0, Cell.RNN_TANH: 1, Cell.LSTM: 2, Cell.GRU: 3}
BIAS_MODES = {Bias.NONE: 0, Bias.INPUT: 1, Bias.DOUBLE: 2, Bias.RECURRENT: 3}
INPUT_MODES = {InputMode.LINEAR: 0, InputMode.SKIP: 1}
ALGORITHMS = {
    Algorithm.STANDARD: 0,
    Algorithm.PERSIST_STATIC: 1,
    Algorithm.PERSIST_DYNAMIC: 2,
    Algorithm.PERSIST_STATIC_SMALL_H: 3,
}
DATA_TYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 9}
PRECISIONS = {torch.float32: 0, torch.float64: 1, torch.float16: 0, torch.bfloat16: 0}
"""The type that sums are kept in: half types in float32."""
