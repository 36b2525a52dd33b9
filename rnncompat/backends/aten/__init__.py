"""torch's own operations, and kernels in plain torch where those are slow or missing."""

from .backend import AtenBackend

__all__ = ["AtenBackend"]
