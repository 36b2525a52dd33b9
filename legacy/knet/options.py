"""The options of the old layer style's constructors: their words, and those that are gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor
from typing_extensions import TypedDict

from rnncompat import InvalidValueError, UnsupportedError

from .parameters import Initial

__all__ = ["ALGORITHMS", "CELLS", "LayerOptions", "State", "choose", "refuse_gone"]

V = TypeVar("V")

State = Tensor | int | None
"""None: start at zero and forget; 0: start at zero and keep; a tensor: start there and keep."""


class LayerOptions(TypedDict, total=False):
    """The options of ``RNN``, which says what each means."""

    h: State
    c: State
    rnnType: str  # the old name
    bidirectional: bool
    skipInput: bool  # the old name
    numLayers: int  # the old name
    dropout: float
    winit: Initial | None
    binit: Initial | None
    finit: Initial | None
    algo: int
    seed: int
    dtype: torch.dtype | None
    device: torch.device | str | None


CELLS = {"relu": "rnn_relu", "tanh": "rnn_tanh", "lstm": "lstm", "gru": "gru"}
ALGORITHMS = {0: "auto", 1: "persist_static", 2: "persist_dynamic"}
_GONE = {
    "atype": "dtype= and device= say it",
    "dataType": "dtype= says it (it was ignored with a warning)",
    "usegpu": "device= says it (it was ignored with a warning)",
    "handle": "there is no cuDNN handle to choose (it was ignored with a warning)",
}


def choose(name: str, key: Any, table: Mapping[Any, V]) -> V:
    """What *table* has for the value of the option *name*."""
    if key not in list(table):  # a key may be anything, unhashable too
        raise InvalidValueError(f"{name} is {key!r}; expected one of {list(table)}.")
    return table[key]


def refuse_gone(given: Mapping[str, object]) -> None:
    """Refuses every option that is given though it has no meaning here, and says what does its work."""
    for name, value in given.items():
        if value is not None:
            raise UnsupportedError(f"{name} is {value!r}; leave it out: {_GONE[name]}.")
