"""Whether a call is part of something that only plain operations can serve."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

__all__ = ["transforms_active"]


def _find_probe() -> Callable[[], bool]:
    """Torch's own question whether a torch.func transform is running; it has moved between versions."""
    probe = getattr(torch._C, "_are_functorch_transforms_active", None)  # torch >= 2.0
    return probe if probe is not None else lambda: False


_in_transform = _find_probe()


def transforms_active(*tensors: Tensor | None) -> bool:
    """Whether a torch.func transform is running, or a tensor carries a forward-mode tangent."""
    if _in_transform():
        return True
    if forward_ad._current_level < 0:
        return False
    return any(t is not None and forward_ad.unpack_dual(t).tangent is not None for t in tensors)  # type: ignore[no-untyped-call]  # torch's own gap
