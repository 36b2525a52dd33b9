"""The layout in plain integers, and the flat buffer with its views."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from cases import descriptors
from compare import assert_bitwise, assert_same
from hypothesis import given

from rnncompat import InvalidTypeError, InvalidValueError, RNNDescriptor, RNNWeights, layout_of, rnn_forward


@given(descriptors())
def test_slots_tile_the_buffer_matrices_first(descriptor):
    layout = layout_of(descriptor)
    end = 0
    for slot in layout.slots:
        assert slot.offset == end
        end += slot.size
    assert end == layout.size
    kinds = [slot.kind.startswith("weight") for slot in layout.slots]
    assert kinds == sorted(kinds, reverse=True)
    assert len({slot.name for slot in layout.slots}) == len(layout.slots)


@given(descriptors())
def test_the_size_is_cudnns_formula(descriptor):
    """Source: the sizes that Knet and cuDNN give, per gate: matrices of every layer, then its biases."""
    d = descriptor
    rows = d.gates * d.hidden_size
    total = 0
    for layer in range(d.num_layers):
        inputs = d.layer_input_size(layer) if layer or d.input_mode.value == "linear" else 0
        biases = {"double": 2, "input": 1, "recurrent": 1, "none": 0}[d.bias.value]
        total += d.num_directions * (rows * (inputs + d.state_size + biases) + d.proj_size * d.hidden_size)
    assert layout_of(d).size == total


def test_known_offsets():
    """LSTM, I=3, H=2, two layers, both directions: the offsets of Knet's published example."""
    layout = layout_of(RNNDescriptor("lstm", 3, 2, num_layers=2, bidirectional=True))
    offset = {slot.name: slot.offset for slot in layout.slots}
    assert layout.size == 240
    assert [offset[n] for n in ("weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse")] == [0, 24, 40]
    assert [offset[n] for n in ("weight_ih_l1", "weight_hh_l1")] == [80, 112]
    assert [offset[n] for n in ("bias_ih_l0", "bias_hh_l0")] == [176, 184]
    assert offset["bias_hh_l1_reverse"] == 232
    for cell, size in (("rnn_relu", 14), ("rnn_tanh", 14), ("lstm", 56), ("gru", 42)):
        assert layout_of(RNNDescriptor(cell, 3, 2)).size == size


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"proj_size": 2}])
def test_initial_values_are_those_of_torch_nn_under_the_seed(options):
    torch.manual_seed(5)
    module = torch.nn.LSTM(3, 4, **options)
    descriptor = RNNDescriptor("lstm", 3, 4, **options)
    weights = RNNWeights.init(descriptor, generator=torch.Generator().manual_seed(5))
    assert [slot.name for slot in layout_of(descriptor).in_torch_order()] == list(module.state_dict())
    for name, parameter in module.named_parameters():
        assert_bitwise(parameter.detach(), weights[name].detach())
    assert weights.flat.is_leaf
    assert weights.flat.requires_grad


def test_views_and_buffer_are_one():
    weights = RNNWeights.init(RNNDescriptor("gru", 3, 2), dtype=torch.float64)
    with torch.no_grad():
        weights["bias_hh_l0"].fill_(3.0)
        weights.flat[0] = 7.0
    named = dict(weights.named())
    assert (named["bias_hh_l0"] == 3).all()
    assert named["weight_ih_l0"][0, 0] == 7
    with pytest.raises(InvalidValueError, match="'weight_ih_l0'"):
        weights["weight_ih"]


def test_from_named_is_the_inverse_of_named_and_differentiable():
    descriptor = RNNDescriptor("lstm", 3, 4, num_layers=2, bias="input", proj_size=2)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    named = {name: view.detach().clone().requires_grad_() for name, view in weights.named()}
    copied = RNNWeights.from_named(descriptor, named)
    assert_bitwise(weights.flat.detach(), copied.flat.detach())
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    gradients = torch.autograd.grad(rnn_forward(descriptor, copied, x)[0].sum(), list(named.values()))
    (flat,) = torch.autograd.grad(rnn_forward(descriptor, weights, x)[0].sum(), weights.flat)
    assert_same(flat, torch.cat([g.reshape(-1) for g in gradients]))


def test_to_moves_as_a_module_does():
    weights = RNNWeights.init(RNNDescriptor("gru", 3, 2))
    assert weights.to() is weights
    assert weights.to("cpu", torch.float32) is weights
    double = weights.to(dtype=torch.float64)
    assert double.flat.is_leaf
    assert double.flat.requires_grad
    assert_bitwise(weights.flat.detach(), double.to(dtype=torch.float32).flat.detach())
    frozen = RNNWeights(weights.descriptor, weights.flat.detach()).to(dtype=torch.float64)
    assert not frozen.flat.requires_grad


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))])  # noqa: S301  # ours
def test_copies_share_nothing(copied):
    weights = RNNWeights.init(RNNDescriptor("gru", 3, 2))
    other = copied(weights)
    assert_bitwise(weights.flat.detach(), other.flat.detach())
    assert other.descriptor == weights.descriptor
    assert other.flat.data_ptr() != weights.flat.data_ptr()
    assert "gru" in repr(other)


def test_wrong_buffers_are_refused():
    descriptor = RNNDescriptor("gru", 3, 2)
    with pytest.raises(InvalidValueError, match=r"flat is of shape \[41\]; expected shape \[42\]"):
        RNNWeights(descriptor, torch.zeros(41))
    with pytest.raises(InvalidTypeError, match="int64"):
        RNNWeights(descriptor, torch.zeros(42, dtype=torch.int64))
    with pytest.raises(InvalidTypeError, match="flat is a list"):
        RNNWeights(descriptor, [0.0])
    named = dict(RNNWeights.init(descriptor).named())
    with pytest.raises(InvalidValueError, match="named is"):
        RNNWeights.from_named(descriptor, {**named, "extra": torch.zeros(1)})
    with pytest.raises(InvalidValueError, match="weight_ih_l0 is of shape"):
        RNNWeights.from_named(descriptor, {**named, "weight_ih_l0": torch.zeros(3, 6)})
    with pytest.raises(InvalidTypeError, match="mixes"):
        RNNWeights.from_named(descriptor, {**named, "bias_ih_l0": torch.zeros(6).double()})


def test_with_flat_refuses_another_shape():
    weights = RNNWeights.init(RNNDescriptor("gru", 2, 3))
    with pytest.raises(ValueError, match=r"flat is of shape \[4\]; expected shape \[63\]"):
        weights.with_flat(torch.zeros(4))
