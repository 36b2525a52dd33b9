"""Weights of a layer as ONNX's nodes have them, for models that are exported and for arrays that are converted.

Gate orders are those of ONNX's operators specification (LSTM i o f c, GRU z r h).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..descriptor import Cell, RNNDescriptor
from ..weights import LayerWeights

__all__ = ["GATES", "OPERATORS", "NodeWeights", "attributes_of", "pack"]

OPERATORS = {Cell.LSTM: "LSTM", Cell.GRU: "GRU", Cell.RNN_TANH: "RNN", Cell.RNN_RELU: "RNN"}

GATES = {Cell.LSTM: (0, 3, 1, 2), Cell.GRU: (1, 0, 2), Cell.RNN_TANH: (0,), Cell.RNN_RELU: (0,)}
"""Which of our gates stands at each place of ONNX's order."""


class NodeWeights(NamedTuple):
    """The weights of one node.

    Attributes:
        w: ``[D, G*H, I]``.
        r: ``[D, G*H, H]``.
        b: ``[D, 2*G*H]``.
    """

    w: Tensor
    r: Tensor
    b: Tensor


def pack(d: RNNDescriptor, directions: Sequence[LayerWeights]) -> NodeWeights:
    """The weights of one layer, forward and perhaps backward, in ONNX's layout; skip input is the unit matrix."""
    return NodeWeights(
        w=torch.stack([_reorder(d, _input_matrix(d, own)) for own in directions]),
        r=torch.stack([_reorder(d, own.weight_hh) for own in directions]),
        b=torch.stack(
            [torch.cat([_bias(d, own, own.bias_ih), _bias(d, own, own.bias_hh)]) for own in directions]
        ),
    )


def attributes_of(d: RNNDescriptor) -> dict[str, object]:
    """The attributes of a layer's node; what they leave out is ONNX's default."""
    attributes: dict[str, object] = {
        "hidden_size": d.hidden_size,
        "direction": "bidirectional" if d.bidirectional else "forward",
    }
    if d.cell is Cell.GRU:
        attributes["linear_before_reset"] = 1
    if d.cell is Cell.RNN_RELU:
        attributes["activations"] = ["Relu"] * d.num_directions
    return attributes


def _reorder(d: RNNDescriptor, gates: Tensor) -> Tensor:
    """``[G*H, ...]`` in ONNX's order of gates."""
    h = d.hidden_size
    return torch.cat([gates[gate * h : (gate + 1) * h] for gate in GATES[d.cell]])


def _input_matrix(d: RNNDescriptor, own: LayerWeights) -> Tensor:
    """``[G*H, in]``; skip input is the unit matrix for every gate."""
    if own.weight_ih is not None:
        return own.weight_ih
    like = own.weight_hh
    return torch.eye(d.hidden_size, dtype=like.dtype, device=like.device).repeat(d.gates, 1)


def _bias(d: RNNDescriptor, own: LayerWeights, bias: Tensor | None) -> Tensor:
    """``[G*H]`` in ONNX's order of gates, always given: runtimes were wrong without (onnxruntime 3893)."""
    return torch.zeros_like(own.weight_hh[:, 0]) if bias is None else _reorder(d, bias)
