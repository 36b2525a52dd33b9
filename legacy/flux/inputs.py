"""What a cell is given: the checks of x and of the state, and the state at the width of x."""

from __future__ import annotations

from torch import Tensor

from rnncompat import InvalidTypeError, InvalidValueError

__all__ = ["as_wide", "read_input", "read_state"]


def read_input(x: object, features: int, like: Tensor) -> Tensor:
    """*x* as ``(I,)``, ``(I, B)`` or ``(I, B, T)``, brought to dtype and device of *like*: only x ever was."""
    if not isinstance(x, Tensor):
        raise InvalidTypeError(f"x is a {type(x).__name__}; expected a tensor: torch.as_tensor(x).")
    if x.is_complex():
        raise InvalidTypeError(f"x is {x.dtype}; expected real numbers.")
    if x.dim() not in (1, 2, 3) or x.shape[0] != features:
        raise InvalidValueError(
            f"x is of shape {list(x.shape)}; expected ({features},), ({features}, B) or, for a whole sequence, "
            f"({features}, B, T): features first."
        )
    return x.to(device=like.device, dtype=like.dtype)


def read_state(name: str, state: object, hidden: int, x: Tensor, like: Tensor) -> Tensor:
    """One tensor of the state, refused unless it fits x and has dtype and device of *like*."""
    if not isinstance(state, Tensor):
        raise InvalidTypeError(f"{name} is a {type(state).__name__}; expected a tensor.")
    if state.dtype != like.dtype or state.device != like.device:
        raise InvalidTypeError(
            f"{name} is {state.dtype} on {state.device}; expected {like.dtype} on {like.device}, as the cell: "
            "only x is converted."
        )
    if state.dim() not in (1, 2) or state.shape[0] != hidden:
        raise InvalidValueError(
            f"{name} is of shape {list(state.shape)}; expected ({hidden},) or ({hidden}, B): features first."
        )
    if state.dim() == 2 and x.dim() == 1:
        raise InvalidValueError(
            f"{name} is of shape {list(state.shape)} beside a vector x, left by a batch; expected ({hidden},). "
            "Call reset(m) first, or pass x as (I, 1)."
        )
    if state.dim() == 2 and 1 != state.shape[1] != x.shape[1]:  # compilers do not trace "in" over sizes
        raise InvalidValueError(
            f"{name} is of shape {list(state.shape)}, left by another batch, and x has {x.shape[1]} columns; "
            "call reset(m) before a batch of another size."
        )
    return state


def as_wide(state: Tensor, x: Tensor) -> Tensor:
    """The state ``(H,)`` beside a vector, else ``(H, B)``: a vector and ``(H, 1)`` serve the whole batch.

    It is a view, so the gradient comes back at the shape of the state given, summed over the batch.
    """
    if x.dim() == 1:
        return state
    return (state if state.dim() == 2 else state[:, None]).expand(-1, x.shape[1])
