"""Backend ``cudnn``: cuDNN's whole RNN interface through ctypes, without a compiler."""

from .backend import CudnnBackend
from .quick import quick_call

__all__ = ["CudnnBackend", "quick_call"]
