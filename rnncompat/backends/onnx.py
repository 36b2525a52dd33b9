"""How a call is said in ONNX: a node a layer, with lengths as its ``sequence_lens``.

Used while ``torch.onnx.export`` records, by either exporter. Equations are those of ONNX's operators specification
(GRU with ``linear_before_reset=1``).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import UnsupportedError
from ..state import RNNState
from ..steps import real_steps
from ..versions import is_dynamo_compiling, is_jit_tracing
from .base import Request, Result, ReturnStates
from .onnx_node import Node
from .onnx_weights import OPERATORS, attributes_of, pack
from .reference import ReferenceBackend

__all__ = ["run_as_nodes"]


def run_as_nodes(request: Request) -> Result:
    """Records *request* as nodes of ONNX.

    What its operators cannot say is recorded step by step where T is fixed, as it is in a model of one step.

    Raises:
        UnsupportedError: there is no operator for it, and T is not fixed or the exporter does not say so.
    """
    reason = _why_not(request)
    if reason is None:
        return _layers(request)
    # Only torch.export says which sizes are fixed; a fixed T is then a plain number, unlike to torch.compile.
    if is_jit_tracing() or is_dynamo_compiling() or not isinstance(request.x.shape[0], int):
        raise UnsupportedError(
            f"This call cannot be exported to ONNX with any number of steps: {reason}. "
            "Fix T (a model of one step has T = 1) and export with dynamo=True, which then unrolls the steps."
        )
    return ReferenceBackend().forward(request)


def _why_not(request: Request) -> str | None:
    d = request.descriptor
    found = (
        (d.proj_size > 0, "its LSTM has no projection"),
        (d.cell_clip is not None, "its clip bounds the inputs of the gates, not the cell"),
        (request.resets is not None, "it has no resets"),
        (request.mask is not None, "it has no masks; give lengths"),
        (request.return_states is ReturnStates.ALL, "it returns the last state only"),
        (bool(request.drops), "dropout is drawn in training only; call eval() first"),
    )
    return next((reason for applies, reason in found if applies), None)


def _layers(request: Request) -> Result:
    d, x, lengths = request.descriptor, request.x, request.lengths
    real = None if lengths is None else real_steps(lengths, x.shape[0])[..., None]  # [T, B, 1]
    finals = []
    for layer in range(d.num_layers):
        y, *final = _node(request, x, layer).record()
        x = y.transpose(1, 2).flatten(2)  # [T, B, D*H]
        finals.append(final)
    last = [torch.cat(states) for states in zip(*finals, strict=True)]  # [L*D, B, H]
    if lengths is not None:
        # A row without steps keeps its state; onnxruntime (1.32) gives zeros for it.
        empty = (lengths == 0)[:, None]  # [B, 1]
        first = (part for part in request.state if part is not None)
        last = [torch.where(empty, given, after) for given, after in zip(first, last, strict=True)]
    if real is not None and request.padding_value != 0:
        x = torch.where(real, x, torch.full_like(x, request.padding_value))
    return Result(x, RNNState(*last))


def _node(request: Request, x: Tensor, layer: int) -> Node:
    d, lengths = request.descriptor, request.lengths
    rows = slice(layer * d.num_directions, (layer + 1) * d.num_directions)
    h, c = request.state
    w, r, b = pack(d, request.weights[rows])
    return Node(
        operator=OPERATORS[d.cell],
        attributes=attributes_of(d),
        x=x,
        w=w,
        r=r,
        b=b,
        lengths=None if lengths is None else lengths.to(torch.int32),
        h=h[rows],
        c=None if c is None else c[rows],
    )
