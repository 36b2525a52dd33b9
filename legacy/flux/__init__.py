"""The cell style: Flux 0.10 to 0.11.6 as it stood on the old interface, number for number.

Cells are called ``cell(state, x) -> (state, y)``; a ``Recur`` holds the state between calls. Arrays have
features first: x ``(I,)`` or ``(I, B)``, and a whole sequence ``(I, B, T)`` runs as one call. A model is mapped over
a list of steps as ``[m(x) for x in xs]``, which is ``m.(xs)``.
"""

from ..stubs import removed_names
from .cell import FluxCell
from .cells import GRUCell, LSTMCell, RNNCell
from .descs import RNNDesc, desc, descs
from .initial import glorot_uniform
from .layers import GRU, LSTM, RNN, Chain
from .recur import Recur, reset, reset_b

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Chain",
    "FluxCell",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
    "RNNDesc",
    "Recur",
    "desc",
    "descs",
    "glorot_uniform",
    "reset",
    "reset_b",
]

__getattr__ = removed_names(__name__, "flux.")
