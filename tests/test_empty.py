"""T = 0, B = 0 and length 0 work forward and backward, for every cell and option."""

from __future__ import annotations

import pytest
import torch
from anywhere import BACKENDS, rnn_forward
from cases import CELLS
from compare import assert_bitwise

from rnncompat import RNNDescriptor, RNNState, RNNWeights


@pytest.mark.parametrize("return_states", ["last", "all"])
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "mask-resets-dropout"])
@pytest.mark.parametrize(("steps", "batch"), [(0, 3), (4, 0), (0, 0)])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_input(backend, cell, bidirectional, steps, batch, extras, return_states):
    descriptor = RNNDescriptor(cell, 2, 5, num_layers=2, bidirectional=bidirectional, dropout=0.5)
    weights = RNNWeights.init(descriptor)
    x = torch.randn(steps, batch, 2, requires_grad=True)
    h = torch.randn(descriptor.num_pseudo_layers, batch, 5, requires_grad=True)
    flags = torch.ones(steps, batch, dtype=torch.bool)
    options = {"mask": ~flags, "resets": flags, "training": True} if extras else {}
    state = RNNState(h) if cell != "lstm" else (h, None)
    output, after = rnn_forward(
        descriptor, weights, x, state, return_states=return_states, backend=backend, **options
    )
    assert output.shape == (steps, batch, descriptor.output_size)
    lead = (steps,) if return_states == "all" else ()
    assert after.h.shape == (*lead, descriptor.num_pseudo_layers, batch, 5)
    dx, dw, dh = torch.autograd.grad(output.sum() + after.h.sum(), [x, weights.flat, h])
    assert dx.shape == x.shape
    assert not dw.any()
    if return_states == "last" and not steps:
        assert_bitwise(h, after.h)
        assert_bitwise(torch.ones_like(h), dh)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_of_empty_rows(backend, cell, bidirectional):
    """Every length is 0 while there are steps: the weights see nothing, the state passes through."""
    descriptor = RNNDescriptor(cell, 2, 5, num_layers=2, bidirectional=bidirectional)
    weights = RNNWeights.init(descriptor)
    x = torch.full((4, 3, 2), float("nan"), requires_grad=True)
    h = torch.randn(descriptor.num_pseudo_layers, 3, 5, requires_grad=True)
    state = (h, None) if descriptor.has_cell_state else h
    output, after = rnn_forward(descriptor, weights, x, state, lengths=[0, 0, 0], backend=backend)
    assert not output.any()
    assert_bitwise(h, after.h)
    dx, dw, dh = torch.autograd.grad(output.sum() + after.h.sum(), [x, weights.flat, h])
    assert not dx.any()
    assert not dw.any()
    assert_bitwise(torch.ones_like(h), dh)


def test_no_steps_draw_no_random_numbers():
    descriptor = RNNDescriptor("gru", 2, 3, num_layers=2, dropout=0.5)
    weights = RNNWeights.init(descriptor)
    before = torch.get_rng_state()
    rnn_forward(descriptor, weights, torch.zeros(0, 2, 2), training=True)
    assert torch.equal(before, torch.get_rng_state())
