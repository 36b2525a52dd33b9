"""Two biases a layer, one, or none: what one format has and another lacks."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..descriptor import Bias, Cell, RNNDescriptor
from ..errors import UnsupportedError
from ..layout import layout_of
from ..weights import LayerWeights, RNNWeights

__all__ = ["one_bias", "said_both", "said_one", "with_both_biases"]


def one_bias(descriptor: RNNDescriptor, layer: LayerWeights, where: str, destination: str) -> Tensor:
    """The one bias ``[G*H]`` on the input side that does what the biases of *layer* do; zeros if it has none.

    Args:
        descriptor: the network.
        layer: the weights of one pseudo-layer.
        where: its name, for the refusal.
        destination: the format, as it reads inside a sentence.

    Raises:
        UnsupportedError: a GRU's recurrent bias of the new gate, inside the reset product, is not zero.
    """
    if descriptor.cell is Cell.GRU and layer.bias_hh is not None:
        inside = layer.bias_hh[2 * descriptor.hidden_size :]
        if bool((inside != 0).any()):
            raise UnsupportedError(
                f"bias_hh of {where} is not zero at the new gate, where r multiplies it; {destination} has one "
                "bias, outside that product, and no value of it does the same."
            )
    present = [bias for bias in (layer.bias_ih, layer.bias_hh) if bias is not None]
    return torch.stack(present).sum(0) if present else layer.weight_hh.new_zeros(len(layer.weight_hh))


def said_one(bias: Bias) -> tuple[str, ...]:
    """The entry of ``done`` for biases that became one on the input side."""
    return {
        Bias.DOUBLE: ("bias_ih + bias_hh became one bias",),
        Bias.INPUT: (),
        Bias.RECURRENT: ("bias_hh became the one bias",),
        Bias.NONE: ("added a bias of zeros",),
    }[bias]


def with_both_biases(weights: RNNWeights) -> RNNWeights:
    """A copy with both biases, without gradients: zeros for each that the network has not."""
    descriptor = replace(weights.descriptor, bias=Bias.DOUBLE, dropout=0.0)
    complete = RNNWeights(descriptor, weights.flat.detach().new_zeros(layout_of(descriptor).size))
    for name, value in weights.named():
        complete[name].copy_(value)
    return complete


def said_both(bias: Bias) -> tuple[str, ...]:
    """The entry of ``done`` for a bias added as zeros."""
    return {
        Bias.DOUBLE: (),
        Bias.INPUT: ("added bias_hh of zeros",),
        Bias.RECURRENT: ("added bias_ih of zeros",),
        Bias.NONE: ("added bias_ih and bias_hh of zeros",),
    }[bias]
