"""Every gradient against finite differences, over the same space as the values."""

from __future__ import annotations

import pytest
import torch
from anywhere import BACKENDS, rnn_forward
from cases import cases, examples
from hypothesis import given

from rnncompat import RNNState, RNNWeights


@pytest.mark.parametrize("backend", BACKENDS)
@given(case=cases(max_steps=4, max_layers=2))
@examples(60)
def test_gradcheck_over_all_options(backend, case):
    d = case.descriptor

    def run(x, flat, h, c):
        state = RNNState(h, c if d.has_cell_state else None)
        output, after = rnn_forward(
            d, RNNWeights(d, flat), x, state, return_states="all", backend=backend, **case.options
        )
        return (output, *(s for s in after if s is not None))

    # A direction with no cell state leaves c unused; gradcheck needs outputs that depend on some input.
    inputs = [t.detach().clone().requires_grad_() for t in (case.x, case.weights.flat, case.h, case.c)]
    if not d.has_cell_state:
        inputs[3].requires_grad_(False)
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


@given(cases(max_steps=5))
@examples(60)
def test_last_state_and_all_states_have_the_same_gradients(case):
    d = case.descriptor

    def gradients(which):
        x = case.x.clone().requires_grad_()
        output, after = rnn_forward(d, case.weights, x, case.state, return_states=which, **case.options)
        h = after.h if which == "last" else last_of(after.h, case)
        return torch.autograd.grad((output * 3).sum() + (h * h).sum(), [x, case.weights.flat])

    for one, other in zip(gradients("last"), gradients("all"), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def last_of(all_h, case):
    """The final state out of all: the last step forward, the first step backward; h0 where T = 0."""
    d = case.descriptor
    if not case.steps:
        return torch.zeros_like(case.h) if case.state is None else case.h
    ends = [all_h[0 if k % d.num_directions else -1, k] for k in range(d.num_pseudo_layers)]
    return torch.stack(ends)
