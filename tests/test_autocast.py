"""Autocast: one rule for the four cells, on whatever way a call takes."""

from __future__ import annotations

import pytest
import torch
from compare import assert_bitwise

import rnncompat
from rnncompat import RNNDescriptor, RNNState, RNNWeights, SequenceBatch, rnn_forward, rnn_step

T, B, I, H = 6, 3, 5, 4
CELLS = ["rnn_relu", "rnn_tanh", "lstm", "gru"]
BF16 = torch.bfloat16


@pytest.fixture(params=CELLS)
def descriptor(request):
    return RNNDescriptor(request.param, I, H, num_layers=2)


def given_state(descriptor, dtype=torch.float32):
    h = torch.randn(2, B, H, dtype=dtype)
    return RNNState(h, torch.randn(2, B, H, dtype=dtype) if descriptor.has_cell_state else None)


def leaves(result):
    output, state = result
    return [output, *(s for s in state if s is not None)]


@pytest.mark.parametrize(
    "options", [{}, {"lengths": [6, 0, 4]}, {"resets": torch.ones(T, B, dtype=torch.bool)}], ids=str
)
def test_a_call_computes_in_the_dtype_of_autocast(descriptor, options):
    weights = RNNWeights.init(descriptor)
    x, state = torch.randn(T, B, I), given_state(descriptor)
    with torch.autocast("cpu", dtype=BF16):
        found = leaves(rnn_forward(descriptor, weights, x, state, **options))
    expected = leaves(
        rnn_forward(descriptor, weights.to(dtype=BF16), x.to(BF16), state.to(dtype=BF16), **options)
    )
    assert [t.dtype for t in found] == [BF16] * len(found)
    assert_bitwise(expected, found)


@pytest.mark.parametrize(
    "dtypes", [(torch.float32, BF16), (BF16, torch.float32), (torch.float16, torch.float32)]
)
def test_given_dtypes_may_differ_under_autocast_and_not_without(descriptor, dtypes):
    weights = RNNWeights.init(descriptor)
    x, state = torch.randn(T, B, I).to(dtypes[0]), given_state(descriptor, dtypes[1])
    with pytest.raises(TypeError, match=r"torch\.\w+ on cpu, but .*torch\.\w+ on cpu"):
        rnn_forward(descriptor, weights, x, state)
    with torch.autocast("cpu", dtype=BF16):
        output, after = rnn_forward(descriptor, weights, x, state)
        y, _ = rnn_step(descriptor, weights, x[0], state)
    assert (output.dtype, after.h.dtype, y.dtype) == (BF16, BF16, BF16)


def test_a_bfloat16_network_names_a_float32_state(descriptor):
    weights = RNNWeights.init(descriptor, dtype=BF16)
    x, state = torch.randn(T, B, I, dtype=BF16), given_state(descriptor)
    for call, values in ((rnn_forward, x), (rnn_step, x[0])):
        with pytest.raises(TypeError, match=r"state.h is torch.float32 on cpu.*torch.bfloat16 on cpu"):
            call(descriptor, weights, values, state)
        found = call(descriptor, weights, values, state.to(dtype=BF16))
        assert {t.dtype for t in leaves(found)} == {BF16}


def test_gradients_come_back_in_the_dtype_of_their_leaf(descriptor):
    flat = RNNWeights.init(descriptor).flat
    x, h = torch.randn(T, B, I, requires_grad=True), torch.randn(2, B, H, requires_grad=True)

    def gradients(flat_used, x_used, h_used):
        state = (h_used, None) if descriptor.has_cell_state else h_used
        output, _ = rnn_forward(descriptor, RNNWeights(descriptor, flat_used), x_used, state)
        return torch.autograd.grad(output.float().sum(), [flat, x, h])

    with torch.autocast("cpu", dtype=BF16):
        found = gradients(flat, x, h)
    assert_bitwise(gradients(flat.to(BF16), x.to(BF16), h.to(BF16)), found)


def test_float64_stays_float64(descriptor):
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    x = torch.randn(T, B, I, dtype=torch.float64)
    with torch.autocast("cpu", dtype=BF16):
        found = rnn_forward(descriptor, weights, x)
    assert_bitwise(leaves(rnn_forward(descriptor, weights, x)), leaves(found))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_modules_and_every_kind_of_input(kind):
    module = getattr(rnncompat, kind)(I, H)
    x = torch.randn(T, B, I)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, [6, 4, 1])
    with torch.autocast("cpu", dtype=BF16):
        assert module(x)[0].dtype is BF16
        assert module(packed)[0].data.dtype is BF16
        assert module(list(x.unbind(1)))[0][0].dtype is BF16
        assert module(SequenceBatch.from_padded(x, [6, 0, 1]))[0].data.dtype is BF16
        assert module.step(x[0])[0].dtype is BF16
    with torch.autocast("cpu", dtype=BF16, enabled=False):
        assert module(x)[0].dtype is torch.float32


@pytest.mark.parametrize("options", [{}, {"lengths": [6, 0, 4]}], ids=["dense", "lengths"])
def test_a_backward_pass_inside_autocast_is_the_one_outside(descriptor, options):
    weights = RNNWeights.init(descriptor)
    x = torch.randn(T, B, I, requires_grad=True)

    def loss():
        return rnn_forward(descriptor, weights, x, **options)[0].float().square().sum()

    with torch.autocast("cpu", dtype=BF16):
        inside = torch.autograd.grad(loss(), [weights.flat, x])
        outside = loss()
    assert_bitwise(torch.autograd.grad(outside, [weights.flat, x]), inside)
