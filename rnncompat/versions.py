"""What the installed torch can do: the only place that asks for its version."""

from __future__ import annotations

import torch
from packaging.version import Version

__all__ = ["TORCH_RELEASE", "is_compiling"]

TORCH_RELEASE: tuple[int, ...] = Version(torch.__version__).release
"""Compared instead of the version itself: Debian's 1.13 calls itself ``1.13.0a0``, which is below 1.13."""

if TORCH_RELEASE >= (2, 3):
    is_compiling = torch.compiler.is_compiling
else:

    def is_compiling() -> bool:
        """Always False: before torch 2.3 there is no public way to ask."""
        return False
