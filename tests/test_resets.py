"""Resets: episodes inside a sequence are runs of their own, and no gradient crosses a boundary."""

from __future__ import annotations

import pytest
import torch
from cases import CELLS
from compare import assert_bitwise, assert_same

from rnncompat import RNNDescriptor, RNNState, RNNWeights, rnn_forward


def network(cell, **options):
    descriptor = RNNDescriptor(cell, 2, 3, **options)
    return descriptor, RNNWeights.init(descriptor, dtype=torch.float64)


def flags(steps, batch, *places):
    resets = torch.zeros(steps, batch, dtype=torch.bool)
    for t, b in places:
        resets[t, b] = True
    return resets


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_a_reset_makes_two_runs(cell, bidirectional):
    net = network(cell, num_layers=2, bidirectional=bidirectional)
    x = torch.randn(7, 1, 2, dtype=torch.float64)
    output, state = rnn_forward(*net, x, resets=flags(7, 1, (3, 0)))
    first, begin = rnn_forward(*net, x[:3])
    second, end = rnn_forward(*net, x[3:])
    assert_same(torch.cat([first, second]), output, 1e-12)
    # Forward ends with the second episode, backward with the first.
    directions = net[0].num_directions
    for k in range(net[0].num_pseudo_layers):
        assert_same((begin if k % directions else end).h[k], state.h[k], 1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_no_gradient_crosses_a_reset(bidirectional):
    net = network("gru", num_layers=1, bidirectional=bidirectional)
    x = torch.randn(6, 2, 2, dtype=torch.float64, requires_grad=True)
    output, _ = rnn_forward(*net, x, resets=flags(6, 2, (3, 0)))
    (dx,) = torch.autograd.grad(output[3:, 0].sum(), x, retain_graph=True)
    assert not dx[:3].any()
    assert dx[3:, 0].all()
    (dx,) = torch.autograd.grad(output[3:, 1].sum(), x)
    assert dx[:3, 1].all()


def test_a_reset_selects_so_that_a_runaway_state_does_not_leak():
    net = network("rnn_relu")
    x = torch.randn(4, 1, 2, dtype=torch.float64)
    state = torch.full((1, 1, 3), float("nan"), dtype=torch.float64)
    output, _ = rnn_forward(*net, x, state, resets=flags(4, 1, (0, 0)))
    assert_bitwise(rnn_forward(*net, x)[0], output)
    (gradient,) = torch.autograd.grad(output.sum(), net[1].flat)
    assert gradient.isfinite().all()


def test_reset_at_the_first_real_step_replaces_forward_and_leaves_backward():
    net = network("lstm", bidirectional=True)
    x = torch.randn(5, 1, 2, dtype=torch.float64)
    state = RNNState(torch.randn(2, 1, 3).double(), torch.randn(2, 1, 3).double())
    mask = torch.tensor([False, True, True, False, True])[:, None]
    output, after = rnn_forward(*net, x, state, mask=mask, resets=flags(5, 1, (0, 0)))
    fresh_forward = RNNState(*(torch.stack([torch.zeros_like(s[0]), s[1]]) for s in state))
    expected, end = rnn_forward(*net, x, fresh_forward, mask=mask)
    assert_same(expected, output)
    assert_same(tuple(end), tuple(after))


def test_a_reset_on_a_masked_step_waits_and_one_past_the_end_is_ignored():
    net = network("gru", bidirectional=True)
    x = torch.randn(6, 1, 2, dtype=torch.float64)
    mask = torch.tensor([True, True, False, True, False, False])[:, None]
    waiting = rnn_forward(*net, x, mask=mask, resets=flags(6, 1, (2, 0), (5, 0)))
    acting = rnn_forward(*net, x, mask=mask, resets=flags(6, 1, (3, 0)))
    assert_bitwise(acting, waiting)


def test_all_states_carry_the_old_state_until_the_waiting_reset_acts():
    net = network("rnn_tanh")
    x = torch.randn(4, 1, 2, dtype=torch.float64)
    mask = torch.tensor([True, False, False, True])[:, None]
    _, states = rnn_forward(*net, x, mask=mask, resets=flags(4, 1, (1, 0)), return_states="all")
    assert_bitwise(states.h[0], states.h[1])
    assert_bitwise(states.h[0], states.h[2])
    assert_same(rnn_forward(*net, x[3:])[1].h, states.h[3])


def test_reset_to_initial_sums_the_gradient_over_every_restart():
    net = network("lstm")
    x = torch.randn(6, 2, 2, dtype=torch.float64)
    h = torch.randn(1, 2, 3, dtype=torch.float64, requires_grad=True)
    c = torch.randn(1, 2, 3, dtype=torch.float64, requires_grad=True)
    resets = torch.zeros(6, 2, dtype=torch.bool)
    resets[[2, 4]] = True
    output, _ = rnn_forward(*net, x, (h, c), resets=resets, reset_to="initial")
    pieces = [rnn_forward(*net, part, (h, c))[0] for part in x.split(2)]
    assert_same(torch.cat(pieces), output)
    assert_same(
        torch.autograd.grad(sum((p**2).sum() for p in pieces), [h, c]),
        torch.autograd.grad((output**2).sum(), [h, c]),
    )
