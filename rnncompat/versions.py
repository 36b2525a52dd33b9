"""What the installed torch can do: the only place that asks for its version."""

from __future__ import annotations

from collections.abc import Callable

import torch
from packaging.version import Version

__all__ = ["TORCH_RELEASE", "TORCH_VERSION", "autocast_enabled", "is_compiling"]

TORCH_VERSION: str = torch.__version__
"""As torch says it, for people to read."""

TORCH_RELEASE: tuple[int, ...] = Version(TORCH_VERSION).release
"""Compared instead of the version itself: Debian's 1.13 calls itself ``1.13.0a0``, which is below 1.13."""

if TORCH_RELEASE >= (2, 3):
    is_compiling = torch.compiler.is_compiling
else:

    def is_compiling() -> bool:
        """Always False: before torch 2.3 there is no public way to ask."""
        return False


def _autocast_before_2_4(device_type: str) -> bool:
    on_cpu: bool = torch.is_autocast_cpu_enabled()
    return on_cpu if device_type == "cpu" else torch.is_autocast_enabled()


autocast_enabled: Callable[[str], bool] = (
    torch.is_autocast_enabled if TORCH_RELEASE >= (2, 4) else _autocast_before_2_4
)
"""Whether autocast is on for a type of device."""
