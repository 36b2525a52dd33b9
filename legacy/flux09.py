"""The spelling of Flux 0.5 to 0.9, whose module ``Flux.CUDA`` held the old interface itself.

Constants have no prefix and modes are whole numbers, so the names lie apart from the constructors of
:mod:`rnncompat.legacy.flux`. What was called as it is now stands here too: ``RNNDesc``, ``ngates``, ``params``,
``hBatch``, ``forward``, ``forwardTrain``, ``backwardData``, ``backwardWeights``, ``rnnParamSize``.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from typing_extensions import deprecated

from .flux import desc, descs
from .flux.cell import FluxCell
from .gradients import backwardData, backwardWeights
from .modes import CUDNN_GRU, CUDNN_LSTM, CUDNN_RNN_RELU, CUDNN_RNN_TANH
from .parameters import ngates, params, rnnParamSize, write_weights
from .rnndesc import RNNDesc
from .step import forward, forwardTrain, hBatch, step_outputs
from .stubs import removed_names, stubs_of
from .warn import warn

__all__ = [
    "GRU",
    "LSTM",
    "RNN_RELU",
    "RNN_TANH",
    "RNNDesc",
    "backwardData",
    "backwardWeights",
    "copyparams",
    "copyparams_b",
    "desc",
    "descs",
    "forward",
    "forwardInference",
    "forwardTrain",
    "hBatch",
    "ngates",
    "params",
    "rnnParamSize",
]

RNN_RELU, RNN_TANH, LSTM, GRU = CUDNN_RNN_RELU, CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU


@deprecated(
    "legacy.flux09.forwardInference() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.rnn_step(). See docs/migrating.md#flux09forwardinference",
    category=None,
)
def forwardInference(  # noqa: N802  # the old name
    rnn: RNNDesc, x: Tensor, h: Tensor, c: Tensor | None = None
) -> tuple[Any, ...]:
    """One step without a reserve: ``(y, ho)``, or with c ``(y, ho, co)``; shapes as in ``forward``."""
    warn("flux09.forwardInference")
    return step_outputs(rnn, x, h, c)


@deprecated(
    "legacy.flux09.copyparams() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNWeights.from_named(). See docs/migrating.md#flux09copyparams",
    category=None,
)
def copyparams(m: FluxCell, d: RNNDesc) -> None:
    """Copies the weights of a cell into a descriptor (``copyparams!``): Wi, Wh, b; of any object that has them.

    Args:
        m: the cell, Wi ``(G*H, I)``, Wh ``(G*H, H)``, b ``(G*H,)``.
        d: the descriptor.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     cell = legacy.GRUCell(3, 5)
        ...     d = legacy.flux09.RNNDesc(legacy.flux09.GRU, 3, 5)
        ...     legacy.flux09.copyparams(cell, d)
        >>> bool((d.bias == cell.b).all())
        True
    """
    warn("flux09.copyparams")
    write_weights(d, m.Wi, m.Wh, m.b)


@deprecated(
    "legacy.flux09.copyparams_b() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNWeights.from_named(). See docs/migrating.md#flux09copyparams_b",
    category=None,
)
def copyparams_b(m: FluxCell, d: RNNDesc) -> None:
    """:func:`copyparams` under the name that juliacall gives to ``copyparams!``."""
    warn("flux09.copyparams_b")
    write_weights(d, m.Wi, m.Wh, m.b)


globals().update(stubs_of("flux09"))
__getattr__ = removed_names(__name__, "flux09.")
