"""The hand-written kernels against plain operations: values, all gradients, second derivatives."""

from __future__ import annotations

import pytest
import torch
from cases import examples
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st

from rnncompat.backends import order
from rnncompat.backends.aten import hand
from rnncompat.backends.aten.hand_gru import GRU
from rnncompat.backends.aten.hand_lstm import LSTM
from rnncompat.backends.aten.hand_rnn import RNN_RELU, RNN_TANH
from rnncompat.weights import LayerWeights

KERNELS = {"rnn_relu": RNN_RELU, "rnn_tanh": RNN_TANH, "gru": GRU, "lstm": LSTM}


@st.composite
def layers(draw):
    """A kernel, an order, and its arguments as leaves."""
    kernel = KERNELS[draw(st.sampled_from(list(KERNELS)))]
    sizes = sorted(draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)), reverse=True)
    if draw(st.booleans()):
        sizes = [sizes[0]] * len(sizes)
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    lstm, hidden = kernel is LSTM, 5
    skip, proj = draw(st.booleans()), draw(st.booleans()) and lstm
    rows, inputs, out = kernel.cell.gates * hidden, hidden if skip else 3, 2 if proj else hidden

    def normal(*shape, wanted=True):
        if not wanted:
            return None
        return torch.randn(*shape, dtype=torch.float64, generator=random, requires_grad=True)

    a = hand.Arguments(
        x=normal(sum(sizes), inputs),
        weight_ih=normal(rows, inputs, wanted=not skip),
        weight_hh=normal(rows, out),
        bias_ih=normal(rows, wanted=draw(st.booleans())),
        bias_hh=normal(rows, wanted=draw(st.booleans())),
        weight_hr=normal(2, hidden, wanted=proj),
        h0=normal(sizes[0], out),
        c0=normal(sizes[0], hidden, wanted=lstm),
    )
    clip = draw(st.sampled_from([None, (-0.4, 0.6)])) if lstm else None
    return kernel, order.Order(sizes, draw(st.booleans())), a, clip


def run(kernel, walk, a, clip):
    weights = LayerWeights(a.weight_ih, a.weight_hh, a.bias_ih, a.bias_hh, a.weight_hr)
    start = (a.h0,) if a.c0 is None else (a.h0, a.c0)
    return hand.run_by_hand(kernel, a.x, weights, start, walk, clip)


@pytest.mark.parametrize("block", [1 << 22, 12], ids=["one block", "many blocks"])
@given(layers())
@examples(150)
def test_values_and_gradients(block, layer):
    kernel, walk, a, clip = layer
    leaves = [t for t in a if t is not None]
    order._BLOCK_NUMBERS, kept = block, order._BLOCK_NUMBERS
    try:
        outputs = run(kernel, walk, a, clip)
        expected = hand.plain(kernel.cell, a, walk, clip)
        assert_same(expected, outputs)
        with torch.no_grad():
            assert_same(outputs, run(kernel, walk, a, clip))
        cotangents = [torch.randn_like(o) for o in outputs]
        for used in ([0, 1], [0], [1]) if len(outputs) == 2 else ([0],):
            picked = [outputs[i] for i in used], [expected[i] for i in used], [cotangents[i] for i in used]
            actual = torch.autograd.grad(picked[0], leaves, picked[2], retain_graph=True, allow_unused=True)
            wanted = torch.autograd.grad(picked[1], leaves, picked[2], retain_graph=True, allow_unused=True)
            for w, g in zip(wanted, actual, strict=True):
                assert_same(torch.zeros_like(g) if w is None else w, g)
    finally:
        order._BLOCK_NUMBERS = kept


@given(layers())
@examples(40)
def test_second_derivatives_go_through_plain_operations(layer):
    kernel, walk, a, clip = layer
    leaves = [t for t in a if t is not None]

    def second(outputs):
        first = torch.autograd.grad(sum((o**2).sum() for o in outputs), leaves, create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in first), leaves)

    assert_same(second(hand.plain(kernel.cell, a, walk, clip)), second(run(kernel, walk, a, clip)), 1e-8)


def test_only_what_is_asked_for_is_computed():
    a = hand.Arguments(
        x=torch.randn(4, 3),
        weight_ih=torch.randn(5, 3),
        weight_hh=torch.randn(5, 5, requires_grad=True),
        bias_ih=None,
        bias_hh=None,
        weight_hr=None,
        h0=torch.randn(2, 5),
        c0=None,
    )
    (y,) = run(RNN_TANH, order.Order([2, 2], reverse=False), a, None)
    y.sum().backward()
    assert a.weight_hh.grad is not None
    assert a.x.grad is None
