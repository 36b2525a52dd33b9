"""A sequence in chunks is the whole, gradients across the borders included; any of its states starts the rest."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from anywhere import BACKENDS, rnn_forward
from cases import CELLS, cases, examples
from compare import assert_bitwise, assert_same
from hypothesis import given
from hypothesis import strategies as st

import rnncompat
from rnncompat import RNNDescriptor, RNNState, RNNWeights

TIGHT = 1e-12


def one_way(case):
    """*case* forward in time, with options that mean the same for a part as for the whole.

    A reset that waits for a real step is no part of a state, nor is the state that others restart from.
    """
    descriptor = replace(case.descriptor, bidirectional=False)
    case = replace(case, descriptor=descriptor, steps=case.steps + 1, reset_to="zeros")
    case.flags &= case.real
    return case


def both_ways(case):
    """*case* in both directions, without resets."""
    descriptor = replace(case.descriptor, bidirectional=True)
    return replace(case, descriptor=descriptor, steps=case.steps + 3, resets=False, given_state=True)


def part(case, begin, end):
    """The options of the steps from *begin* to *end*."""
    options = dict(case.options)
    options.update({name: options[name][begin:end] for name in ("mask", "resets") if name in options})
    if "lengths" in options:
        options["lengths"] = (options["lengths"] - begin).clamp(0, end - begin)
    return options


def directions(forward, backward):
    """The state of a layer whose directions have states of different places."""
    return RNNState(
        *(None if f is None else torch.stack([f[0], b[1]]) for f, b in zip(forward, backward, strict=True))
    )


def tensors(state):
    return [s for s in state if s is not None]


@pytest.mark.parametrize("backend", BACKENDS)
@given(case=cases(max_steps=8).map(one_way), borders=st.lists(st.integers(0, 9), max_size=3))
@examples(100)
def test_chunks_equal_the_whole_gradients_included(backend, case, borders):
    """Chunks of any lengths, empty ones too, with lengths, masks, resets and a given state."""
    d = case.descriptor
    x, h, c = (t.clone().requires_grad_() for t in (case.x, case.h, case.c))
    start = RNNState(h, c if d.has_cell_state else None) if case.given_state else None
    whole, final = rnn_forward(d, case.weights, x, start, backend=backend, **case.options)
    state, parts = start, []
    for begin, end in pairwise([0, *sorted(min(b, case.steps) for b in borders), case.steps]):
        y, state = rnn_forward(
            d, case.weights, x[begin:end], state, backend=backend, **part(case, begin, end)
        )
        parts.append(y)
    results = [[whole, *tensors(final)], [torch.cat(parts), *tensors(state)]]
    assert_same(*results, TIGHT)
    leaves = [x, case.weights.flat, *(() if start is None else tensors(start))]
    seeds = [torch.randn_like(t) for t in results[0]]
    totals = [sum((t * seed).sum() for t, seed in zip(r, seeds, strict=True)) for r in results]
    assert_same(*(torch.autograd.grad(total, leaves) for total in totals), TIGHT)


@pytest.mark.parametrize("backend", BACKENDS)
@given(case=cases(max_steps=6).map(one_way))
@examples(80)
def test_restarting_from_any_state_reproduces_the_rest(backend, case):
    d = case.descriptor
    run = [d, case.weights]
    output, states = rnn_forward(
        *run, case.x, case.state, return_states="all", backend=backend, **case.options
    )
    _, final = rnn_forward(*run, case.x, case.state, backend=backend, **case.options)
    for t in range(case.steps - 1):
        at_t = RNNState(*(None if s is None else s[t] for s in states))
        options = part(case, t + 1, case.steps)
        rest, end = rnn_forward(*run, case.x[t + 1 :], at_t, backend=backend, **options)
        assert_same(output[t + 1 :], rest, TIGHT)
        assert_same(tuple(final), tuple(end), TIGHT)


@given(case=cases(max_steps=5, max_layers=1).map(both_ways))
@examples(80)
def test_a_layer_in_both_directions_restarts_from_any_state_to_either_side(case):
    """Backward, the states of a step are those with which the steps before it go on."""
    d = case.descriptor
    output, states = rnn_forward(d, case.weights, case.x, case.state, return_states="all", **case.options)
    for t in range(case.steps):
        at_t = RNNState(*(None if s is None else s[t] for s in states))
        ahead, back = directions(at_t, case.state), directions(case.state, at_t)
        later, _ = rnn_forward(d, case.weights, case.x[t + 1 :], ahead, **part(case, t + 1, case.steps))
        earlier, _ = rnn_forward(d, case.weights, case.x[:t], back, **part(case, 0, t))
        assert_same(output[t + 1 :], later, TIGHT)
        assert_same(output[:t], earlier, TIGHT)


def network(cell):
    descriptor = RNNDescriptor(cell, 2, 3, num_layers=2)
    return descriptor, RNNWeights.init(descriptor, dtype=torch.float64)


@pytest.mark.parametrize("cell", CELLS)
def test_detached_chunks_go_on_alike_and_learn_alone(cell):
    """Truncated backpropagation: the values of the whole, each gradient that of a chunk from a constant state."""
    net = network(cell)
    x = torch.randn(9, 5, 2, dtype=torch.float64)
    whole, _ = rnn_forward(*net, x)
    state, parts = RNNState.zeros(net[0], 5, dtype=torch.float64), []
    earlier = []
    for chunk in x.split([2, 4, 3]):
        leaf = chunk.clone().requires_grad_()
        before = state.detach()
        assert not any(s.requires_grad for s in tensors(before))
        y, state = rnn_forward(*net, leaf, before)
        parts.append(y)
        found = torch.autograd.grad(
            (y**3).sum(), [leaf, net[1].flat, *earlier], retain_graph=True, allow_unused=True
        )
        fresh = RNNState(*(None if s is None else s.clone() for s in before))
        alone, _ = rnn_forward(*net, leaf, fresh)
        assert_bitwise(torch.autograd.grad((alone**3).sum(), [leaf, net[1].flat]), found[:2])
        assert found[2:] == (None,) * len(earlier)
        earlier.append(leaf)
    assert_same(whole, torch.cat(parts), TIGHT)


@pytest.mark.parametrize("cell", CELLS)
def test_a_state_that_is_not_detached_says_so_and_gives_no_wrong_gradient(cell):
    net = network(cell)
    x = torch.randn(4, 5, 2, dtype=torch.float64)
    y, state = rnn_forward(*net, x)
    y.sum().backward()
    y, _ = rnn_forward(*net, x, state)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_a_copy_in_the_middle_of_a_stream_goes_on_alike(kind):
    """The state is outside the module: copying both is all there is to it, and neither disturbs the other."""
    module = getattr(rnncompat, kind)(2, 3, 2, dtype=torch.float64)
    x = torch.randn(8, 5, 2, dtype=torch.float64)
    with torch.no_grad():
        _, state = module(x[:3])
        twin, twin_state = copy.deepcopy((module, state))
        expected = module(x[3:], state)
        module.weight_hh_l0.zero_()
        assert_bitwise(expected, twin(x[3:], twin_state))
        assert not torch.equal(module(x[3:], state)[0], expected[0])
