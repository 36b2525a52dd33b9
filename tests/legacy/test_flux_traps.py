"""The traps of the old interface that concern the cell style, with the number a naive port would give."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from compare import assert_bitwise, assert_same
from torch import nn

from rnncompat import InvalidTypeError, InvalidValueError, UnsupportedError, legacy
from rnncompat.legacy import flux

SIX = 6e-7  # the numbers have six digits


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


def set_weights(cell, wi, wh, b):
    cell.double()
    with torch.no_grad():
        for parameter, values in zip((cell.Wi, cell.Wh, cell.b), (wi, wh, b), strict=True):
            parameter.copy_(f64(values))
    return cell


def test_t10_a_cell_returns_the_state_first_and_forward_the_output():
    cell = set_weights(legacy.LSTMCell(1, 1), [[0.1]] * 4, [[0.2]] * 4, [0.3, 0.4, 0.5, 0.6])
    x, h, c = f64([1.0]), f64([0.0]), f64([0.5])
    state, y = cell((h, c), x)
    expected = legacy.forward(flux.desc(cell), x, h, c)
    assert isinstance(state, tuple)
    assert_bitwise([expected[1], expected[2], expected[0]], [*state, y])
    assert state[1] != y
    gru = legacy.GRUCell(1, 1)
    after, y = gru(gru.h, torch.ones(1))
    y.detach().add_(1)
    assert y == after + 1  # apart: an edit of the output does not reach the state


def test_t12_the_gradient_of_the_state_is_summed_over_the_batch():
    """pullback keeps (.209987, .035325, .004933); Flux reduced it to the shape of the state."""
    cell = set_weights(legacy.RNNCell(1, 1), [[1.0]], [[0.5]], [0.0])
    x = f64([[1.0, 2.0, 3.0]])
    for shape in ((1,), (1, 1)):
        h = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        _, y = cell(h, x)
        (dh,) = torch.autograd.grad(y.sum(), h)
        assert dh.shape == shape
        assert_same(f64(0.250246), dh.sum(), SIX)
    wide = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    (dh,) = torch.autograd.grad(cell(wide, x)[1].sum(), wide)
    assert_same(f64([[0.209987, 0.035325, 0.004933]]), dh, SIX)


def test_t18_the_gradient_is_that_of_the_weights_at_the_call():
    """Old activations with new weights were the gradient of nothing; an optimizer step in between is harmless."""
    cell = set_weights(legacy.RNNCell(1, 1), [[1.0]], [[1.0]], [0.0])
    x = f64([0.3]).requires_grad_()
    _, y = cell(f64([0.2]), x)
    with torch.no_grad():
        cell.Wi.fill_(2.0)
        cell.Wh.fill_(3.0)
    slope = 1 - torch.tanh(f64(0.5)) ** 2
    dx, dwi = torch.autograd.grad(y, [x, cell.Wi])
    assert_same([slope.reshape(1), (slope * 0.3).reshape(1, 1)], [dx, dwi])
    assert_same(torch.tanh(f64([2.0 * 0.3 + 3.0 * 0.2])), cell(f64([0.2]), x)[1].detach())


def test_t18_a_descriptor_is_refilled_at_each_look():
    cell = legacy.GRUCell(3, 5)
    rnn = flux.desc(cell)
    with torch.no_grad():
        cell.Wi.fill_(7.0)
    assert not (rnn.weights[0] == 7).all()
    assert flux.descs[cell] is rnn
    assert (rnn.weights[0] == 7).all()
    y, _ = legacy.forward(flux.desc(cell), torch.ones(3), cell.h)
    assert torch.autograd.grad(y.sum(), cell.Wh)[0].shape == (15, 5)


def test_t19_the_cache_knows_cells_by_identity_and_weakly():
    """A cell is in the cache once it has run, as on the GPU of old."""
    gc.collect()  # of the cells of other tests
    one, two = legacy.GRUCell(3, 5), legacy.GRUCell(3, 5)
    two.load_state_dict(one.state_dict())
    assert one not in flux.descs
    with pytest.raises(KeyError):
        flux.descs[one]
    one(one.h, torch.ones(3))
    assert one in flux.descs
    assert two not in flux.descs
    assert flux.desc(one) is flux.desc(one)
    assert flux.desc(two) is not flux.desc(one)
    before, gone = len(flux.descs), weakref.ref(two)
    assert one in list(flux.descs)
    del two
    gc.collect()
    assert gone() is None
    assert len(flux.descs) == before - 1
    assert "cell" not in flux.descs


def test_t19_a_cell_that_changed_gets_another_descriptor():
    """Flux made a new cell where these changed; torch changes the one there is."""
    cell = legacy.RNNCell(3, 5)
    first = flux.desc(cell)
    cell.double()
    second = flux.desc(cell)
    assert (first.dtype, second.dtype) == (torch.float32, torch.float64)
    cell.σ = torch.relu
    assert flux.desc(cell).mode == legacy.CUDNN_RNN_RELU


def test_t20_only_x_is_converted():
    m = flux.GRU(3, 5)
    expected = m(torch.eye(3)[:, :2])
    for one_hot in (torch.eye(3).double()[:, :2], torch.eye(3).bool()[:, :2], torch.eye(3).long()[:, :2]):
        legacy.reset(m)
        assert_bitwise(expected, m(one_hot))
    with pytest.raises(InvalidTypeError, match="only x is converted"):
        m.cell(torch.zeros(5).double(), torch.ones(3))
    half = flux.LSTM(3, 5).to(torch.bfloat16)
    assert half(torch.ones(3, 4)).dtype == half.state[1].dtype == torch.bfloat16
    with pytest.raises(InvalidTypeError, match="bfloat16"):
        flux.RNNDesc(half.cell)


def test_t20_the_default_dtype_is_torchs():
    torch.set_default_dtype(torch.float64)
    try:
        assert flux.GRU(3, 5)(torch.ones(3)).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert flux.GRU(3, 5)(torch.ones(3).double()).dtype == torch.float32


@pytest.mark.parametrize(
    ("x", "y"), [((3,), (5,)), ((3, 1), (5, 1)), ((3, 4), (5, 4)), ((3, 4, 2), (5, 4, 2))]
)
def test_t21_a_vector_gives_a_vector_and_a_matrix_a_matrix(x, y):
    for m in (flux.RNN(3, 5), flux.RNN(3, 5, torch.sin), flux.LSTM(3, 5), flux.GRU(3, 5)):
        assert m(torch.ones(x)).shape == y
        states = m.state if isinstance(m.state, tuple) else (m.state,)
        assert {s.shape for s in states} == {torch.Size(y[:2])}


def test_t21_a_vector_beside_the_state_of_a_batch_is_refused():
    """On a CPU Flux spread the vector over the batch; on the GPU it failed."""
    for m in (flux.RNN(3, 5, torch.sin), flux.LSTM(3, 5)):
        m(torch.ones(3, 1))
        with pytest.raises(
            InvalidValueError, match=r"h is of shape \[5, 1\] beside a vector x, .*reset\(m\)"
        ):
            m(torch.ones(3))
        legacy.reset(m)
        assert m(torch.ones(3)).shape == (5,)


def test_t24_a_function_that_is_not_tanh_is_not_taken_for_relu():
    cell = set_weights(legacy.RNNCell(1, 1, torch.sigmoid), [[1.0]], [[0.0]], [0.0])
    assert_same(torch.sigmoid(f64([2.0])), cell(f64([0.0]), f64([2.0]))[1].detach())  # relu: 2
    for refused in (flux.RNNDesc, flux.desc):
        with pytest.raises(UnsupportedError, match=r"σ is .*sigmoid.*; only with torch.tanh or torch.relu"):
            refused(cell)
    modes = [
        flux.RNNDesc(legacy.RNNCell(3, 5, f)).mode
        for f in (torch.tanh, nn.functional.tanh, torch.relu, nn.functional.relu)
    ]
    assert modes == [legacy.CUDNN_RNN_TANH] * 2 + [legacy.CUDNN_RNN_RELU] * 2


def test_t28_the_forget_bias_is_one_not_two():
    m = flux.LSTM(2, 3)
    with torch.no_grad():
        m.cell.Wi.zero_()
        m.cell.Wh.zero_()
    m.state = (torch.zeros(3), torch.full((3,), 1e6))
    m(torch.ones(2))
    assert_same(torch.full((3,), 0.731059), m.state[1].detach() / 1e6, 2e-6)  # 0.880797 with two biases of 1


def test_t38_moving_a_model_resets_its_state():
    m = flux.Chain(flux.LSTM(3, 5), flux.GRU(5, 2))
    for move in (lambda: m.to("cpu"), m.double, lambda: m.to(torch.float32), m.cpu):
        m(torch.ones(3, 4))
        assert m[1].state.shape == (2, 4)
        move()
        assert m[1].state is m[1].cell.h
    m(torch.ones(3, 6))
    m.train()
    m.zero_grad()
    assert m[1].state.shape == (2, 6)


@pytest.mark.parametrize("make", [flux.RNN, flux.LSTM, flux.GRU, lambda i, o: flux.RNN(i, o, torch.sin)])
def test_t38_another_batch_needs_a_reset(make):
    m = make(3, 5)
    m(torch.ones(3, 4))
    for x in (torch.ones(3, 6), torch.ones(3, 6, 2), torch.ones(3, 1)):
        with pytest.raises(
            InvalidValueError, match=r"h is of shape \[5, 4\], .*x has \d columns; call reset\(m\)"
        ):
            m(x)
        assert m(torch.ones(3, 4)).shape == (5, 4)
    legacy.reset(m)
    assert m(torch.ones(3, 6)).shape == (5, 6)


def test_t38_the_state_of_one_column_serves_any_batch():
    """As hBatch had it, then as now."""
    m = set_weights(legacy.RNNCell(1, 1), [[0.0]], [[1.0]], [0.0])
    assert_same(torch.tanh(f64([[0.5] * 4])), m(f64([[0.5]]), f64([[0.0] * 4]))[1].detach())


def test_t38_the_state_keeps_its_graph_until_it_is_cut():
    m = set_weights(legacy.RNNCell(1, 1), [[1.0]], [[0.5]], [0.0])
    m = legacy.Recur(m)
    x = f64([0.3]).requires_grad_()
    m(x)
    (through,) = torch.autograd.grad(m(f64([0.1])), x)
    first = torch.tanh(f64([0.3]))
    slope = 1 - torch.tanh(0.1 + 0.5 * first) ** 2
    assert_same(slope * 0.5 * (1 - first**2), through)

    legacy.reset(m)
    m(x)
    m.state = m.state.detach()
    assert not torch.autograd.grad(m(f64([0.1])), x, allow_unused=True)[0]
    legacy.reset(m)
    (dh,) = torch.autograd.grad(m(f64([0.0])), m.cell.h)
    assert_same(f64([0.5]), dh)


def test_t38_steps_are_mapped_in_order():
    m = legacy.Recur(lambda h, x: (h * 10 + x, h * 10 + x), 0)
    assert [m(x) for x in (1, 2, 3)] == [1, 12, 123]
    legacy.reset(m)
    assert list(map(m, (1, 2, 3))) == [1, 12, 123]
