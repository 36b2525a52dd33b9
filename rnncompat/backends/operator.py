"""The operator ``rnncompat::run``: a whole call as one node, for compilers and exporters.

Plans depend on the values of lengths, masks and resets, and loops run over T, so no compiler can trace a
backend. It traces this operator instead, and a graph does not grow with T. Other calls go to their
backend directly.

The operator itself decides how it is differentiated. First order: ``rnncompat::run_backward``, which runs the
call again with gradients recorded, so that nothing but its arguments is kept in between. Where more is
asked for (torch.func's transforms, forward mode, a second derivative), the plain operations of ``reference``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..errors import UnsupportedError
from ..state import RNNState
from ..steps import check_range, on_host
from ..versions import GATES, in_onnx_export, is_traced
from .base import Request, Result, ReturnStates
from .call import ARGUMENTS, Call, call_of, request_of
from .onnx import run_as_nodes
from .precision import without_autocast
from .select import select

__all__ = ["run"]

_HOLE: Any = object()
_REGISTERED = GATES["tracing"].open  # before, no compiler asks for it; and that of 2.4 cannot read a Gate


def run(request: Request, backend: str) -> Result:
    """Runs a request on the backend that serves it, or leaves it to the graph that is being traced."""
    if not is_traced():
        return select(request, backend).forward(request)
    if in_onnx_export():
        return run_as_nodes(request)
    if not _REGISTERED:
        raise UnsupportedError(
            "torch.jit.trace would bake the number of steps, the lengths and the resets of this call into its "
            "program under this torch; it takes other sizes from torch 2.4 on. Trace module.to_torch() instead, "
            "a torch.nn module of the same weights."
        )
    output, h, c = torch.ops.rnncompat.run(*call_of(request, backend))
    return Result(output, RNNState(h, None if request.state.c is None else c))


def _run(call: Call, backend: str) -> tuple[Tensor, Tensor, Tensor]:
    """Output, h and c, empty if there is none: operators cannot return an absent tensor."""
    request = request_of(call)
    output, (h, c) = select(request, backend).forward(request)
    return output, h, output.new_empty(0) if c is None else c


def _forward(*arguments: Any) -> tuple[Tensor, ...]:
    """The kernel: checks what compilers cannot, and returns memory of its own, as they were told."""
    call = Call(*arguments)
    if call.lengths is not None:
        lengths = on_host(call.lengths)
        check_range(lengths, len(call.x))
        call = call._replace(lengths=lengths)
    with torch.no_grad():
        output, h, c = _run(call, call.backend)
    keep = torch.contiguous_format
    return output.contiguous(), h.clone(memory_format=keep), c.clone(memory_format=keep)


def _fake_forward(*arguments: Any) -> tuple[Tensor, ...]:
    """The shapes of :func:`_forward`."""
    call = Call(*arguments)
    d, (steps, batch, _) = call.descriptor, call.x.shape
    rows = (d.num_pseudo_layers, batch)
    if call.return_states == ReturnStates.ALL.value:
        rows = (steps, *rows)  # type: ignore[assignment]  # one more
    c = (*rows, d.hidden_size) if d.has_cell_state else (0,)
    new = call.x.new_empty
    return new(steps, batch, d.output_size), new(*rows, d.state_size), new(c)


def _backward(dy: Tensor, dh: Tensor, dc: Tensor, *arguments: Any) -> list[Tensor]:
    """The gradients of the leaves that *needed* marks, by running the call again."""
    return without_autocast(dy.device.type, lambda: _backward_once(dy, dh, dc, *arguments))


def _backward_once(dy: Tensor, dh: Tensor, dc: Tensor, *arguments: Any) -> list[Tensor]:
    *given, needed = arguments
    call = Call(*given)
    leaves = [t.detach().requires_grad_(n) for t, n in zip(call.leaves, needed, strict=True)]
    with torch.enable_grad():
        results = _run(call.with_tensors(leaves), call.backend)
    return _gradients(results, (dy, dh, dc), [t for t in leaves if t.requires_grad])


def _fake_backward(dy: Tensor, dh: Tensor, dc: Tensor, *arguments: Any) -> list[Tensor]:
    """The shapes of :func:`_backward`."""
    *given, needed = arguments
    return [t.new_empty(t.shape) for t, n in zip(Call(*given).leaves, needed, strict=True) if n]


def _differentiable_backward(call: Call, grads: Sequence[Tensor], needed: Sequence[bool]) -> list[Tensor]:
    """As :func:`_backward`, in plain operations that lead back to the leaves, to be differentiated again."""
    leaves = [t.view_as(t) for t in call.leaves]
    results = _run(call.with_tensors(leaves), "reference")
    wanted = [t for t, n in zip(leaves, needed, strict=True) if n]
    return _gradients(results, grads, wanted, create_graph=True)


def _gradients(
    results: Sequence[Tensor], grads: Sequence[Tensor], wanted: list[Tensor], *, create_graph: bool = False
) -> list[Tensor]:
    outputs = [(r, g) for r, g in zip(results, grads, strict=True) if r.requires_grad]
    found = torch.autograd.grad(
        [r for r, _ in outputs], wanted, [g for _, g in outputs], create_graph=create_graph, allow_unused=True
    )
    return [torch.zeros_like(t) if g is None else g.contiguous() for t, g in zip(wanted, found, strict=True)]


class _Recorded(torch.autograd.Function):
    """Autograd's view of the operator."""

    @staticmethod
    def forward(ctx: Any, words: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.words = words
        ctx.save_for_backward(*tensors)
        return _below_autograd(words.with_tensors(tensors))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        call = ctx.words.with_tensors(ctx.saved_tensors)
        wanted = ctx.needs_input_grad[1:]
        needed = list(wanted[: len(call.leaves)])
        if torch.is_grad_enabled():  # create_graph=True
            found = _differentiable_backward(call, grads, needed)
        else:
            found = torch.ops.rnncompat.run_backward(*grads, *call, needed)
        left = iter(found)
        return None, *(next(left) if n else None for n in wanted)


def _below_autograd(call: Call) -> tuple[Tensor, ...]:
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.rnncompat.run(*call)  # type: ignore[no-any-return]  # torch's own gap


def _autograd(*arguments: Any) -> tuple[Tensor, ...]:
    """The operator where autograd may record it."""
    call = Call(*arguments)
    if forward_ad._current_level >= 0:
        return _plain(*arguments)
    if torch.is_grad_enabled() and any(t.requires_grad for t in call.leaves):
        words = call.with_tensors([_HOLE] * len(call.tensors))
        return _Recorded.apply(words, *call.tensors)  # type: ignore[no-untyped-call, no-any-return]  # torch's gap
    return _below_autograd(call)


def _plain(*arguments: Any) -> tuple[Tensor, ...]:
    """The operator in plain operations, which every transform knows."""
    return _run(Call(*arguments), "reference")


def _register() -> Any:
    """Makes the operator known to torch; it exists as long as the library that is returned."""
    library: Any = torch.library.Library("rnncompat", "DEF")  # type: ignore[no-untyped-call]  # torch's own gap
    library.define(f"run({ARGUMENTS}) -> (Tensor, Tensor, Tensor)")
    library.define(f"run_backward(Tensor dy, Tensor dh, Tensor dc, {ARGUMENTS}, bool[] needed) -> Tensor[]")
    for name, key, kernel in (
        ("run", "CompositeExplicitAutograd", _forward),
        ("run", "Autograd", _autograd),
        ("run", "FuncTorchDynamicLayerFrontMode", _plain),
        ("run_backward", "CompositeExplicitAutograd", _backward),
    ):
        library.impl(name, kernel, key)
    # Not as Meta kernels: lengths and flags may lie on another device, which torch would not believe of these.
    torch.library.register_fake("rnncompat::run", _fake_forward, lib=library)
    torch.library.register_fake("rnncompat::run_backward", _fake_backward, lib=library)
    return library


_library = _register() if _REGISTERED else None
