"""The layer style: Knet 1.4's ``RNN``, with its state in ``h`` and ``c``, and the functions around it.

Arrays have features first: x ``(X,)``, ``(X, B)`` or ``(X, B, T)``.
"""

from ..stubs import removed_names
from .calls import rnnforw, rnninit, rnnparam, rnnparams
from .rnn import RNN

__all__ = ["RNN", "rnnforw", "rnninit", "rnnparam", "rnnparams"]

__getattr__ = removed_names(__name__)
