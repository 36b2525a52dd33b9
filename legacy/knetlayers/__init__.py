"""The layers that KnetLayers 0.4 made of :class:`~rnncompat.legacy.RNN`: ids or features in, ragged batches too."""

from ..stubs import removed_names
from .layers import GRU, LSTM, SRNN
from .ragged import PadRNNOutput, PadSequenceArray, RNNOutput

__all__ = ["GRU", "LSTM", "SRNN", "PadRNNOutput", "PadSequenceArray", "RNNOutput"]

__getattr__ = removed_names(__name__, "knetlayers.")
