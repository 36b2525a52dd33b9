"""A stream of random numbers that a seed starts, for the dropout of the old layer style."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from rnncompat import InvalidValueError

__all__ = ["Stream"]


class Stream:
    """Random numbers that go on from call to call and leave torch's own alone; seed 0 takes torch's own.

    Args:
        seed: where the numbers begin, on each device anew.
    """

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise InvalidValueError(f"seed is {seed!r}; expected a whole number >= 0.")
        self.seed = seed
        self._states: dict[str, Tensor] = {}

    @contextmanager
    def on(self, device: torch.device) -> Iterator[None]:
        """Inside the block torch's generator of *device* draws from this stream."""
        if not self.seed:
            yield
            return
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            key = str(device)
            if key not in self._states:
                self._states[key] = torch.Generator(device).manual_seed(self.seed).get_state()
            _set_state(device, self._states[key])
            yield
            self._states[key] = _get_state(device)


def _get_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
