"""Each trap of the old interface that concerns RNNDesc, with the number a naive port would give.

The numbers are the specification's, computed in NumPy. T17 to T24 include the deviations: where the old
call crashed, read stray memory or wrote a prefix, ours has the evident meaning or a clear error.
"""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from compare import assert_bitwise, assert_same

from rnncompat import InvalidTypeError, InvalidValueError, RNNWeights, UnsupportedError, legacy

SIX = 6e-7  # the numbers have six digits
RELU, TANH, LSTM, GRU = legacy.CUDNN_RNN_RELU, legacy.CUDNN_RNN_TANH, legacy.CUDNN_LSTM, legacy.CUDNN_GRU


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


def desc(mode, wi, wh, b):
    wi, wh, b = f64(wi), f64(wh), f64(b)
    rnn = legacy.RNNDesc[torch.float64](mode, wi.shape[1], wh.shape[1])
    legacy.setweights(rnn, wi, wh, b)
    return rnn


def ones(mode, bias):
    gates = legacy.ngates(mode)
    return desc(mode, [[1.0]] * gates, [[1.0]] * gates, bias)


def t1():
    return ones(GRU, [0.0, 0.0, 1.0]), f64([0.5]), f64([0.5])


def test_t1_gru_bias_stands_outside_the_reset_product():
    y, _ = legacy.forward(*t1())
    assert_same(f64([0.621881]), y, SIX)  # 0.613266 on the recurrent side, 0.631500 on both


def test_t2_gru_resets_after_the_matmul():
    """r = (.5, .25) and R_n h = (3, 7): after gives n = (1.5, 1.75) as argument, before (1, 2.5)."""
    r = [0.0, -1.0986122886681098]  # sigmoid gives .5 and .25
    far = [-50.0, -50.0]  # z = 0, so that y = n
    wh = [[0.0, 0.0]] * 4 + [[1.0, 2.0], [3.0, 4.0]]
    rnn = desc(GRU, [[0.0]] * 6, wh, [*r, *far, 0.0, 0.0])
    y, _ = legacy.forward(rnn, f64([0.0]), f64([1.0, 1.0]))
    assert_same(torch.tanh(f64([1.5, 1.75])), y, 1e-9)


def test_t3_gru_update_gate_weights_the_old_state():
    z = 2.1972245773362196  # sigmoid gives .9
    rnn = desc(GRU, [[0.0]] * 3, [[0.0]] * 3, [0.0, z, 50.0])
    y, _ = legacy.forward(rnn, f64([0.0]), f64([0.0]))
    assert_same(f64([0.1]), y, 1e-9)  # swapped: .9


def test_t4_one_bias_is_not_two():
    rnn = desc(TANH, [[0.0]], [[0.0]], [0.5])
    y, _ = legacy.forward(rnn, f64([0.0]), f64([0.0]))
    assert_same(f64([0.462117]), y, SIX)  # doubled: .761594
    assert not rnn.params[-1]
    _, back = legacy.pullback(*t1())
    db = back(f64([1.0]), None).b
    assert_same(f64([0.002417, -0.089102, 0.024590]), db, SIX)  # the recurrent third: .017977


def test_t5_lstm_gate_order():
    rnn = desc(LSTM, [[0.0]] * 4, [[0.0]] * 4, [1.0, 2.0, 3.0, 4.0])
    y, _, co = legacy.forward(rnn, f64([0.0]), f64([0.0]), f64([1.0]))
    assert_same(f64([0.906300]), y, SIX)
    assert_same(f64([1.608240]), co, SIX)


def test_t6_gru_gate_order():
    rnn = desc(GRU, [[0.0]] * 3, [[1.0]] * 3, [2.0, -2.0, 0.5])
    y, _ = legacy.forward(rnn, f64([0.0]), f64([1.0]))
    assert_same(f64([0.924117]), y, SIX)  # z, r, n: .983226


def test_t7_setweights_takes_what_views_and_gradients_show_transposed():
    rnn = legacy.RNNDesc[torch.float64](LSTM, 3, 2)
    wi, wh = torch.randn(8, 3).double(), torch.randn(8, 2).double()
    legacy.setweights(rnn, wi, wh, torch.zeros(8).double())
    assert_bitwise((wi.t(), wh.t()), rnn.weights)
    _, back = legacy.pullback(rnn, torch.randn(3, 5).double(), torch.randn(2).double())
    gradients = back(torch.ones(2, 5).double(), None)
    assert gradients.Wi.shape == (3, 8)
    assert gradients.Wh.shape == (2, 8)
    for wrong in ((wi.t(), wh), (wi, wh[:, :1])):
        with pytest.raises(InvalidValueError, match=r"expected"):
            legacy.setweights(rnn, *wrong, torch.zeros(8).double())


def test_t8_the_buffer_is_row_major_of_what_setweights_takes():
    rnn = desc(TANH, [[1, 2, 3], [4, 5, 6]], [[7, 8], [9, 10]], [11, 12])
    assert rnn.params.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0]
    assert_bitwise(rnn.params, RNNWeights(rnn.descriptor, rnn.params).flat)


def test_t9_weights_and_bias_are_live_views():
    rnn = legacy.RNNDesc[torch.float64](GRU, 3, 2)
    held = rnn.weights[0]
    held[2, 4] = 5.0
    rnn.weights[1].fill_(2.0)
    rnn.bias[-1] = 7.0
    assert rnn.params[4 * 3 + 2] == 5
    assert (rnn.params[18:30] == 2).all()
    assert rnn.params[35] == 7
    legacy.setweights(rnn, torch.ones(6, 3).double(), torch.ones(6, 2).double(), torch.ones(6).double())
    assert (held == 1).all()


def test_t10_return_order_shows_in_the_lstm():
    rnn = desc(LSTM, [[0.1]] * 4, [[0.2]] * 4, [0.3, 0.4, 0.5, 0.6])
    y, ho, co = legacy.forward(rnn, f64([1.0]), f64([0.0]), f64([0.5]))
    assert_bitwise(y, ho)
    assert co != ho
    _, back = legacy.pullback(rnn, f64([1.0]), f64([0.0]), f64([0.5]))
    by_output, by_cell = back(f64([1.0]), None, None), back(None, None, f64([1.0]))
    assert_bitwise(list(by_output), list(back(None, f64([1.0]), None)))
    assert_same(torch.sigmoid(f64([0.1 + 0.4])), by_cell.c)
    assert not torch.equal(by_output.c, by_cell.c)
    with pytest.raises(TypeError):
        back(f64([1.0]), None)


def test_t11_output_and_state_are_apart_and_their_gradients_add():
    rnn = desc(TANH, [[1.0]], [[1.0]], [0.0])
    reserve, (y, ho) = legacy.forwardTrain(rnn, f64([0.0]), f64([0.0]))
    y.add_(1)
    assert_same(f64([0.0]), ho)
    for x in (f64([0.0]), torch.zeros(1, 4).double()):
        y, ho = legacy.forward(rnn, x, f64([0.0]))
        assert y.data_ptr() != ho.data_ptr()
        assert y.is_contiguous()
        assert ho.is_contiguous()
    _, back = legacy.pullback(rnn, f64([0.0]), f64([0.0]))
    gradients = back(f64([2.0]), f64([3.0]))
    assert_same((f64([5.0]), f64([5.0])), (gradients.x, gradients.b))
    assert "opaque" in repr(reserve)


def test_t12_the_state_gradient_keeps_the_expanded_shape():
    rnn = desc(TANH, [[1.0]], [[0.5]], [0.0])
    _, back = legacy.pullback(rnn, f64([[1.0, 2.0, 3.0]]), f64([0.0]))
    dh = back(torch.ones(1, 3).double(), None).h
    assert_same(f64([[0.209987, 0.035325, 0.004933]]), dh, SIX)
    assert_same(f64(0.250246), dh.sum(), SIX)


@pytest.mark.parametrize("dy", [0, 1, 7, True, False, None])
def test_t13_any_whole_number_as_dy_means_zeros(dy):
    rnn, x, h = t1()
    _, back = legacy.pullback(rnn, x, h)
    assert_bitwise(list(back(torch.zeros(1).double(), f64([2.0]))), list(back(dy, f64([2.0]))))


@pytest.mark.parametrize("zero", [0, False, None])
def test_t13_dho_takes_zero_only(zero):
    rnn, x, h = t1()
    _, back = legacy.pullback(rnn, x, h)
    assert_bitwise(list(back(f64([2.0]), torch.zeros(1).double())), list(back(f64([2.0]), zero)))
    for wrong, error in ((1, InvalidValueError), (True, InvalidValueError), (0.0, InvalidTypeError)):
        with pytest.raises(error, match=r"dho"):
            back(f64([2.0]), wrong)
    with pytest.raises(InvalidTypeError, match=r"dy is a float"):
        back(0.0, None)


def test_t13_a_gradient_has_the_expanded_shape():
    rnn = legacy.RNNDesc[torch.float64](GRU, 3, 2)
    _, back = legacy.pullback(rnn, torch.ones(3, 4).double(), torch.zeros(2).double())
    with pytest.raises(InvalidValueError, match=r"dho is torch.float64 of shape \[2\]; .*expanded shape"):
        back(None, torch.ones(2).double())
    with pytest.raises(InvalidValueError, match=r"dy is torch.float32"):
        back(torch.ones(2, 4), None)


def test_t14_true_means_training_here_and_nothing_but_a_bool_is_taken():
    rnn, x, h = t1()
    reserve, (_y, _ho) = legacy.forward(rnn, x, h, None, True)
    assert isinstance(reserve, legacy.Reserve)
    assert len(legacy.forward(rnn, x, h, None, False)) == 2
    with pytest.raises(InvalidTypeError, match=r"train is a int"):
        legacy.forward(rnn, x, h, None, 1)


def test_t15_an_lstm_without_cell_starts_at_zero_and_returns_two():
    rnn = desc(LSTM, [[0.1]] * 4, [[0.2]] * 4, [0.3, 0.4, 0.5, 0.6])
    x, h = f64([1.0]), f64([0.5])
    y, ho = legacy.forward(rnn, x, h)
    assert_bitwise((y, ho), legacy.forward(rnn, x, h, f64([0.0]))[:2])
    _, back = legacy.pullback(rnn, x, h)
    assert back(f64([1.0]), None)._fields == ("x", "h", "Wi", "Wh", "b")


@pytest.mark.parametrize("mode", [RELU, TANH, GRU])
def test_t15_a_cell_for_a_mode_without_one_is_refused(mode):
    rnn = legacy.RNNDesc(mode, 3, 2)
    with pytest.raises(UnsupportedError, match=r"no cell state"):
        legacy.forward(rnn, torch.ones(3), torch.zeros(2), torch.zeros(2))


def test_t16_calling_back_twice_gives_the_same():
    rnn, x, h = t1()
    _, back = legacy.pullback(rnn, x, h)
    assert_bitwise(list(back(f64([1.0]), f64([2.0]))), list(back(f64([1.0]), f64([2.0]))))
    reserve, (y, _) = legacy.forwardTrain(rnn, x, h)
    with pytest.raises(InvalidValueError, match=r"call that first"):
        legacy.backwardWeights(rnn, x, h, y, reserve)
    once = legacy.backwardData(rnn, y, f64([1.0]), None, h, reserve)
    weights = legacy.backwardWeights(rnn, x, h, y, reserve)
    assert_bitwise(once, legacy.backwardData(rnn, y, f64([1.0]), None, h, reserve))
    assert_bitwise(weights, legacy.backwardWeights(rnn, x, h, y, reserve))


def test_t17_more_than_one_layer_is_refused():
    with pytest.raises(UnsupportedError, match=r"layers is 2; .*num_layers"):
        legacy.RNNDesc(LSTM, 3, 2, layers=2)


def test_t18_back_reads_weights_and_data_when_it_is_called():
    rnn = desc(TANH, [[1.0]], [[1.0]], [0.0])
    x, h = f64([0.3]), f64([0.2])
    _, back = legacy.pullback(rnn, x, h)
    legacy.setweights(rnn, f64([[2.0]]), f64([[3.0]]), f64([0.5]))
    x.fill_(0.1)
    slope = 1 - torch.tanh(f64([2.0 * 0.1 + 3.0 * 0.2 + 0.5])) ** 2
    gradients = back(f64([1.0]), None)
    assert_same([slope * 2, slope * 3, slope], [gradients.x, gradients.h, gradients.b])


def test_t19_a_descriptor_is_a_key_by_identity_and_weakly():
    one, two = legacy.RNNDesc(GRU, 3, 2), legacy.RNNDesc(GRU, 3, 2)
    cache = weakref.WeakKeyDictionary({one: 1, two: 2})
    assert one != two
    assert cache[one] == 1
    legacy.forward(two, torch.ones(3), torch.zeros(2))
    del two
    gc.collect()
    assert len(cache) == 1


def test_t20_nothing_is_converted():
    rnn = legacy.RNNDesc(GRU, 3, 2)
    x, h = torch.ones(3), torch.zeros(2)
    for bad in ((x.double(), h), (x, h.double()), (x, h.half())):
        with pytest.raises(InvalidTypeError, match=r"expected torch.float32 on cpu, as the RNNDesc"):
            legacy.forward(rnn, *bad)
    with pytest.raises(InvalidTypeError, match=r"x is a list"):
        legacy.forward(rnn, [1.0], h)
    with pytest.raises(InvalidTypeError, match=r"Wi is torch.float64"):
        legacy.setweights(rnn, torch.ones(6, 3).double(), torch.ones(6, 2), torch.ones(6))
    with pytest.raises(InvalidTypeError, match=r"bfloat16"):
        legacy.RNNDesc[torch.bfloat16]
    half = legacy.RNNDesc[torch.float16](GRU, 3, 2)
    with pytest.raises(InvalidTypeError, match=r"float32 and float64 only"):
        legacy.pullback(half, x.half(), h.half())
    y, ho = legacy.forward(half, torch.ones(3, 4).half(), h.half())
    assert y.dtype == ho.dtype == torch.float16


def test_t20_the_default_dtype_is_torchs():
    torch.set_default_dtype(torch.float64)
    try:
        assert legacy.RNNDesc(GRU, 3, 2).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert isinstance(legacy.RNNDesc(GRU, 3, 2, dtype=torch.float64), legacy.RNNDesc[torch.float64])
    with pytest.raises(InvalidTypeError, match=r"dtype is torch.float64, but the class"):
        legacy.RNNDesc[torch.float32](GRU, 3, 2, dtype=torch.float64)
    with pytest.raises(InvalidTypeError, match=r"no further dtype"):
        legacy.RNNDesc[torch.float32][torch.float64]


@pytest.mark.parametrize(
    ("x", "h", "out"),
    [
        ((3,), (2,), (2,)),
        ((3, 1), (2,), (2, 1)),
        ((3, 4), (2,), (2, 4)),
        ((3, 4), (2, 1), (2, 4)),
        ((3, 4), (2, 4), (2, 4)),
    ],
)
def test_t21_a_vector_gives_a_vector_and_a_matrix_a_matrix(x, h, out):
    rnn = legacy.RNNDesc(GRU, 3, 2)
    x, h = torch.ones(x), torch.ones(h)
    wide = legacy.hBatch(x, h)
    assert wide.shape == out
    assert (wide == 1).all()
    assert (wide is h) == (x.dim() == 1)
    assert x.dim() == 1 or wide.data_ptr() != h.data_ptr()
    assert all(result.shape == out for result in legacy.forward(rnn, x, h))


@pytest.mark.parametrize(("x", "h"), [((3,), (2, 1)), ((3,), (2, 4)), ((3, 4, 5), (2,)), ((3, 4), (2, 4, 1))])
def test_t21_other_pairs_of_ranks_are_refused(x, h):
    with pytest.raises(InvalidValueError, match=r"expected"):
        legacy.hBatch(torch.ones(x), torch.ones(h))


@pytest.mark.parametrize(("x", "h"), [((4,), (2,)), ((3,), (3,)), ((3, 4), (2, 3)), ((3, 4), (3, 4))])
def test_t21_sizes_are_checked_by_forward(x, h):
    with pytest.raises(InvalidValueError, match=r"[xh] is of shape .*features first"):
        legacy.forward(legacy.RNNDesc(GRU, 3, 2), torch.ones(x), torch.ones(h))
    with pytest.raises(InvalidValueError, match=r"c is of shape .*features first"):
        legacy.forward(legacy.RNNDesc(LSTM, 3, 2), torch.ones(3, 4), torch.ones(2, 4), torch.ones(2, 3))


def test_t21_backward_data_wants_the_expanded_state():
    rnn = legacy.RNNDesc(GRU, 3, 2)
    reserve, (y, _) = legacy.forwardTrain(rnn, torch.ones(3, 4), torch.zeros(2))
    with pytest.raises(InvalidValueError, match=r"hBatch\(x, h\) expands it"):
        legacy.backwardData(rnn, y, y, None, torch.zeros(2), reserve)
    with pytest.raises(InvalidValueError, match=r"y is of shape \[2\]"):
        legacy.backwardData(rnn, y[:, 0], y, None, torch.zeros(2, 4), reserve)
    with pytest.raises(InvalidTypeError, match=r"what forwardTrain"):
        legacy.backwardData(rnn, y, y, None, torch.zeros(2, 4), b"bytes")
    with pytest.raises(InvalidTypeError, match=r"expected 6 or 8"):
        legacy.backwardData(rnn, y, y, None, None, torch.zeros(2, 4), reserve)


def test_t22_an_empty_batch_works():
    rnn = legacy.RNNDesc(LSTM, 3, 2)
    (y, ho, co), back = legacy.pullback(rnn, torch.ones(3, 0), torch.ones(2), torch.ones(2))
    assert y.shape == ho.shape == co.shape == (2, 0)
    gradients = back(torch.ones(2, 0), None, None)
    assert gradients.x.shape == (3, 0)
    assert not gradients.Wi.any()


def test_t23_a_bias_of_another_length_is_refused():
    rnn = legacy.RNNDesc(GRU, 3, 2)
    for length in (5, 7):
        with pytest.raises(InvalidValueError, match=r"b is of shape .*expected \[6\]"):
            legacy.setweights(rnn, torch.ones(6, 3), torch.ones(6, 2), torch.ones(length))
    assert not rnn.params.any()


def test_t24_relu_has_slope_zero_at_zero():
    rnn = desc(RELU, [[1.0]], [[1.0]], [0.0])
    (y, _), back = legacy.pullback(rnn, f64([0.0]), f64([0.0]))
    assert y == 0
    assert back(f64([1.0]), None).x == 0


def test_t39_a_square_batch_given_rows_first_is_another_result():
    """B == I passes every check, so nothing can catch it: features come first."""
    rnn = desc(TANH, [[1.0, 2.0]], [[0.0]], [0.0])
    x = f64([[0.1, 0.2], [0.3, 0.4]])
    y, _ = legacy.forward(rnn, x, f64([0.0]))
    assert_same(torch.tanh(f64([[0.1 + 0.6, 0.2 + 0.8]])), y)
    with pytest.raises(InvalidValueError, match=r"features first"):
        legacy.forward(rnn, f64([[0.1, 0.2]] * 3), f64([0.0]))
