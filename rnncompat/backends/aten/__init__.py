"""torch's own operations, and kernels in plain torch where those are slow or missing."""

from .backend import AtenBackend
from .quick import quick_step

__all__ = ["AtenBackend", "quick_step"]
