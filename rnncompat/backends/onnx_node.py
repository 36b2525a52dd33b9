"""One node of ONNX's ``RNN``, ``GRU`` or ``LSTM`` in the words of whichever exporter is recording.

Both exporters keep the node and its shapes only; what they record computes zeros if it is run in torch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..versions import is_jit_tracing

__all__ = ["Node"]


class Node(NamedTuple):
    """A node and its inputs, in the order and the layout of ONNX's specification.

    Attributes:
        operator: ``"RNN"``, ``"GRU"`` or ``"LSTM"``.
        attributes: whole numbers, strings and lists of strings.
        x: ``[T, B, I]``.
        w: ``[D, G*H, I]``.
        r: ``[D, G*H, H]``.
        b: ``[D, 2*G*H]``.
        lengths: ``[B]`` int32, or None where every row has T steps.
        h: ``[D, B, H]``.
        c: ``[D, B, H]`` or None.
    """

    operator: str
    attributes: dict[str, Any]
    x: Tensor
    w: Tensor
    r: Tensor
    b: Tensor
    lengths: Tensor | None
    h: Tensor
    c: Tensor | None

    @property
    def inputs(self) -> list[Tensor | None]:
        """All that can be given, c only to an LSTM."""
        return [*self[2:8], *([] if self.c is None else [self.c])]

    def record(self) -> tuple[Tensor, ...]:
        """Y ``[T, D, B, H]``, Y_h ``[D, B, H]`` and, of an LSTM, Y_c ``[D, B, H]``."""
        if is_jit_tracing():
            return _Scripted.apply(self.operator, self.attributes, *self.inputs)  # type: ignore[no-untyped-call, no-any-return]  # torch's gap
        shapes = [tuple(t.shape) for t in _outputs(*self.inputs)]
        return tuple(
            torch.onnx.ops.symbolic_multi_out(
                self.operator,
                self.inputs,
                self.attributes,
                dtypes=[self.x.dtype] * len(shapes),
                shapes=shapes,
            )
        )


def _outputs(x: Any, w: Any, r: Any, b: Any, lengths: Any, *states: Any) -> tuple[Tensor, ...]:
    """Zeros of the shapes that the node gives."""
    (directions, batch, hidden) = states[0].shape
    y = x.new_zeros(x.shape[0], directions, batch, hidden)
    return y, *(torch.zeros_like(s) for s in states)


class _Scripted(torch.autograd.Function):
    """The node for the TorchScript exporter, which asks a function how it is said in ONNX."""

    @staticmethod
    def forward(ctx: Any, operator: str, attributes: dict[str, Any], *inputs: Any) -> tuple[Tensor, ...]:
        return _outputs(*inputs)

    @staticmethod
    def symbolic(g: Any, operator: str, attributes: dict[str, Any], *inputs: Any) -> Any:
        said = {f"{name}_{_KINDS[type(value)]}": value for name, value in attributes.items()}
        given = [_absent(g) if value is None else value for value in inputs]
        return g.op(operator, *given, outputs=len(inputs) - 4, **said)


_KINDS = {int: "i", str: "s", list: "s"}
"""Suffix that the exporter wants at an attribute's name."""


def _absent(g: Any) -> Any:
    nothing = g.op("prim::Constant")
    nothing.setType(torch._C.OptionalType.ofTensor())
    return nothing
