"""cuDNN's whole RNN interface for PyTorch: the same numbers on every device, and old calls kept alive.

Say what to compute with :class:`RNNDescriptor`, hold the weights in one flat buffer with
:class:`RNNWeights`, and run whole sequences with :func:`rnn_forward` or single steps with :func:`rnn_step`.
Programs of the old single-step interface run on ``rnncompat.legacy``.
"""

from ._version import __version__
from .descriptor import Bias, Cell, InputMode, RNNDescriptor, restore
from .doctor import doctor
from .errors import InvalidTypeError, InvalidValueError, RNNCompatError, UnsupportedError
from .explain import Explanation, explain
from .functional import rnn_forward, rnn_step
from .layout import Layout, Slot, layout_of
from .modules import GRU, LSTM, RNN
from .sequence import SequenceBatch
from .state import RNNState, final_output
from .upsample import Upsample, block_sum, upsample_nearest
from .versions import allow_in_files
from .weights import RNNWeights

__all__ = [
    "__version__",
    "RNNDescriptor",
    "Cell",
    "Bias",
    "InputMode",
    "RNNWeights",
    "Layout",
    "Slot",
    "layout_of",
    "SequenceBatch",
    "RNNState",
    "RNN",
    "LSTM",
    "GRU",
    "rnn_forward",
    "rnn_step",
    "final_output",
    "upsample_nearest",
    "block_sum",
    "Upsample",
    "explain",
    "Explanation",
    "doctor",
    "RNNCompatError",
    "InvalidValueError",
    "InvalidTypeError",
    "UnsupportedError",
]

# Plain values whose constructors check what they are given, so no file can do harm through them.
allow_in_files([restore, RNNWeights, RNNState, SequenceBatch])
