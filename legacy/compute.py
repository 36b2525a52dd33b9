"""One old step through the core: the old shapes in, ``rnn_step`` inside, the old shapes out.

Old arrays have features first, ``(I,)`` or ``(I, B)``; the core has them last, ``[B, I]``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rnncompat import InvalidTypeError, InvalidValueError, RNNState, RNNWeights, UnsupportedError, rnn_step
from rnncompat.versions import autocast_enabled

from .buffer import split_params
from .parameters import check_like
from .rnndesc import RNNDesc

__all__ = [
    "Gradients",
    "StepOutput",
    "differentiate",
    "expand_state",
    "from_core",
    "run_step",
    "state_to_core",
    "step_with",
]


class StepOutput(NamedTuple):
    """``y``, ``ho`` and ``co`` (None unless LSTM): ``(H,)`` or ``(H, B)``; y and ho are equal but apart."""

    y: Tensor
    ho: Tensor
    co: Tensor | None


class Gradients(NamedTuple):
    """Gradients of one step; dh and dc at the expanded shape, dWi and dWh transposed as in the buffer."""

    dx: Tensor
    dh: Tensor
    dc: Tensor | None
    dwi: Tensor
    dwh: Tensor
    db: Tensor


class _ReadWeights(torch.autograd.Function):
    """A snapshot of the buffer whose gradient also reaches what ``setweights`` copied from.

    The snapshot lets the buffer be filled again before backward runs, as the old programs do at each step.
    """

    @staticmethod
    def forward(ctx: Any, buffer: Tensor, source: Tensor | None) -> Tensor:
        ctx.source_size = None if source is None else len(source)
        return buffer.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None]:
        (grad,) = grads
        return grad, None if ctx.source_size is None else grad[: ctx.source_size]


def expand_state(x: Tensor, h: Tensor) -> Tensor:
    """A state as wide as *x*: ``(H,)`` and ``(H, 1)`` are repeated over the batch, others copied."""
    if x.dim() not in (1, 2) or h.dim() not in (1, 2):
        raise InvalidValueError(
            f"x is of shape {list(x.shape)} and h of shape {list(h.shape)}; expected (I,) or (I, B) and "
            "(H,) or (H, B). rnncompat.rnn_forward() takes whole sequences."
        )
    if x.dim() == 1:
        if h.dim() == 2:
            raise InvalidValueError(
                f"h is of shape {list(h.shape)} beside a vector x; expected (H,). Pass x as (I, 1)."
            )
        return h
    column = h if h.dim() == 2 else h[:, None]  # [H, B] or [H, 1]
    return column.expand(-1, x.shape[1] if column.shape[1] == 1 else -1).clone()


def run_step(rnn: RNNDesc, x: Tensor, h: Tensor, c: Tensor | None) -> StepOutput:
    """The old ``forward`` without its return conventions; the old interface knew no autocast."""
    if autocast_enabled(rnn.params.device.type):
        with torch.autocast(rnn.params.device.type, enabled=False):
            return run_step(rnn, x, h, c)
    if not _fits(rnn, x, h, c):
        h, c = check_step(rnn, x, h, c)
    flat = read_weights(rnn, x, h, c)
    return step_with(rnn.core if flat is rnn.params else rnn.core.with_flat(flat), x, h, c)


def _fits(rnn: RNNDesc, x: Any, h: Any, c: Any) -> bool:
    """Whether everything is as a step in a loop has it: a question, where the checks that follow explain."""
    flat = rnn.core.flat
    dtype, device = flat.dtype, flat.device
    return (
        isinstance(x, Tensor)
        and isinstance(h, Tensor)
        and x.dim() in (1, 2)
        and x.shape[0] == rnn.input
        and h.shape == (rnn.hidden, *x.shape[1:])
        and x.dtype is h.dtype is dtype
        and x.device == device
        and h.device == device
        and (
            c is None
            or (isinstance(c, Tensor) and c.shape == h.shape and c.dtype is dtype and c.device == device)
        )
        and (c is None or rnn.descriptor.has_cell_state)
    )


def check_step(rnn: RNNDesc, x: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Expands the state, then checks everything in the old order."""
    if c is not None and not rnn.descriptor.has_cell_state:
        raise UnsupportedError(
            f"c is given, but the mode is {rnn.mode.name}, which has no cell state. "
            "(The old call returned uninitialised memory as the new cell.)"
        )
    for name, tensor in (("x", x), ("h", h), ("c", c)):
        if name != "c" or tensor is not None:
            check_like(name, tensor, rnn)
    h = expand_state(x, h)
    c = None if c is None else expand_state(x, c)
    _check_size("x", x, rnn.input, x)
    _check_size("h", h, rnn.hidden, x)
    if c is not None:
        _check_size("c", c, rnn.hidden, x)
    return h, c


def _check_size(name: str, given: Tensor, features: int, x: Tensor) -> None:
    expected = (features, *x.shape[1:])
    if given.shape != expected:
        raise InvalidValueError(
            f"{name} is of shape {list(given.shape)}; expected {list(expected)}: features first, then the batch."
        )


def read_weights(rnn: RNNDesc, *inputs: Tensor | None) -> Tensor:
    """The flat weights for one call: the buffer itself, or a snapshot of it where a graph is recorded."""
    source = rnn.source
    if torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (rnn.params, source, *inputs)
    ):
        return _ReadWeights.apply(rnn.params, source)  # type: ignore[no-untyped-call, no-any-return]  # torch's own gap
    return rnn.params


def step_with(weights: RNNWeights, x: Tensor, h: Tensor, c: Tensor | None) -> StepOutput:
    """One step with arguments that fit: ``(I,)`` beside ``(H,)``, or ``(I, B)`` beside ``(H, B)``."""
    vector, descriptor = x.dim() == 1, weights.descriptor
    state: Any = state_to_core(h, vector)
    if descriptor.has_cell_state:
        state = RNNState(state, torch.zeros_like(state) if c is None else state_to_core(c, vector))
    output, after = rnn_step(descriptor, weights, x[None] if vector else x.t(), state)
    return StepOutput(
        from_core(output, vector),
        from_core(after.h, vector).clone(),  # y and ho must not share memory
        None if after.c is None else from_core(after.c, vector),
    )


def state_to_core(t: Tensor, vector: bool) -> Tensor:
    """``(F,)`` or ``(F, B)`` as ``[1, B, F]``."""
    return t.view(1, 1, -1) if vector else t.t()[None]


def from_core(t: Tensor, vector: bool) -> Tensor:
    """``[B, F]`` or ``[1, B, F]`` in the old shape, contiguous."""
    return t.reshape(-1) if vector else t.reshape(-1, t.shape[-1]).t().contiguous()


def differentiate(
    rnn: RNNDesc,
    x: Tensor,
    h: Tensor,
    c: Tensor | None,
    dy: Tensor | None,
    dho: Tensor | None,
    dco: Tensor | None,
) -> Gradients:
    """Gradients of one step at the weights that the descriptor holds now; None means zero."""
    h, c = check_step(rnn, x, h, c)
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (x, h, rnn.params)]
        cell = None if c is None else c.detach().requires_grad_()
        outputs = step_with(rnn.core.with_flat(leaves[2]), leaves[0], leaves[1], cell)
        pairs = [
            (o, _cotangent(name, o, g))
            for name, o, g in zip(("dy", "dho", "dco"), outputs, (dy, dho, dco), strict=True)
            if o is not None
        ]
        wanted = leaves if cell is None else [*leaves, cell]
        dx, dh, dflat, *dc = torch.autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs])
    (dwi, dwh), db = split_params(dflat, rnn.input, rnn.hidden, rnn.descriptor.gates)
    return Gradients(dx, dh, dc[0] if dc else None, dwi, dwh, db)


def _cotangent(name: str, output: Tensor, given: Tensor | None) -> Tensor:
    if given is None:
        return torch.zeros_like(output)
    if given.shape != output.shape or given.dtype != output.dtype:
        raise InvalidValueError(
            f"{name} is {given.dtype} of shape {list(given.shape)}; expected {output.dtype} of shape "
            f"{list(output.shape)}, the expanded shape of what it is the gradient of."
        )
    return given


def zero_or_tensor(name: str, given: object, *, any_number: bool) -> Tensor | None:
    """The old null rules for an incoming gradient; None means zero.

    ``dy`` may be any whole number, which means zeros whatever its value; ``dho`` and ``dco`` only 0 or False.
    """
    if given is None or isinstance(given, Tensor):
        return given
    if not isinstance(given, int):
        raise InvalidTypeError(f"{name} is a {type(given).__name__}; expected a tensor, None or 0.")
    if given != 0 and not any_number:
        raise InvalidValueError(f"{name} is {given!r}; expected a tensor, None or 0.")
    return None
