"""The old cuDNN RNN interfaces, number for number, on top of the core.

The single-step interface of ``RNNDesc``, and two styles that stood above it: cells
(:mod:`~rnncompat.legacy.flux`, before 2019 :mod:`~rnncompat.legacy.flux09`) and layers
(:mod:`~rnncompat.legacy.knet`, :mod:`~rnncompat.legacy.knetlayers`). Names that only one of them has are here too.

Old arrays have features first: ``(I,)`` or ``(I, B)``. Each call warns once a call site, at the caller's line, with
its replacement; ``docs/migrating.md`` shows the way over, ``docs/legacy.md`` every deviation.
"""

if __name__ != "rnncompat.legacy":
    raise ImportError(f"This package is rnncompat.legacy, but it was imported as {__name__!r}.")

from . import flux, flux09, knet, knetlayers
from .flux import GRUCell, LSTMCell, Recur, RNNCell, reset, reset_b
from .gradients import LSTMGradients, RNNGradients, backwardData, backwardWeights, pullback
from .knet import RNN, rnnforw, rnninit, rnnparam, rnnparams
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
from .stubs import removed_names, stubs_of
from .upsample import upsample, upsample_gradient
from .warn import LegacyRNNWarning, legacy_warnings

__all__ = [
    "CUDNN_GRU",
    "CUDNN_LSTM",
    "CUDNN_RNN_RELU",
    "CUDNN_RNN_TANH",
    "RNN",
    "GRUCell",
    "LSTMCell",
    "LSTMGradients",
    "LegacyRNNWarning",
    "RNNCell",
    "RNNDesc",
    "RNNGradients",
    "Recur",
    "Reserve",
    "backwardData",
    "backwardWeights",
    "cudnnRNNMode_t",
    "flux",
    "flux09",
    "forward",
    "forwardTrain",
    "hBatch",
    "knet",
    "knetlayers",
    "legacy_warnings",
    "ngates",
    "params",
    "pullback",
    "reset",
    "reset_b",
    "rnnParamSize",
    "rnnforw",
    "rnninit",
    "rnnparam",
    "rnnparams",
    "setweights",
    "setweights_b",
    "upsample",
    "upsample_gradient",
]

globals().update(stubs_of())
__getattr__ = removed_names(__name__)
