"""Dropout between layers: torch's stream, selected away, only in training."""

from __future__ import annotations

import pytest
import torch
from compare import assert_bitwise, assert_same
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from rnncompat import RNNDescriptor, RNNWeights, rnn_forward


def network(p, **options):
    descriptor = RNNDescriptor("lstm", 2, 4, num_layers=3, dropout=p, **options)
    return descriptor, RNNWeights.init(descriptor, dtype=torch.float64)


def seeded(function, *args, **options):
    torch.manual_seed(7)
    return function(*args, **options)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_seed_gives_the_same_bits_twice_and_those_of_torch_nn(bidirectional):
    net = network(0.4, bidirectional=bidirectional)
    x = torch.randn(6, 5, 2, dtype=torch.float64)
    module = torch.nn.LSTM(2, 4, 3, dropout=0.4, bidirectional=bidirectional).double()
    module.load_state_dict(dict(net[1].named()))
    output, _ = seeded(rnn_forward, *net, x, training=True)
    again, _ = seeded(rnn_forward, *net, x, training=True)
    assert_bitwise(output, again)
    assert_same(seeded(module, x)[0], output)
    assert not torch.equal(output, rnn_forward(*net, x, training=True)[0])


def test_it_acts_only_in_training():
    net = network(0.4)
    x = torch.randn(6, 5, 2, dtype=torch.float64)
    plain = RNNDescriptor("lstm", 2, 4, num_layers=3)
    assert_bitwise(rnn_forward(plain, net[1], x), rnn_forward(*net, x))


def test_it_is_the_mask_between_layers_and_nowhere_else():
    net = network(0.5)
    x = torch.randn(6, 5, 2, dtype=torch.float64)
    output, state = seeded(rnn_forward, *net, x, training=True)
    torch.manual_seed(7)
    expected, states = x, []
    for layer in range(3):
        if layer:
            expected = expected * F.dropout(torch.ones_like(expected), 0.5)
        single = RNNDescriptor("lstm", expected.shape[-1], 4)
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = RNNWeights.from_named(single, {f"{n}_l0": net[1][f"{n}_l{layer}"] for n in names})
        expected, after = rnn_forward(single, weights, expected)
        states.append(after.h)
    assert_same(expected, output)
    assert_same(torch.cat(states), state.h)


def test_all_dropped_selects_zeros_even_of_infinities():
    descriptor = RNNDescriptor("rnn_relu", 2, 3, num_layers=2, dropout=1.0)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    x = torch.full((3, 2, 2), float("inf"), dtype=torch.float64)
    output, _ = rnn_forward(descriptor, weights, x, training=True)
    assert output.isfinite().all()


def test_activation_checkpointing_recomputes_the_same_masks():
    net = network(0.5)
    x = torch.randn(6, 5, 2, dtype=torch.float64)

    def gradient(run):
        leaf = x.clone().requires_grad_()
        torch.manual_seed(3)
        (result,) = torch.autograd.grad(run(leaf).sum(), leaf)
        return result

    def forward(leaf):
        return rnn_forward(*net, leaf, training=True)[0]

    assert_bitwise(gradient(forward), gradient(lambda leaf: checkpoint(forward, leaf, use_reentrant=False)))
