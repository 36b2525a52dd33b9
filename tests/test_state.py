"""RNNState: accepted forms, gradients of the given shape, and its methods."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from cases import CELLS
from compare import assert_bitwise, assert_same

from rnncompat import InvalidValueError, RNNDescriptor, RNNState, RNNWeights, final_output, rnn_forward

X = torch.randn(4, 5, 2, dtype=torch.float64)


def network(cell, **options):
    descriptor = RNNDescriptor(cell, 2, 3, **options)
    return descriptor, RNNWeights.init(descriptor, dtype=torch.float64)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        (1, (3,)),
        (1, (1, 3)),
        (1, (5, 3)),
        (1, (1, 1, 3)),
        (1, (1, 5, 3)),
        (2, (3,)),
        (2, (1, 3)),
        (2, (2, 1, 3)),
    ],
)
def test_a_state_is_broadcast_and_its_gradient_has_its_own_shape(cell, layers, shape):
    net = network(cell, num_layers=layers)
    given_state = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    full = given_state.detach().expand(layers, 5, 3).clone().requires_grad_()
    wrap = (lambda h: (h, h)) if cell == "lstm" else (lambda h: h)
    output, _ = rnn_forward(*net, X, wrap(given_state))
    expected, _ = rnn_forward(*net, X, wrap(full))
    assert_bitwise(expected, output)
    (gradient,) = torch.autograd.grad((output**2).sum(), given_state)
    (full_gradient,) = torch.autograd.grad((expected**2).sum(), full)
    assert gradient.shape == shape
    assert_same(full_gradient.sum_to_size(shape), gradient)


def test_no_cell_state_means_zeros():
    net = network("lstm")
    h = torch.randn(1, 5, 3, dtype=torch.float64)
    assert_bitwise(rnn_forward(*net, X, (h, torch.zeros_like(h))), rnn_forward(*net, X, (h, None)))


@pytest.mark.parametrize("gaps", ["lengths", "mask"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("cell", "size"), [*((cell, 3) for cell in CELLS), ("lstm", 1)])
def test_final_output_is_the_true_end_of_every_direction(cell, size, bidirectional, gaps):
    net = network(cell, num_layers=2, bidirectional=bidirectional, proj_size=size % 3)
    lengths = torch.tensor([4, 1, 0, 3, 2])
    real = torch.arange(4)[:, None] < lengths
    options = {"lengths": lengths} if gaps == "lengths" else {"mask": real.flip(0)}  # padded on the left
    output, state = rnn_forward(*net, X, **options)
    final = final_output(net[0], state)
    for b, n in enumerate(lengths):
        first, last = (0, n - 1) if gaps == "lengths" else (4 - n, 3)
        ends = [output[last, b, :size], output[first, b, size:]] if n else [torch.zeros_like(final[b])]
        assert_bitwise(torch.cat(ends), final[b])


def test_final_output_takes_one_state():
    net = network("lstm", num_layers=2, bidirectional=True)
    _, single = rnn_forward(*net, X[:, 0])
    assert final_output(net[0], single).shape == (6,)
    _, states = rnn_forward(*net, X, return_states="all")
    with pytest.raises(InvalidValueError, match="choose a step first"):
        final_output(net[0], states)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_the_state_of_a_layer_and_direction_is_found_by_its_name(cell, bidirectional):
    """Layers run one by one, each with its own part of the state, are the network."""
    descriptor, weights = network(cell, num_layers=3, bidirectional=bidirectional)
    kinds = 2 if descriptor.has_cell_state else 1
    rows = descriptor.num_pseudo_layers
    start = RNNState(*(torch.randn(rows, 5, 3, dtype=torch.float64) for _ in range(kinds)))
    expected, after = rnn_forward(descriptor, weights, X, start)
    y = X
    for layer in range(3):
        single = RNNDescriptor(cell, y.shape[-1], 3, bidirectional=bidirectional)
        own = {name: weights[name.replace("l0", f"l{layer}")] for name, _ in RNNWeights.init(single).named()}
        places = [descriptor.pseudo_layer(layer, d) for d in range(descriptor.num_directions)]
        begin = RNNState(*(s[places] for s in start if s is not None))
        y, end = rnn_forward(single, RNNWeights.from_named(single, own), y, begin)
        assert_same(tuple(None if s is None else s[places] for s in after), tuple(end))
    assert_same(expected, y)


def test_methods():
    descriptor = RNNDescriptor("lstm", 2, 3, num_layers=2, proj_size=1)
    state = RNNState(torch.randn(2, 5, 1, requires_grad=True), torch.randn(2, 5, 3, requires_grad=True))
    h, c = state
    assert h is state.h
    assert c is state.c
    assert not state.detach().h.requires_grad
    assert not state.detach().c.requires_grad
    assert state.clone().h.data_ptr() != h.data_ptr()
    assert state.to(dtype=torch.float64).c.dtype == torch.float64
    assert_bitwise((h[:, [3, 1]], c[:, [3, 1]]), tuple(state.index_select(torch.tensor([3, 1]))))
    joined = RNNState.cat([state.index_select([0]), state.index_select([1, 2, 3, 4])])
    assert_bitwise(tuple(state), tuple(joined))
    zeros = RNNState.zeros(descriptor, 5)
    assert zeros.h.shape == (2, 5, 1)
    assert zeros.c.shape == (2, 5, 3)
    assert RNNState.zeros(RNNDescriptor("gru", 2, 3), 5).c is None
    assert_bitwise(tuple(state), tuple(copy.deepcopy(state.detach())))
    assert_bitwise(tuple(state.detach()), tuple(pickle.loads(pickle.dumps(state.detach()))))  # noqa: S301  # ours


@pytest.mark.parametrize("rows", [[1, 3], [False, True, False, True, False], torch.tensor([3, 1])])
def test_reset_selects_rows_so_that_nothing_of_the_old_state_is_left(rows):
    state = RNNState(torch.full((2, 5, 3), float("nan")), torch.full((2, 5, 3), float("inf")))
    fresh = state.reset(rows)
    assert (fresh.h[:, [1, 3]] == 0).all()
    assert (fresh.c[:, [1, 3]] == 0).all()
    assert fresh.h[:, [0, 2, 4]].isnan().all()


def test_an_unbatched_state_has_no_rows():
    with pytest.raises(InvalidValueError, match="no rows"):
        RNNState(torch.zeros(1, 3)).reset([0])
    with pytest.raises(InvalidValueError, match="at least one"):
        RNNState.cat([])
    with pytest.raises(InvalidValueError, match="some with c and some without"):
        RNNState.cat([RNNState(torch.zeros(1, 1, 3)), RNNState(torch.zeros(1, 1, 3), torch.zeros(1, 1, 3))])


def test_states_of_every_step_are_told_to_choose_one():
    every = RNNState(torch.zeros(5, 1, 3, 2))
    for act in (lambda: every.index_select([0]), lambda: every.reset([0]), lambda: RNNState.cat([every])):
        with pytest.raises(ValueError, match=r"choose a step first: RNNState\(state.h\[t\]"):
            act()
