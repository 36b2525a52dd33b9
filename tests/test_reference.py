"""Every backend against an independent NumPy recursion and against torch.nn, values and gradients."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from anywhere import BACKENDS, rnn_forward
from cases import BIASES, CELLS, Case, cases, examples
from compare import assert_same
from hypothesis import given
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rnncompat import RNNDescriptor, RNNState, RNNWeights


@pytest.mark.parametrize("gradients", [True, False], ids=["with gradients", "without"])
@pytest.mark.parametrize("backend", BACKENDS)
@given(case=cases())
@examples(250)
def test_every_option_equals_the_numpy_recursion(backend, gradients, case):
    with torch.set_grad_enabled(gradients):
        run = partial(rnn_forward, case.descriptor, case.weights, case.x, case.state, backend=backend)
        output, state = run(return_states="all", **case.options)
        short, last = run(**case.options)
    assert_same(output.detach(), short.detach())
    y, h, c, all_h, all_c = case.expected()
    assert_same(y, output.detach())
    assert_same(all_h, state.h.detach())
    assert_same(h, last.h.detach())
    if case.descriptor.has_cell_state:
        assert_same(all_c, state.c.detach())
        assert_same(c, last.c.detach())
    else:
        assert state.c is None
        assert last.c is None


MODULES = {
    "rnn_relu": (torch.nn.RNN, {"nonlinearity": "relu"}),
    "rnn_tanh": (torch.nn.RNN, {}),
    "lstm": (torch.nn.LSTM, {}),
    "gru": (torch.nn.GRU, {}),
}


def torch_module(cell, *sizes, **options):
    module, extra = MODULES[cell]
    return module(*sizes, **extra, **options).double()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("cell", "proj"), [*((cell, 0) for cell in CELLS), ("lstm", 2)])
def test_torch_nn_agrees_in_values_and_every_gradient(
    cell, proj, layers, bidirectional, bias, packed, backend
):
    options = {"num_layers": layers, "bidirectional": bidirectional}
    module = torch_module(cell, 3, 4, bias=bias, **options, **({"proj_size": proj} if proj else {}))
    descriptor = RNNDescriptor(cell, 3, 4, bias=bias, proj_size=proj, **options)
    weights = RNNWeights.from_named(descriptor, dict(module.named_parameters()))
    x = torch.randn(7, 5, 3, dtype=torch.float64, requires_grad=True)
    rows = (descriptor.num_pseudo_layers, 5)
    h = torch.randn(*rows, proj or 4, dtype=torch.float64, requires_grad=True)
    c = torch.randn(*rows, 4, dtype=torch.float64, requires_grad=True)
    lengths = [7, 1, 4, 4, 2] if packed else None
    given_state = (h, c) if cell == "lstm" else h
    inputs = [x, h, *([c] if cell == "lstm" else []), *module.parameters()]

    expected, expected_state = run_torch(module, x, given_state, lengths)
    actual, state = rnn_forward(descriptor, weights, x, given_state, lengths=lengths, backend=backend)

    actual_state = tuple(state) if cell == "lstm" else state.h
    assert_same(expected, actual)
    assert_same(expected_state, actual_state)
    cotangents = [torch.randn_like(t) for t in (expected, *flat(expected_state))]
    assert_same(
        torch.autograd.grad([expected, *flat(expected_state)], inputs, cotangents),
        torch.autograd.grad([actual, *flat(actual_state)], inputs, cotangents),
    )


def flat(state):
    return state if isinstance(state, tuple) else (state,)


def run_torch(module, x, state, lengths):
    if lengths is None:
        return module(x, state)
    output, state = module(pack_padded_sequence(x, lengths, enforce_sorted=False), state)
    return pad_packed_sequence(output, total_length=len(x))[0], state


def test_bias_modes_differ_for_the_gru_only_and_hold_their_own_parameters():
    for cell in CELLS:
        outputs = {}
        for bias in BIASES:
            descriptor = RNNDescriptor(cell, 3, 4, bias=bias)
            weights = RNNWeights(descriptor, torch.ones(RNNWeights.init(descriptor).flat.shape))
            outputs[bias] = rnn_forward(descriptor, weights, torch.linspace(-1, 1, 18).view(3, 2, 3))[0]
        same = torch.allclose(outputs["input"], outputs["recurrent"])
        assert same == (cell != "gru")
        assert not torch.allclose(outputs["double"], outputs["none"])


@pytest.mark.parametrize("clip", [(-0.2, 0.3), (-0.2, float("inf"))])
def test_clip_stores_the_cell_unclipped_and_clips_it_on_use(clip):
    case = Case(RNNDescriptor("lstm", 2, 3, cell_clip=clip), 5, 4, "none", False, "zeros", True, 0.0, 1)
    with torch.no_grad():
        case.weights["bias_ih_l0"].add_(2)
    _, state = rnn_forward(case.descriptor, case.weights, case.x, RNNState(case.h, case.c * 9))
    _, same = rnn_forward(case.descriptor, case.weights, case.x, RNNState(case.h, (case.c * 9).clamp(*clip)))
    assert state.c.max() > 0.3
    assert_same(state, same)
