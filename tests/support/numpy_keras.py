"""Keras's recurrent layers in NumPy, on the arrays that ``get_weights()`` gives, batch first.

Written from the equations in Keras's documentation; ``test_keras.py`` holds them against Keras itself where it is.
"""

from __future__ import annotations

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def simple_rnn(arrays, x, activation=np.tanh):
    kernel, recurrent, bias = with_bias(arrays, arrays[1].shape[0])
    h = np.zeros((len(x), len(recurrent)))
    ys = []
    for t in range(x.shape[1]):
        h = activation(x[:, t] @ kernel + bias + h @ recurrent)
        ys.append(h)
    return np.stack(ys, 1)


def lstm(arrays, x):
    units = arrays[1].shape[0]
    kernel, recurrent, bias = with_bias(arrays, 4 * units)
    h = c = np.zeros((len(x), units))
    ys = []
    for t in range(x.shape[1]):
        i, f, g, o = np.split(x[:, t] @ kernel + h @ recurrent + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        ys.append(h)
    return np.stack(ys, 1)


def gru(arrays, x):
    """``reset_after=True``."""
    units = arrays[1].shape[0]
    kernel, recurrent, bias = with_bias(arrays, (2, 3 * units))
    h = np.zeros((len(x), units))
    ys = []
    for t in range(x.shape[1]):
        x_z, x_r, x_h = np.split(x[:, t] @ kernel + bias[0], 3, axis=1)
        h_z, h_r, h_h = np.split(h @ recurrent + bias[1], 3, axis=1)
        z, r = sigmoid(x_z + h_z), sigmoid(x_r + h_r)
        h = z * h + (1 - z) * np.tanh(x_h + r * h_h)
        ys.append(h)
    return np.stack(ys, 1)


def with_bias(arrays, shape):
    return [*arrays, np.zeros(shape)][:3]


def bidirectional(layer, arrays, x):
    half = len(arrays) // 2
    backward = layer(arrays[half:], x[:, ::-1])[:, ::-1]
    return np.concatenate([layer(arrays[:half], x), backward], axis=2)


LAYERS = {
    "lstm": lstm,
    "gru": gru,
    "rnn_tanh": simple_rnn,
    "rnn_relu": lambda arrays, x: simple_rnn(arrays, x, lambda v: np.maximum(v, 0)),
}
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def run(cell, layers, x, both=False):
    """Outputs ``(B, T, ·)`` of layers that follow each other."""
    for arrays in layers:
        x = bidirectional(LAYERS[cell], arrays, x) if both else LAYERS[cell](arrays, x)
    return x


def draw(cell, layers=1, *, both=False, bias=True, inputs=3, units=5, seed=7):
    """Random arrays of such layers."""
    rng = np.random.default_rng(seed)
    columns = GATES[cell] * units
    shape = (2, columns) if cell == "gru" else (columns,)
    found = []
    for _ in range(layers):
        found.append([])
        for _ in range(1 + both):
            found[-1] += [rng.normal(size=(inputs, columns)), rng.normal(size=(units, columns))]
            found[-1] += [rng.normal(size=shape)] if bias else []
        inputs = units * (1 + both)
    return found


def as_cudnn(arrays, both=False):
    """The same network as the layers ``CuDNNLSTM`` and ``CuDNNGRU`` hold it, bias ``(2, G*H)``.

    By the rule of Keras 2's own loader (``hdf5_format._convert_rnn_weights``, the direction to cuDNN).
    """
    found = []
    for k in range(1 + both):
        kernel, recurrent, bias = arrays[3 * k : 3 * k + 3]
        gates = kernel.shape[1] // len(recurrent)
        blocks = [b.T.reshape(b.shape, order="C") for b in np.split(kernel, gates, axis=1)]
        turned = [b.T for b in np.split(recurrent, gates, axis=1)]
        found += [np.hstack(blocks), np.hstack(turned), bias.reshape(-1)]
    return found
