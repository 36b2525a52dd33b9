"""Whether a call is part of something that only plain operations can serve."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd import forward_ad

from ..versions import traces_transform_question

__all__ = ["transforms_active"]


def _find_probe() -> Callable[[], bool]:
    """Torch's own question whether a torch.func transform is running; it has moved between versions."""
    probe = getattr(torch._C, "_are_functorch_transforms_active", None)  # torch >= 2.0
    return probe if probe is not None else lambda: False


_in_transform = _find_probe()


def transforms_active() -> bool:
    """Whether a torch.func transform or a level of forward-mode differentiation is or may be running."""
    return not traces_transform_question() or _in_transform() or forward_ad._current_level >= 0
