"""Keras's old cuDNN layers: turned by the rule of Keras 2's own loader, then by its equations in NumPy."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import numpy_keras
import pytest
import torch
from cases import BIASES
from compare import assert_bitwise, assert_same

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    rnn_forward,
)
from rnncompat.convert.keras import from_keras
from rnncompat.convert.keras_cudnn import from_keras_cudnn, to_keras_cudnn

I, H, B, T = 3, 5, 4, 7
X = np.random.default_rng(9).normal(size=(B, T, I))


def draw(cell, layers, both):
    """The arrays of a plain network of two biases, and those of its cuDNN layers."""
    plain = numpy_keras.draw("gru" if cell == "gru" else "lstm", layers, both=both)
    rng = np.random.default_rng(1)
    if cell == "lstm":  # two biases, which the equations take as their sum
        split = [[rng.normal(size=(2, 4 * H)) if a.ndim == 1 else a for a in layer] for layer in plain]
        plain = [[a.sum(0) if a.shape == (2, 4 * H) else a for a in layer] for layer in split]
        return plain, [numpy_keras.as_cudnn(layer, both) for layer in split]
    return plain, [numpy_keras.as_cudnn(layer, both) for layer in plain]


def run(descriptor, weights):
    output, _ = rnn_forward(descriptor, weights, torch.tensor(X), batch_first=True, backend="reference")
    return output.detach()


@pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize(("cell", "layers"), list(itertools.product(("lstm", "gru"), (1, 2, 3))))
def test_layers_come_in_and_go_out(cell, layers, both):
    plain, arrays = draw(cell, layers, both)
    descriptor, weights, done = from_keras_cudnn(arrays)
    assert descriptor == RNNDescriptor(cell, I, H, num_layers=layers, bidirectional=both)
    assert done == (("gates z r n became r z n",) if cell == "gru" else ())
    assert weights.flat.numel() == sum(array.size for layer in arrays for array in layer)
    assert_same(numpy_keras.run(cell, plain, X, both), run(descriptor, weights))
    assert_bitwise(arrays, to_keras_cudnn(descriptor, weights).arrays)


def test_a_matrix_of_one_gate_is_the_memory_of_its_block():
    """What cuDNN was handed: the block's numbers as they lie, read as rows ``[H, in]``."""
    _, (arrays,) = draw("lstm", 1, False)
    weights = from_keras_cudnn([arrays]).weights
    for gate in range(4):
        rows = slice(gate * H, (gate + 1) * H)
        for name, kernel in (("weight_ih_l0", arrays[0]), ("weight_hh_l0", arrays[1])):
            block = np.ascontiguousarray(kernel[:, rows])
            assert_bitwise(block.reshape(H, -1), weights[name][rows].detach())


@pytest.mark.parametrize("layer", ["cu_lstm", "cu_gru", "gru", "lstm"])
def test_the_flat_weights_are_those_that_keras_2_hands_to_cudnn(layer):
    """``params`` of its calls of ``CudnnRNN``, recorded in ``tf_keras`` 2.21: one layer, so the library's own order."""
    saved = np.load(Path(__file__).parent / "data" / "keras2_params.npz")
    convert = from_keras_cudnn if layer.startswith("cu") else from_keras
    flat = convert([[saved[f"{layer}_{k}"] for k in range(3)]]).weights.flat.detach()
    if layer == "lstm":  # one bias here, and there zeros before it
        matrices, (zeros, bias) = (
            saved[layer][: 4 * H * (I + H)],
            saved[layer][4 * H * (I + H) :].reshape(2, -1),
        )
        assert not zeros.any()
        assert_bitwise(np.concatenate([matrices, bias]), flat)
    else:
        assert_bitwise(saved[layer], flat)


@pytest.mark.parametrize(("cell", "bias"), list(itertools.product(("lstm", "gru"), BIASES)))
def test_every_bias_mode_goes_out(cell, bias):
    descriptor = RNNDescriptor(cell, I, H, num_layers=2, bias=bias)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    arrays = to_keras_cudnn(descriptor, weights).arrays
    again = from_keras_cudnn(arrays)
    assert again.descriptor.bias.value == "double"
    assert_same(run(descriptor, weights), run(again.descriptor, again.weights))


_, (ONE,) = draw("lstm", 1, False)


@pytest.mark.parametrize(
    ("layers", "error", "words"),
    [
        (ONE, InvalidTypeError, r"\[layer.get_weights\(\)\] for one"),
        ([], InvalidTypeError, "at least one layer"),
        ([ONE[:2]], InvalidTypeError, "It has 2"),
        ([[*ONE[:2], ONE[2][:20]]], InvalidValueError, "bias of layer 1"),
        ([[ONE[0][:, :-1], *ONE[1:]]], InvalidValueError, "kernel of layer 1"),
        ([[ONE[0], ONE[1].T, ONE[2]]], InvalidValueError, "recurrent_kernel of layer 1"),
        ([[ONE[0], ONE[1][:, :10], ONE[2]]], InvalidValueError, "recurrent_kernel of layer 1"),
    ],
)
def test_what_does_not_fit_is_named(layers, error, words):
    with pytest.raises(error, match=words):
        from_keras_cudnn(layers)


@pytest.mark.parametrize(
    ("cell", "options", "words"),
    [("rnn_tanh", {}, "CuDNNLSTM and CuDNNGRU only"), ("lstm", {"proj_size": 2}, "has no projection")],
)
def test_networks_that_it_lacks_are_refused(cell, options, words):
    descriptor = RNNDescriptor(cell, I, H, **options)
    with pytest.raises(UnsupportedError, match=words):
        to_keras_cudnn(descriptor, RNNWeights.init(descriptor))
