"""Backend ``cudnn``: cuDNN's whole RNN interface through ctypes, without a compiler."""

from .backend import CudnnBackend

__all__ = ["CudnnBackend"]
