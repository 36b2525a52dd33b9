"""TensorFlow's arrays, by the equations of its operators in NumPy, and saved runs of TensorFlow itself.

TensorFlow 2.21 takes 2.2 GB, so it is in no environment. It ran its operator ``LSTMBlockCell``, and the
``BasicLSTMCell`` and ``MultiRNNCell`` that ``tf_keras`` 2.21 still has. ``CudnnRNN`` runs on a GPU only.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from cases import BIASES, CELLS, examples
from compare import assert_bitwise, assert_same
from hypothesis import given
from hypothesis import strategies as st

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    rnn_forward,
)
from rnncompat.convert.tensorflow import from_basic_lstm, from_cudnn_rnn, to_basic_lstm, to_cudnn_rnn

I, H, B, T = 3, 5, 4, 7
X = np.random.default_rng(9).normal(size=(T, B, I))
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def run(descriptor, weights):
    return rnn_forward(descriptor, weights, torch.tensor(X), backend="reference")[0].detach()


def basic_lstm(cells, xs, forget_bias):
    """``BasicLSTMCell.call`` step by step: ``i, j, f, o = split([x; h] kernel + bias)``."""
    for cell in cells:
        h = c = np.zeros((xs.shape[1], cell["kernel"].shape[1] // 4))
        ys = []
        for x in xs:
            i, j, f, o = np.split(np.concatenate([x, h], 1) @ cell["kernel"] + cell["bias"], 4, axis=1)
            c = c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j)
            h = np.tanh(c) * sigmoid(o)
            ys.append(h)
        xs = np.stack(ys)
    return xs


def cells(layers, inputs=I):
    rng = np.random.default_rng(3)
    sizes = [inputs] + [H] * (layers - 1)
    return [{"kernel": rng.normal(size=(rows + H, 4 * H)), "bias": rng.normal(size=4 * H)} for rows in sizes]


@pytest.mark.parametrize("forget_bias", [0.0, 1.0, 0.3])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_basic_lstm_cells(layers, forget_bias):
    arrays = cells(layers)
    descriptor, weights, done = from_basic_lstm(arrays, forget_bias=forget_bias)
    assert descriptor == RNNDescriptor("lstm", I, H, num_layers=layers, bias="input")
    said = (
        (f"forget_bias {forget_bias} added to the bias of f, rounded to torch.float64",)
        if forget_bias
        else ()
    )
    assert done == ("gates i g f o became i f g o", *said)
    assert_same(basic_lstm(arrays, X, forget_bias), run(descriptor, weights))
    assert weights.flat.numel() == sum(a.size for cell in arrays for a in cell.values())
    back, _ = to_basic_lstm(descriptor, weights)
    assert_same(
        basic_lstm([{k: v.numpy() for k, v in c.items()} for c in back], X, 0.0), run(descriptor, weights)
    )
    if not forget_bias:
        for cell, again in zip(arrays, back, strict=True):
            assert_bitwise([cell["kernel"], cell["bias"]], [again["kernel"], again["bias"]])


def test_tensorflows_own_operator():
    """Seven steps of ``tf.raw_ops.LSTMBlockCell`` with ``forget_bias=1.0``, float32, run by TensorFlow 2.21."""
    saved = np.load(Path(__file__).parent / "data" / "tensorflow_lstm.npz")
    cell = {"kernel": saved["kernel"], "bias": saved["bias"]}
    assert_same(basic_lstm([cell], saved["x"], 1.0)[-1], torch.tensor(saved["h"]).double(), 1e-6)
    descriptor, weights, _ = from_basic_lstm(cell, forget_bias=1.0)
    output, _ = rnn_forward(descriptor, weights, torch.tensor(saved["x"]), backend="reference")
    assert_same(saved["h"], output[-1].detach(), 1e-6)


@pytest.mark.parametrize("forget_bias", [1.0, 0.3])
def test_tensorflows_own_cells(forget_bias):
    """Two in a ``MultiRNNCell``, float32, seven steps."""
    saved = np.load(Path(__file__).parent / "data" / "tensorflow_basic.npz")
    arrays = [saved[f"{forget_bias}_{k}"] for k in range(4)]
    both = [{"kernel": arrays[k], "bias": arrays[k + 1]} for k in (0, 2)]
    descriptor, weights, _ = from_basic_lstm(both, forget_bias=forget_bias)
    assert descriptor == RNNDescriptor("lstm", I, H, num_layers=2, bias="input")
    x = torch.tensor(saved["x"])
    output, _ = rnn_forward(descriptor, weights, x, batch_first=True, backend="reference")
    assert_same(saved[f"y_{forget_bias}"], output.detach(), 1e-6)


def test_a_forget_bias_is_taken_off_where_that_is_exact_and_refused_else():
    descriptor = RNNDescriptor("lstm", I, H, bias="input")
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    with pytest.raises(UnsupportedError, match="cannot be taken off the bias of layer 1 without rounding"):
        to_basic_lstm(descriptor, weights, forget_bias=0.1)
    with torch.no_grad():
        weights["bias_ih_l0"].copy_(torch.arange(4 * H) / 8)
    (cell,), done = to_basic_lstm(descriptor, weights, forget_bias=1.0)
    assert done[-1] == "forget_bias 1.0 taken off the bias of f"
    assert_same(basic_lstm([{k: v.numpy() for k, v in cell.items()}], X, 1.0), run(descriptor, weights))
    _, again, done = from_basic_lstm(cell, forget_bias=1.0)
    assert done[-1] == "forget_bias 1.0 added to the bias of f, exactly"
    assert_bitwise(weights.flat.detach(), again.flat.detach())


@examples(60)
@given(
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
    st.floats(-4, 4, width=32).filter(bool),
    st.lists(st.floats(-8, 8, width=32), min_size=H, max_size=H),
)
def test_done_says_whether_the_addition_rounded(dtype, forget_bias, numbers):
    bias = torch.zeros(4 * H, dtype=dtype)
    bias[2 * H : 3 * H] = torch.tensor(numbers, dtype=dtype)
    cell = {"kernel": torch.zeros(I + H, 4 * H, dtype=dtype), "bias": bias}
    _, weights, done = from_basic_lstm(cell, forget_bias=forget_bias)
    constant = Fraction(torch.tensor(forget_bias, dtype=dtype).item())
    pairs = zip(bias[2 * H : 3 * H].tolist(), weights["bias_ih_l0"][H : 2 * H].tolist(), strict=True)
    exact = all(Fraction(old) + constant == Fraction(new) for old, new in pairs)
    assert done[-1].endswith("exactly" if exact else f"rounded to {dtype}")


def test_one_cell_that_rounds_is_enough_to_say_so():
    whole = {**cells(1)[0], "bias": np.zeros(4 * H)}
    _, _, done = from_basic_lstm([whole, cells(2)[1]])
    assert done[-1] == "forget_bias 1.0 added to the bias of f, rounded to torch.float64"


def test_bits_are_kept_where_nothing_is_added():
    bias = torch.full((4 * H,), -0.0)
    weights = from_basic_lstm({"kernel": torch.zeros(I + H, 4 * H), "bias": bias}, forget_bias=0.0).weights
    assert bool(weights["bias_ih_l0"].signbit().all())
    assert bool(bias.signbit().all())
    with torch.no_grad():
        weights["bias_ih_l0"].fill_(float("nan"))
    assert bool(to_basic_lstm(weights.descriptor, weights).arrays[0]["bias"].isnan().all())


def test_the_arrays_given_are_left_as_they_are():
    bias = torch.zeros(4 * H)
    from_basic_lstm({"kernel": torch.zeros(I + H, 4 * H), "bias": bias}, forget_bias=1.0)
    assert not bool(bias.any())


@pytest.mark.parametrize(
    ("forget_bias", "error"),
    [
        (None, InvalidTypeError),
        ("1", InvalidTypeError),
        (True, InvalidTypeError),
        (float("nan"), InvalidValueError),
    ],
)
def test_a_forget_bias_that_is_no_number_is_refused(forget_bias, error):
    descriptor = RNNDescriptor("lstm", I, H)
    for convert in (
        lambda: from_basic_lstm(CELL, forget_bias=forget_bias),
        lambda: to_basic_lstm(descriptor, RNNWeights.init(descriptor), forget_bias=forget_bias),
    ):
        with pytest.raises(error, match="forget_bias is"):
            convert()


@pytest.mark.parametrize("bias", BIASES)
def test_every_bias_mode_goes_into_basic_cells(bias):
    descriptor = RNNDescriptor("lstm", I, H, num_layers=2, bias=bias)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    arrays = [{k: v.numpy() for k, v in cell.items()} for cell in to_basic_lstm(descriptor, weights).arrays]
    assert_same(basic_lstm(arrays, X, 0.0), run(descriptor, weights))


CELL = cells(1)[0]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([], InvalidTypeError, "the variables of one cell"),
        (None, InvalidTypeError, "cells is a NoneType"),
        ({1: 2, "kernel": 3}, InvalidValueError, "the variables kernel and bias"),
        ({**CELL, "kernel": CELL["bias"]}, InvalidValueError, "kernel of cell 1"),
        ({"kernel": CELL["kernel"]}, InvalidValueError, "the variables kernel and bias"),
        ({**CELL, "w_f_diag": CELL["bias"]}, UnsupportedError, "cell 1 has peepholes"),
        ({**CELL, "kernel": CELL["kernel"][:, :-1]}, InvalidValueError, "kernel of cell 1"),
        ({**CELL, "kernel": CELL["kernel"][:H]}, InvalidValueError, "kernel of cell 1"),
        ({**CELL, "bias": CELL["bias"][1:]}, InvalidValueError, "bias of cell 1"),
        ([CELL, CELL], InvalidValueError, "kernel of cell 2"),
    ],
)
def test_cells_that_do_not_fit_are_named(given, error, words):
    with pytest.raises(error, match=words):
        from_basic_lstm(given)


def canonical(cell, layers, directions):
    """Lists as ``CudnnRNNCanonicalToParams`` takes them."""
    rng = np.random.default_rng(4)
    matrices, biases = [], []
    for layer in range(layers):
        for _ in range(directions):
            rows = H * directions if layer else I
            matrices += [rng.normal(size=(H, rows)) for _ in range(GATES[cell])]
            matrices += [rng.normal(size=(H, H)) for _ in range(GATES[cell])]
            biases += [rng.normal(size=H) for _ in range(2 * GATES[cell])]
    return matrices, biases


def cudnn(cell, matrices, biases, layers, directions):
    """The library's own equations, gate by gate, on ``[T, B, I]``."""
    gates, xs = GATES[cell], X
    left_m, left_b = iter(matrices), iter(biases)
    for _ in range(layers):
        halves = []
        for direction in range(directions):
            w, r = ([next(left_m) for _ in range(gates)] for _ in range(2))
            bw, br = ([next(left_b) for _ in range(gates)] for _ in range(2))
            h = c = np.zeros((B, H))
            ys = []
            for x in xs[::-1] if direction else xs:
                gx = [x @ m.T + b for m, b in zip(w, bw, strict=True)]
                gh = [h @ m.T + b for m, b in zip(r, br, strict=True)]
                h, c = cudnn_step(cell, gx, gh, h, c)
                ys.append(h)
            halves.append(np.stack(ys[::-1] if direction else ys))
        xs = np.concatenate(halves, 2)
    return xs


def cudnn_step(cell, gx, gh, h, c):
    if cell == "lstm":
        i, f, g, o = (a + b for a, b in zip(gx, gh, strict=True))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if cell == "gru":
        r, z = sigmoid(gx[0] + gh[0]), sigmoid(gx[1] + gh[1])
        return (1 - z) * np.tanh(gx[2] + r * gh[2]) + z * h, c
    return (np.tanh if cell == "rnn_tanh" else lambda v: np.maximum(v, 0))(gx[0] + gh[0]), c


@pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize(("cell", "layers"), list(itertools.product(CELLS, (1, 2, 3))))
def test_canonical_arrays(cell, layers, both):
    matrices, biases = canonical(cell, layers, 1 + both)
    descriptor, weights, done = from_cudnn_rnn(
        matrices, biases, cell=cell, num_layers=layers, bidirectional=both
    )
    assert (descriptor, done) == (RNNDescriptor(cell, I, H, num_layers=layers, bidirectional=both), ())
    assert weights.flat.numel() == sum(a.size for a in (*matrices, *biases))
    assert_same(cudnn(cell, matrices, biases, layers, 1 + both), run(descriptor, weights))
    (back, back_biases), done = to_cudnn_rnn(descriptor, weights)
    assert done == ()
    assert_bitwise(matrices, back)
    assert_bitwise(biases, back_biases)


@pytest.mark.parametrize(("cell", "bias"), list(itertools.product(CELLS, BIASES)))
def test_every_bias_mode_goes_into_canonical_arrays(cell, bias):
    descriptor = RNNDescriptor(cell, I, H, num_layers=2, bias=bias, bidirectional=True)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    (matrices, biases), done = to_cudnn_rnn(descriptor, weights)
    plain = [m.numpy() for m in matrices], [b.numpy() for b in biases]
    assert_same(cudnn(cell, *plain, 2, 2), run(descriptor, weights))
    assert bool(done) is (bias != "double")


MATRICES, VECTORS = canonical("gru", 1, 1)


@pytest.mark.parametrize(
    ("matrices", "biases", "options", "words"),
    [
        (MATRICES[:-1], VECTORS, {}, "weights has 5 arrays; expected 6"),
        (MATRICES, VECTORS[:-1], {}, "biases has 5 arrays"),
        (MATRICES, VECTORS, {"num_layers": 2}, "expected 12"),
        ([MATRICES[0].T, *MATRICES[1:]], VECTORS, {}, r"weights\[1\]"),
        ([*MATRICES[:4], MATRICES[4][:, :2], MATRICES[5]], VECTORS, {}, r"weights\[4\]"),
        (MATRICES, [*VECTORS[:5], VECTORS[5][:2]], {}, r"biases\[5\]"),
        (VECTORS, VECTORS, {}, r"weights\[0\]"),
    ],
)
def test_arrays_that_do_not_fit_are_named(matrices, biases, options, words):
    with pytest.raises(InvalidValueError, match=words):
        from_cudnn_rnn(matrices, biases, cell="gru", **options)


@pytest.mark.parametrize(
    ("weights", "options", "error", "words"),
    [
        (None, {}, InvalidTypeError, "weights is a NoneType"),
        ([], {"num_layers": 0}, InvalidValueError, "num_layers is 0"),
        (MATRICES, {"num_layers": 1.0}, InvalidTypeError, "num_layers is a float"),
        (MATRICES, {"cell": "sru"}, InvalidValueError, "cell is 'sru'"),
    ],
)
def test_arguments_are_checked_first(weights, options, error, words):
    with pytest.raises(error, match=words):
        from_cudnn_rnn(weights, VECTORS, **{"cell": "gru", **options})


@pytest.mark.parametrize(
    ("cell", "options", "export", "words"),
    [
        ("gru", {}, to_basic_lstm, "a BasicLSTMCell is an LSTM"),
        ("lstm", {"bidirectional": True}, to_basic_lstm, "only one direction"),
        ("lstm", {"proj_size": 2}, to_cudnn_rnn, "no projection"),
        ("lstm", {"cell_clip": (-1, 1)}, to_cudnn_rnn, "no clipping"),
    ],
)
def test_networks_that_they_lack_are_refused(cell, options, export, words):
    descriptor = RNNDescriptor(cell, I, H, **options)
    with pytest.raises(UnsupportedError, match=words):
        export(descriptor, RNNWeights.init(descriptor))
