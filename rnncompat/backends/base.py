"""What every backend is given and gives back: one request, one result, two methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import NamedTuple

from torch import Tensor

from ..descriptor import RNNDescriptor
from ..state import RNNState
from ..steps import on_device, real_steps
from ..weights import LayerWeights

__all__ = ["Algorithm", "Backend", "Request", "ResetTo", "Result", "ReturnStates"]


class Algorithm(str, Enum):
    """cuDNN's algorithms, for the backends that have a choice; ``"auto"`` lets the backend choose."""

    AUTO = "auto"
    STANDARD = "standard"
    PERSIST_STATIC = "persist_static"
    PERSIST_STATIC_SMALL_H = "persist_static_small_h"
    PERSIST_DYNAMIC = "persist_dynamic"


class ResetTo(str, Enum):
    """What a reset replaces the state by."""

    ZEROS = "zeros"
    INITIAL = "initial"


class ReturnStates(str, Enum):
    """Which states a call returns: the final one, or that of every step."""

    LAST = "last"
    ALL = "all"


class Request(NamedTuple):
    """One checked call: what a backend needs to know, in one form for all kinds of input.

    Attributes:
        x: ``[T, B, I]``; values at steps that are not real may be anything, NaN included.
        weights: one entry a pseudo-layer.
        state: initial state at full shape, h ``[L*D, B, P or H]``, c ``[L*D, B, H]`` or None.
        lengths: ``[B]``, or None; on the host where their values are known, as is the mask.
        mask: ``[T, B]`` True = real, only where lengths cannot say it.
        resets: ``[T, B]`` where the caller gave them, or None.
        reset_to: what a reset replaces the state by.
        drops: the factors of dropout at each boundary between layers ``[T, B, D*P]``; empty where it does not act.
        padding_value: what the output holds at steps that are not real.
        return_states: the final state, or that of every step.
        algorithm: as asked for; only ``"auto"`` may be ignored.
    """

    descriptor: RNNDescriptor
    x: Tensor
    weights: tuple[LayerWeights, ...]
    state: RNNState
    lengths: Tensor | None
    mask: Tensor | None
    resets: Tensor | None
    reset_to: ResetTo
    drops: tuple[Tensor, ...]
    padding_value: float
    return_states: ReturnStates
    algorithm: Algorithm

    @property
    def dense(self) -> bool:
        """Whether every step is real and none is reset."""
        return self.lengths is None and self.mask is None and self.resets is None

    def real(self) -> Tensor | None:
        """``[T, B]`` on the device of x, True = real; None where every step is."""
        if self.lengths is not None:
            return real_steps(on_device(self.lengths, self.x.device), len(self.x))
        return None if self.mask is None else on_device(self.mask, self.x.device)


class Result(NamedTuple):
    """Output ``[T, B, D*(P or H)]`` and state, ``[L*D, B, ·]`` or ``[T, L*D, B, ·]`` if all were asked for."""

    output: Tensor
    state: RNNState


class Backend(ABC):
    """How a request is run. No backend knows another."""

    name: str

    @abstractmethod
    def supports(self, request: Request) -> str | None:
        """None if the request can be run, else the reason why not, as a sentence."""

    @abstractmethod
    def describe(self, request: Request) -> str:
        """How a request that :meth:`supports` accepts would be run, in a few words."""

    @abstractmethod
    def forward(self, request: Request) -> Result:
        """Runs a request that :meth:`supports` accepts; gradients flow by autograd."""
