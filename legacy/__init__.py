"""The old single-step cuDNN RNN interface, number for number, on top of the core.

Old arrays have features first: ``(I,)`` or ``(I, B)``. Each call warns once a call site, at the caller's line,
with its replacement; ``docs/migrating.md`` shows the way over, ``docs/legacy.md`` every deviation.
"""

if __name__ != "rnncompat.legacy":
    raise ImportError(f"This package is rnncompat.legacy, but it was imported as {__name__!r}.")

from .gradients import LSTMGradients, RNNGradients, backwardData, backwardWeights, pullback
from .modes import (
    CUDNN_GRU,
    CUDNN_LSTM,
    CUDNN_RNN_RELU,
    CUDNN_RNN_TANH,
    cudnnRNNMode_t,
)
from .parameters import ngates, params, rnnParamSize, setweights, setweights_b
from .rnndesc import RNNDesc
from .step import Reserve, forward, forwardTrain, hBatch
from .stubs import STUBS, removed_names
from .warn import LegacyRNNWarning, legacy_warnings

__all__ = [
    "CUDNN_GRU",
    "CUDNN_LSTM",
    "CUDNN_RNN_RELU",
    "CUDNN_RNN_TANH",
    "LSTMGradients",
    "LegacyRNNWarning",
    "RNNDesc",
    "RNNGradients",
    "Reserve",
    "backwardData",
    "backwardWeights",
    "cudnnRNNMode_t",
    "forward",
    "forwardTrain",
    "hBatch",
    "legacy_warnings",
    "ngates",
    "params",
    "pullback",
    "rnnParamSize",
    "setweights",
    "setweights_b",
]

globals().update(STUBS)
__getattr__ = removed_names(__name__)
