"""Which steps of a batch are real, and where the state is cut.

Three facts about a batch of sequences, each a tensor and nothing else:

* ``real`` ``[T, B]``: the step belongs to the row's sequence (a length or a mask said so).
* ``cuts`` ``[T, B]``: a reset takes effect just before this real step, going forward in time.
* ``backward_cuts`` ``[T, B]``: the same boundary as the backward direction meets it.

The checks read values: what lies on a GPU is copied to the host for them, once, and stays there. The rest never
does, so shapes stay static.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .errors import InvalidTypeError, InvalidValueError, bad_shape
from .transforms import values_of

__all__ = [
    "backward_cuts",
    "check_flags",
    "check_lengths",
    "check_range",
    "cuts_of",
    "lengths_of",
    "on_device",
    "on_host",
    "real_steps",
]

_AXES = {
    False: "Is the input batch-first? Then pass batch_first=True.",
    True: "Is the input time-major? Then pass batch_first=False.",
}
"""What to ask where there are as many lengths as steps: by what batch_first is."""


def check_lengths(lengths: Any, like: Tensor, batch_first: bool) -> Tensor:
    """Returns *lengths* as an int64 tensor ``[B]``, on the host if they can be read, or says what is wrong with them.

    Args:
        lengths: list, tuple, NumPy array or integer tensor on any device; ``0 <= length <= T``, any order.
        like: ``[T, B, I]``, time-major by now.
        batch_first: what the caller said of the input, for the hint in an error.
    """
    num_steps, batch_size = like.shape[:2]
    given = lengths if isinstance(lengths, Tensor) else _as_tensor("lengths", lengths)
    if not isinstance(lengths, Tensor) and given.numel() == 0:
        given = given.to(torch.int64)  # an empty list has no dtype of its own
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise InvalidTypeError(f"lengths has dtype {given.dtype}; expected whole numbers (an integer dtype).")
    if given.shape != (batch_size,):
        hint = _AXES[batch_first] if given.shape == (num_steps,) else ""
        raise bad_shape("lengths", given, f"[{batch_size}], one length a row of the batch", hint)
    given = on_host(given)
    check_range(given, num_steps)
    return given.to(torch.int64)


def _as_tensor(name: str, value: Any) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidTypeError(f"{name} is {value!r}, which torch cannot read: {error}.") from None


def check_range(lengths: Tensor, num_steps: int) -> None:
    """Refuses a length below 0 or above *num_steps*; what a compiler traces is checked when it runs."""
    values = values_of(lengths)
    if values is None:
        return
    wrong = ((values < 0) | (values > num_steps)).nonzero()
    if wrong.numel():
        first = wrong[0]
        raise InvalidValueError(
            f"lengths[{int(first[-1])}] is {int(values[tuple(first)])}, but the input has T = {num_steps} steps; "
            f"expected a whole number from 0 to {num_steps}."
        )


def check_flags(name: str, flags: Any, like: Tensor, batch_first: bool) -> Tensor:
    """Returns the boolean argument *name* as ``[T, B]``, where it lies, for *like* ``[T, B, I]``."""
    given = flags if isinstance(flags, Tensor) else _as_tensor(name, flags)
    if given.dtype != torch.bool:
        raise InvalidTypeError(
            f"{name} has dtype {given.dtype}; expected torch.bool. Write `{name}.bool()` if 1 means True."
        )
    steps, batch = like.shape[:2]
    expected = (batch, steps) if batch_first else (steps, batch)
    if given.shape != expected:
        order = "[B, T]" if batch_first else "[T, B]"
        hint = "It follows batch_first." if given.shape == expected[::-1] else ""
        raise bad_shape(name, given, f"{list(expected)} ({order})", hint)
    return given.t() if batch_first else given


def on_host(given: Tensor) -> Tensor:
    """*given* on the host if its values can be read there, else where it is."""
    return given.cpu() if given.is_cuda and values_of(given) is given else given


def on_device(given: Tensor, device: torch.device) -> Tensor:
    """*given* on *device*: from the host to a GPU without waiting for it, and so that a CUDA graph can record it."""
    if given.device == device or device.type != "cuda" or values_of(given) is not given:
        return given.to(device)
    if torch.cuda.is_current_stream_capturing():  # a copy from the host would read it again at each replay
        filled = [
            torch.full((), value, dtype=given.dtype, device=device) for value in given.flatten().tolist()
        ]
        return torch.stack(filled).view(given.shape) if filled else given.to(device)
    return given.pin_memory().to(device, non_blocking=True)


def real_steps(lengths: Tensor, num_steps: int) -> Tensor:
    """``[T, B]`` booleans: step t of row b is within the row's length."""
    return torch.arange(num_steps, device=lengths.device)[:, None] < lengths


def lengths_of(mask: Tensor) -> Tensor | None:
    """The lengths ``[B]`` that a right-padded *mask* ``[T, B]`` says, or None if it has other gaps."""
    if values_of(mask) is not mask:
        return None  # traced, or one of many under vmap: as a mask it serves as well
    lengths = mask.sum(0)
    return lengths if torch.equal(mask, real_steps(lengths, mask.shape[0])) else None


def cuts_of(resets: Tensor, real: Tensor | None) -> Tensor:
    """``[T, B]``: the real steps at which a reset takes effect.

    A reset on a step that is not real acts at the row's next real step; past the last one it is ignored.
    """
    if real is None:
        return resets
    count = resets.to(torch.int64).cumsum(0)  # [T, B] resets up to and including t
    # The count at the row's previous real step: counts only grow, so a running maximum finds it.
    seen = torch.where(real, count, torch.zeros_like(count)).cummax(0).values if len(count) else count
    before = torch.cat([torch.zeros_like(seen[:1]), seen[:-1]])  # [T, B]
    return real & (count > before)


def backward_cuts(cuts: Tensor, real: Tensor | None) -> Tensor:
    """*cuts* as the backward direction meets them: at the real step just before each cut in time.

    In reversed time a cut at t is a reset that lies one step further on, at t - 1.
    """
    shifted = torch.cat([cuts[1:], torch.zeros_like(cuts[:1])])  # [T, B]
    return cuts_of(shifted.flip(0), None if real is None else real.flip(0)).flip(0)
