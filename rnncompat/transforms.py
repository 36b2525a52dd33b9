"""Whether a call is part of something that only plain operations can serve, and what its tensors hold.

The one file beside ``backends/`` with underscore names of torch: a check of values must see through vmap's
wrappers, and torch has no public way to.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .versions import is_traced

__all__ = ["batched", "shapes_are_settled", "transforms_active", "values_of"]

F = TypeVar("F", bound=Callable[..., Any])

_functorch: Any = getattr(torch._C, "_functorch", None)  # torch >= 2.0


def _find_probe() -> Callable[[], bool]:
    """Torch's own question whether a torch.func transform is running."""
    probe = getattr(torch._C, "_are_functorch_transforms_active", None)  # torch >= 2.0
    return probe if probe is not None else lambda: False


_in_transform = _find_probe()


def transforms_active() -> bool:
    """Whether a torch.func transform or a level of forward-mode differentiation is running."""
    return _in_transform() or forward_ad._current_level >= 0


_in_old_vmap: Callable[[Tensor], bool] = getattr(_functorch, "is_legacy_batchedtensor", lambda _: False)


def batched(tensors: Iterable[Tensor | None]) -> bool:
    """Whether vmap, torch.func's or the one inside ``autograd.grad(is_grads_batched=True)``, wraps any of them."""
    return any(
        t is not None and (_in_old_vmap(t) or (_in_transform() and _functorch.is_functorch_wrapped_tensor(t)))
        for t in tensors
    )


def values_of(tensor: Tensor) -> Tensor | None:
    """A tensor whose values can be read: *tensor*, or what a transform wraps, with an axis more.

    Returns:
        None while a compiler or an exporter traces, and on the GPU while a CUDA graph is captured: there are no
        values yet.
    """
    if is_traced() or (tensor.is_cuda and torch.cuda.is_current_stream_capturing()):
        return None
    while _in_transform() and _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def shapes_are_settled(function: F) -> F:
    """*function* for TorchScript's tracer, without its warning at each shape that is compared.

    Our comparisons refuse what is wrong and decide nothing else, so a trace does serve other sizes.
    """

    @functools.wraps(function)
    def quietly(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]  # likewise
            return function(*args, **kwargs)

    return quietly  # type: ignore[return-value]  # wraps() keeps the signature
