"""The cell style against NumPy, finite differences, and one step at a time; and what it refuses."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
import torch
from cases import examples
from compare import assert_bitwise, assert_same
from flux_cases import MODES, B, Case, H, I, T, make_cell
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rnncompat import InvalidTypeError, InvalidValueError, legacy
from rnncompat.legacy import flux
from rnncompat.legacy.flux import cell as flux_cell


def leaves(arrays):
    return [torch.tensor(a, requires_grad=True) for a in arrays]


@examples(40)
@given(st.sampled_from(MODES), st.integers(0, 2**31))
def test_steps_through_time(mode, seed):
    case = Case(mode, seed)
    ys, state, gradients, dxs = case.numpy()
    xs = leaves(case.xs)
    with legacy.legacy_warnings("quiet"):
        m = case.recur()
        found = [m(x) for x in xs]
    assert_same(list(ys), found)
    assert_same(state, m.state)
    of_parameters, of_inputs = case.gradients(found, xs)
    assert_same(gradients, of_parameters)
    assert_same(list(dxs), of_inputs)


@examples(40)
@given(st.sampled_from(MODES), st.integers(0, 2**31))
def test_a_whole_sequence(mode, seed):
    case = Case(mode, seed)
    ys, state, gradients, dxs = case.numpy()
    x = torch.tensor(np.stack(case.xs, 2), requires_grad=True)
    with legacy.legacy_warnings("quiet"):
        m = case.recur()
        y = m(x)
    assert y.shape == (H, B, T)
    assert_same(np.stack(ys, 2), y, 1e-12)
    assert_same(state, m.state, 1e-12)
    of_parameters, (dx,) = case.gradients(y.unbind(2), [x])
    assert_same(gradients, of_parameters)
    assert_same(np.stack(dxs, 2), dx)


@pytest.mark.parametrize("mode", MODES)
def test_a_whole_sequence_is_one_call_and_steps_go_on_from_it(mode):
    case = Case(mode)
    ys, state, _, _ = case.numpy()
    with torch.no_grad(), mock.patch.object(flux_cell, "rnn_forward", wraps=flux_cell.rnn_forward) as whole:
        m = nn.Sequential(case.recur())
        first = m(torch.tensor(np.stack(case.xs[:4], 2)))
        second = m(torch.tensor(case.xs[4]))
        third = m(torch.tensor(np.stack(case.xs[5:], 2)))
        assert whole.call_count == 2
        chain = flux.Chain(case.recur(), flux.LSTM(H, 2).double(), flux.GRU(2, 6).double())
        assert chain(torch.tensor(np.stack(case.xs, 2))).shape == (6, B, T)
        assert whole.call_count == 2 + 3
    assert_same(np.stack(ys, 2), torch.cat([first, second[..., None], third], 2), 1e-12)
    assert_same(state, m[0].state, 1e-12)


def test_no_steps_leave_the_state_as_no_calls_do():
    m = Case("lstm").recur()
    assert m(torch.zeros(I, B, 0)).shape == (H, B, 0)
    assert m.state[1] is m.cell.c
    assert m(torch.zeros(I, 0)).shape == (H, 0)
    assert m.state[1].shape == (H, 0)


SHAPES = {
    "vector": ((I,), (H,)),
    "batch": ((I, B), (H, B)),
    "shared": ((I, B), (H,)),
    "one": ((I, B), (H, 1)),
}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("mode", [*MODES, "sin"])
def test_gradients_are_finite_differences(mode, shapes):
    torch.manual_seed(1)
    cell = legacy.RNNCell(I, H, torch.sin).double() if mode == "sin" else make_cell(mode)
    x_shape, h_shape = SHAPES[shapes]
    x = torch.randn(x_shape, dtype=torch.float64, requires_grad=True)
    state = [torch.randn(h_shape, dtype=torch.float64, requires_grad=True) for _ in cell.states]
    weights = [cell.Wi, cell.Wh, cell.b]

    def call(x, *rest):
        after, y = cell(tuple(rest[:2]) if mode == "lstm" else rest[0], x)
        return (y, *after) if mode == "lstm" else (y, after)

    assert torch.autograd.gradcheck(call, (x, *state, *weights))


@pytest.mark.parametrize("mode", ["lstm", "gru", "sin"])
def test_gradients_of_a_sequence_are_finite_differences(mode):
    m = flux.RNN(I, H, torch.sin).double() if mode == "sin" else Case(mode).recur()
    parameters = list(m.parameters())
    x = torch.randn(I, 2, 3, dtype=torch.float64, requires_grad=True)

    def call(x, *_):
        flux.reset(m)
        return m(x), *(m.state if mode == "lstm" else (m.state,))

    assert torch.autograd.gradcheck(call, (x, *parameters))


def test_another_function_takes_the_plain_formula():
    cell = legacy.RNNCell(I, H, torch.nn.functional.softplus).double()
    x, h = torch.randn(I, B).double(), torch.randn(H).double()
    after, y = cell(h, x)
    wi, wh, b = (w.detach().numpy() for w in (cell.Wi, cell.Wh, cell.b))
    expected = np.log1p(np.exp(wi @ x.numpy() + (wh @ h.numpy() + b)[:, None]))
    assert_same([expected] * 2, [y, after])
    assert y.data_ptr() != after.data_ptr()
    m = legacy.Recur(cell)
    xs = torch.randn(I, B, T).double()
    steps = [m(x) for x in xs.unbind(2)]
    kept = m.state
    flux.reset(m)
    assert_bitwise(torch.stack(steps, 2), m(xs))
    assert_bitwise(kept, m.state)
    assert "softplus" in repr(cell)


def test_a_function_with_weights_of_its_own_is_trained():
    m = flux.RNN(I, H, nn.PReLU())
    assert "cell.σ.weight" in m.state_dict()
    m(torch.ones(I)).sum().backward()
    assert m.cell.σ.weight.grad is not None


def test_fresh_cells_are_glorots_with_a_forget_bias_of_one():
    torch.manual_seed(3)
    cell = legacy.LSTMCell(30, 50)
    shapes = {name: tuple(p.shape) for name, p in cell.named_parameters()}
    assert shapes == {"Wi": (200, 30), "Wh": (200, 50), "b": (200,), "h": (50,), "c": (50,)}
    assert {p.dtype for p in cell.parameters()} == {torch.float32}
    for values, fans in ((cell.Wi, 230), (cell.Wh, 250), (cell.b[:50], 201), (cell.b[100:], 201)):
        bound = math.sqrt(6 / fans)
        assert 0.9 * bound < values.abs().max() <= bound
        assert values.min() < 0 < values.max()
    assert (cell.b[50:100] == 1).all()
    assert not cell.h.any()
    assert not cell.c.any()
    torch.manual_seed(3)
    assert_bitwise(list(cell.parameters()), list(legacy.LSTMCell(30, 50).parameters()))


def test_init_makes_the_weights():
    sizes = []

    def init(*shape):
        sizes.append(shape)
        return torch.full(shape, 2.0, dtype=torch.float64)

    cell = legacy.GRUCell(I, H, init)
    assert sizes == [(15, 3), (15, 5), (15,)]
    assert cell.h.dtype == torch.float64
    assert (legacy.LSTMCell(I, H, init).b == torch.tensor([2.0, 1.0, 2.0, 2.0]).repeat_interleave(H)).all()


@pytest.mark.parametrize("sizes", [(0, 5), (3, -1), (3, 2.5), ("3", 5)])
def test_sizes_are_checked(sizes):
    for make in (legacy.RNNCell, legacy.LSTMCell, legacy.GRUCell, flux.RNN, flux.LSTM, flux.GRU):
        with pytest.raises((InvalidValueError, InvalidTypeError), match=r"_size is"):
            make(*sizes)
    with pytest.raises(InvalidTypeError, match="σ is a str"):
        legacy.RNNCell(3, 5, "tanh")


@pytest.mark.parametrize(
    ("x", "text"),
    [
        ([1.0, 2.0, 3.0], "x is a list; expected a tensor"),
        (torch.ones(3, dtype=torch.complex64), "x is torch.complex64"),
        (torch.ones(()), r"x is of shape \[\]; expected \(3,\), \(3, B\)"),
        (torch.ones(4, 3), r"x is of shape \[4, 3\]; .*features first"),
        (torch.ones(3, 4, 5, 6), r"x is of shape \[3, 4, 5, 6\]"),
    ],
)
def test_wrong_inputs_are_refused_and_the_state_stays(x, text):
    m = flux.GRU(3, 5)
    m(torch.ones(3, 2))
    before = m.state
    with pytest.raises((InvalidTypeError, InvalidValueError), match=text):
        m(x)
    assert m.state is before


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ((torch.zeros(5), None), "c is a NoneType"),
        (torch.zeros(5), r"state is a Tensor; expected a pair \(h, c\)"),
        ((torch.zeros(4), torch.zeros(5)), r"h is of shape \[4\]; expected \(5,\) or \(5, B\)"),
        ((torch.zeros(5), torch.zeros(5, 3)), r"c is of shape \[5, 3\], left by another batch"),
    ],
)
def test_wrong_states_are_refused(state, text):
    with pytest.raises((InvalidTypeError, InvalidValueError), match=text):
        legacy.LSTMCell(3, 5)(state, torch.ones(3, 2))


def test_a_state_of_a_model_moved_by_hand_is_refused():
    with pytest.raises(InvalidTypeError, match=r"h is torch.float64 on cpu; expected torch.float32"):
        legacy.GRUCell(3, 5)(torch.zeros(5).double(), torch.ones(3))


def test_wrong_weights_are_refused():
    m = flux.GRU(3, 5)
    m.cell.Wi = nn.Parameter(m.cell.Wi.detach().t().contiguous())
    with pytest.raises(InvalidValueError):
        m(torch.ones(3))
