"""Keras layers: Keras itself where it is installed, and its equations in NumPy everywhere."""

from __future__ import annotations

import itertools
import os

import numpy as np
import numpy_keras
import pytest
import torch
from cases import BIASES, CELLS
from compare import assert_bitwise, assert_same

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    rnn_forward,
)
from rnncompat.convert.keras import from_keras, to_keras

I, H, B, T = 3, 5, 4, 7
X = np.random.default_rng(9).normal(size=(B, T, I))
BOTH = pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])
ACTIVATION = {"rnn_relu": "relu"}


def run(descriptor, weights, x=X):
    output, _ = rnn_forward(descriptor, weights, torch.tensor(x), batch_first=True, backend="reference")
    return output.detach()


def numpy(layers):
    return [[array.detach().numpy() for array in arrays] for arrays in layers]


@BOTH
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("cell", "layers"), list(itertools.product(CELLS, (1, 2, 3))))
def test_layers_come_in_and_go_out(cell, layers, bias, both):
    arrays = numpy_keras.draw(cell, layers, both=both, bias=bias)
    descriptor, weights, done = from_keras(arrays, activation=ACTIVATION.get(cell, "tanh"))
    mode = {True: "double" if cell == "gru" else "input", False: "none"}[bias]
    assert descriptor == RNNDescriptor(cell, I, H, num_layers=layers, bidirectional=both, bias=mode)
    assert done == (("gates z r n became r z n",) if cell == "gru" else ())
    assert weights.flat.numel() == sum(array.size for layer in arrays for array in layer)
    assert_same(numpy_keras.run(cell, arrays, X, both), run(descriptor, weights))
    back, done = to_keras(descriptor, weights)
    assert_bitwise(arrays, back)
    assert done == (("gates r z n became z r n",) if cell == "gru" else ())


@BOTH
@pytest.mark.parametrize(("cell", "bias"), list(itertools.product(CELLS, BIASES)))
def test_every_bias_mode_goes_out(cell, bias, both):
    descriptor = RNNDescriptor(cell, I, H, num_layers=2, bias=bias, bidirectional=both, dropout=0.5)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    arrays, done = to_keras(descriptor, weights)
    assert done[-1] == "left out dropout=0.5, which is not in the arrays"
    assert_same(numpy_keras.run(cell, numpy(arrays), X, both), run(descriptor, weights))


def test_layers_with_and_without_a_bias():
    first, second = numpy_keras.draw("lstm", 2)
    descriptor, weights, done = from_keras([first[:2], second])
    assert done == ("added biases of zeros to the layers without them",)
    assert_same(numpy_keras.run("lstm", [first[:2], second], X), run(descriptor, weights))


def keras_layer(keras, cell, both, bias):
    kind, options = {
        "lstm": (keras.layers.LSTM, {}),
        "gru": (keras.layers.GRU, {}),
        "rnn_tanh": (keras.layers.SimpleRNN, {}),
        "rnn_relu": (keras.layers.SimpleRNN, {"activation": "relu"}),
    }[cell]
    layer = kind(H, return_sequences=True, use_bias=bias, dtype="float64", **options)
    return keras.layers.Bidirectional(layer, dtype="float64") if both else layer


@pytest.fixture(scope="module")
def keras():
    os.environ.setdefault("KERAS_BACKEND", "torch")
    return pytest.importorskip("keras", reason="Keras comes with the environment convert")


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, of its own arrays
@BOTH
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", CELLS)
def test_keras_itself_agrees(keras, cell, bias, both):
    model = keras.Sequential(
        [keras.Input((T, I), dtype="float64"), *(keras_layer(keras, cell, both, bias) for _ in range(2))]
    )
    # Small, for ReLU may grow from step to step.
    arrays = [[a * 0.3 for a in layer] for layer in numpy_keras.draw(cell, 2, both=both, bias=bias)]
    for layer, own in zip(model.layers, arrays, strict=True):
        layer.set_weights(own)
    expected = keras.ops.convert_to_numpy(model(X))
    np.testing.assert_allclose(numpy_keras.run(cell, arrays, X, both), expected, atol=1e-6)
    given = [layer.get_weights() for layer in model.layers]
    descriptor, weights, _ = from_keras(given, activation=ACTIVATION.get(cell, "tanh"))
    assert_same(expected, run(descriptor, weights), 1e-6)
    for layer, own in zip(model.layers, to_keras(descriptor, weights).arrays, strict=True):
        assert_bitwise(layer.get_weights(), own)
        layer.set_weights([array.numpy() * 0 for array in own])
        layer.set_weights(own)
    assert_same(expected, torch.as_tensor(keras.ops.convert_to_numpy(model(X))), 0)


def test_a_gru_that_resets_before_the_product_is_refused():
    kernel, recurrent, bias = numpy_keras.draw("gru")[0]
    with pytest.raises(UnsupportedError, match="made with reset_after=False"):
        from_keras([[kernel, recurrent, bias[0]]])
    with pytest.raises(UnsupportedError, match="reset_after is False"):
        from_keras([[kernel, recurrent]], reset_after=False)


@pytest.mark.parametrize(
    ("cell", "options", "words"),
    [
        ("lstm", {"activation": "relu"}, "activation is 'relu'; a 'lstm' here has 'tanh'"),
        ("gru", {"recurrent_activation": "hard_sigmoid"}, "recurrent_activation is 'hard_sigmoid'"),
        ("rnn_tanh", {"activation": "elu"}, "activation is 'elu'"),
        ("lstm", {"both": True, "merge_mode": "sum"}, "merge_mode is 'sum'"),
    ],
)
def test_what_no_network_here_computes_is_refused(cell, options, words):
    arrays = numpy_keras.draw(cell, both=options.pop("both", False))
    with pytest.raises((UnsupportedError, InvalidValueError), match=words):
        from_keras(arrays, **options)


def test_an_activation_is_given_by_its_name():
    with pytest.raises(InvalidTypeError, match="activation is a dict; expected Keras's name of it"):
        from_keras(numpy_keras.draw("rnn_tanh"), activation={"class_name": "function", "config": "tanh"})


def test_options_of_other_layers_do_not_matter():
    assert (
        from_keras(numpy_keras.draw("lstm"), reset_after=False, merge_mode="sum").descriptor.hidden_size == H
    )
    assert from_keras(numpy_keras.draw("rnn_tanh"), recurrent_activation="relu").descriptor.hidden_size == H


ONE = numpy_keras.draw("lstm")[0]


@pytest.mark.parametrize(
    ("layers", "error", "words"),
    [
        (ONE, InvalidTypeError, r"\[layer.get_weights\(\)\] for one"),
        ([], InvalidTypeError, "one get_weights"),
        ([ONE[:1]], InvalidValueError, "layer 1 has 1 arrays"),
        ([[*ONE, *ONE[:2]]], InvalidValueError, "layer 1 has 5 arrays"),
        (
            [[ONE[0].T, *ONE[1:]]],
            InvalidValueError,
            r"kernel of layer 1 is of shape \[20, 3\]; expected shape \[20, 20\]",
        ),
        ([[ONE[0], ONE[1].T, ONE[2]]], InvalidValueError, "recurrent_kernel of layer 1"),
        ([[ONE[0], ONE[1], ONE[2][:-1]]], InvalidValueError, "bias_ih of layer 1"),
        ([[ONE[0], ONE[1], np.tile(ONE[2], 2)]], InvalidValueError, "keras_cudnn reads them"),
        ([[ONE[0].astype("float32"), *ONE[1:]]], InvalidTypeError, "expected one dtype"),
        ([ONE, ONE], InvalidValueError, "kernel of layer 2"),
        (
            [ONE, [*numpy_keras.draw("lstm", both=True, inputs=5)[0]]],
            UnsupportedError,
            r"directions \[1, 2\]",
        ),
        ([ONE, numpy_keras.draw("lstm", inputs=5, units=2)[0]], UnsupportedError, r"units \[5, 2\]"),
    ],
)
def test_what_does_not_fit_is_named(layers, error, words):
    with pytest.raises(error, match=words):
        from_keras(layers)


@pytest.mark.parametrize(
    "options", [{"proj_size": 2}, {"cell_clip": (-1, 1)}, {"input_mode": "skip", "input_size": H}]
)
def test_options_that_keras_lacks_are_refused(options):
    descriptor = RNNDescriptor("lstm", options.pop("input_size", I), H, **options)
    with pytest.raises(UnsupportedError, match="but Keras has no"):
        to_keras(descriptor, RNNWeights.init(descriptor))
