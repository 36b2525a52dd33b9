"""Nothing in a step that is not real reaches an output, a state, a gradient, or another row."""

from __future__ import annotations

import pytest
import torch
from anywhere import BACKENDS, rnn_forward
from cases import CELLS, Case, cases, examples
from compare import assert_bitwise, assert_same
from hypothesis import assume, given

from rnncompat import RNNDescriptor, RNNState, RNNWeights


def run(case, x, state=None, backend="auto"):
    """Output, states and the gradients for x and the weights, which all must not change."""
    x = x.clone().requires_grad_()
    output, after = rnn_forward(
        case.descriptor, case.weights, x, state or case.state, backend=backend, **case.options
    )
    total = (output * output).sum() + sum((s * s).sum() for s in after if s is not None)
    dx, dw = torch.autograd.grad(total, [x, case.weights.flat])
    return [output.detach(), *(s.detach() for s in after if s is not None), dw], dx


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), 1e30])
@given(case=cases())
@examples(60)
def test_garbage_in_padding_changes_nothing(garbage, backend, case):
    assume(case.gaps != "none")
    clean = run(case, case.x.masked_fill(~case.real[..., None], 0.0), backend=backend)
    dirty = run(case, case.x.masked_fill(~case.real[..., None], garbage), backend=backend)
    assert_bitwise(clean, dirty)
    assert not dirty[1][~case.real].any()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_state_that_is_not_finite_stays_in_its_row(cell, bad):
    """A row of length 0, and a row that ran away, compute nothing that could reach the weights' gradient."""
    case = Case(RNNDescriptor(cell, 2, 3, num_layers=2), 5, 4, "lengths", False, "zeros", True, 0.0, 3)
    case.lengths = torch.tensor([5, 0, 2, 3])
    clean, _ = run(case, case.x)
    state = RNNState(case.h.clone(), case.c.clone() if case.descriptor.has_cell_state else None)
    state.h[:, 1] = bad
    if state.c is not None:
        state.c[:, 1] = bad
    x = case.x.clone().requires_grad_()
    output, after = rnn_forward(case.descriptor, case.weights, x, state, lengths=case.lengths)
    others = [0, 2, 3]
    total = sum((t[..., others, :] ** 2).sum() for t in (output, *after) if t is not None)
    assert torch.equal(after.h[:, 1], state.h[:, 1]) or bad != bad  # noqa: PLR0124  # NaN
    assert_same(clean[-1], torch.autograd.grad(total, case.weights.flat)[0])


@given(case=cases())
@examples(100)
def test_a_row_does_not_depend_on_its_neighbours(case):
    assume(case.batch)
    whole, state = rnn_forward(case.descriptor, case.weights, case.x, case.state, **case.options)
    for b in range(case.batch):
        options = {
            name: value[:, b : b + 1] if name in ("mask", "resets") else value
            for name, value in case.options.items()
        }
        if "lengths" in options:
            options["lengths"] = options["lengths"][b : b + 1]
        given_state = None if case.state is None else case.state.index_select([b])
        alone, own = rnn_forward(case.descriptor, case.weights, case.x[:, b : b + 1], given_state, **options)
        assert_same(whole[:, b : b + 1], alone)
        assert_same(tuple(state.index_select([b])), tuple(own))


@given(case=cases())
@examples(60)
def test_rows_without_a_real_step_pass_state_and_gradient_through(case):
    """Length 0, T = 0 and fully masked rows: final state = initial state bit for bit, gradient the identity."""
    assume(case.given_state)
    h = case.h.clone().requires_grad_()
    c = case.c.clone().requires_grad_()
    d = case.descriptor
    state = RNNState(h, c if d.has_cell_state else None)
    output, after = rnn_forward(d, case.weights, case.x, state, **case.options)
    empty = ~case.real.any(0)
    assert_bitwise(h[:, empty], after.h[:, empty])
    assert (output[:, empty] == case.padding).all()
    seed = torch.randn_like(after.h)
    (dh,) = torch.autograd.grad(after.h, h, seed, retain_graph=True)
    assert_bitwise(seed[:, empty], dh[:, empty])
    if d.has_cell_state:
        assert_bitwise(c[:, empty], after.c[:, empty])
        seed = torch.randn_like(after.c)
        (dc,) = torch.autograd.grad(after.c, c, seed)
        assert_bitwise(seed[:, empty], dc[:, empty])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_output_never_shrinks_and_holds_the_padding_value(backend, cell, bidirectional):
    descriptor = RNNDescriptor(cell, 2, 3, num_layers=2, bidirectional=bidirectional)
    weights = RNNWeights.init(descriptor)
    x, lengths = torch.randn(5, 4, 2), torch.tensor([1, 3, 2, 0])
    real = torch.arange(5)[:, None] < lengths
    for padding in (0.0, -1.5):
        for _ in range(20):  # memory that nobody wrote would differ
            output, _ = rnn_forward(
                descriptor, weights, x, lengths=lengths, padding_value=padding, backend=backend
            )
            assert output.shape == (5, 4, descriptor.output_size)
            assert (output[~real] == padding).all()
    assert not (output[real] == padding).any()
