"""Knet: its equations gate by gate in its own orientation, and its flat ``w`` by the published order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from cases import BIASES, CELLS
from compare import assert_bitwise, assert_same
from numpy_rnn import GATES, sigmoid
from old_layers import CELLS as KINDS
from old_layers import LAYERS, B, H, T, X

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    legacy,
    rnn_forward,
)
from rnncompat.convert.knet import from_knet, from_rnnparams, to_knet, to_rnnparams

EVERY = list(itertools.product(CELLS, (1, 2, 3), (1, 2), (False, True)))


def draw(cell, layers, directions, skip):
    """``rnnparams(r)``: matrices ``(in, H)`` by layer and id, then biases, from its documentation."""
    rng = np.random.default_rng(6)
    matrices = []
    for layer in range(layers):
        inputs = (H if skip else X) if layer == 0 else directions * H
        for _ in range(directions):
            for rows in [None if layer == 0 and skip else inputs] * GATES[cell] + [H] * GATES[cell]:
                matrices += [None if rows is None else rng.normal(size=(rows, H)) / 2]
    return matrices + list(rng.normal(size=(len(matrices), H)))


def knet_forward(params, cell, layers, directions, steps):
    """y ``(T, B, H*D)`` of *steps* ``(T, B, X)``: ``x' * w`` for every gate alone, by its id."""
    gates = GATES[cell]
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            first = (layer * directions + direction) * 2 * gates
            matrices = params[first : first + 2 * gates]
            biases = params[len(params) // 2 + first : len(params) // 2 + first + 2 * gates]
            h = c = np.zeros((steps.shape[1], H))
            out = []
            for x in steps[::-1] if direction else steps:
                a = [
                    (x if w is None else x @ w) + b
                    for w, b in zip(matrices[:gates], biases[:gates], strict=True)
                ]
                r = [h @ w + b for w, b in zip(matrices[gates:], biases[gates:], strict=True)]
                h, c = knet_step(cell, a, r, h, c)
                out.append(h)
            outputs.append(np.stack(out[::-1] if direction else out))
        steps = np.concatenate(outputs, axis=2)
    return steps


def knet_step(cell, a, r, h, c):
    if cell == "rnn_relu":
        return np.maximum(a[0] + r[0], 0), c
    if cell == "rnn_tanh":
        return np.tanh(a[0] + r[0]), c
    if cell == "gru":
        reset, z = sigmoid(a[0] + r[0]), sigmoid(a[1] + r[1])
        return (1 - z) * np.tanh(a[2] + reset * r[2]) + z * h, c
    i, f, g, o = (x + y for x, y in zip(a, r, strict=True))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def run(descriptor, weights, steps):
    return rnn_forward(descriptor, weights, torch.tensor(steps), backend="reference")[0]


@pytest.mark.parametrize(("cell", "layers", "directions", "skip"), EVERY)
def test_every_gate_finds_its_place(cell, layers, directions, skip):
    params = draw(cell, layers, directions, skip)
    descriptor, weights, done = from_rnnparams(params, cell=cell, bidirectional=directions == 2)
    assert done == ("transposed the matrices of single gates",)
    assert (descriptor.num_layers, descriptor.input_size) == (layers, H if skip else X)
    assert weights.flat.numel() == sum(array.size for array in params if array is not None)
    steps = np.random.default_rng(7).normal(size=(T, B, descriptor.input_size))
    assert_same(knet_forward(params, cell, layers, directions, steps), run(descriptor, weights, steps))
    assert_bitwise(params, to_rnnparams(descriptor, weights).arrays)
    flat = np.concatenate([array.T.ravel() for array in params if array is not None])
    assert_bitwise(flat[None, None], to_knet(descriptor, weights).arrays)


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_the_flat_w_in_the_published_order(layer):
    options = {
        "cell": KINDS[layer.kind],
        "input_size": layer.inputs,
        "hidden_size": H,
        "num_layers": layer.layers,
        "bidirectional": layer.bidirectional,
        "skip_input": layer.skip,
    }
    descriptor, weights, done = from_knet(layer.flat[None, None], **options)
    assert done == ()
    x = layer.data(B, T)
    y, *_ = layer.numpy(x)
    assert_same(y.transpose(2, 1, 0), run(descriptor, weights, x.transpose(2, 1, 0)))
    assert_bitwise(layer.flat[None, None], to_knet(descriptor, weights).arrays)
    assert_bitwise(weights.flat, from_knet(layer.flat, **options).weights.flat)


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_the_old_layer_itself(layer):
    with legacy.legacy_warnings("quiet"):
        r = layer.old()
        y = r(torch.tensor(layer.data(B, T)))
    descriptor, weights, _ = from_knet(
        r.w,
        cell=KINDS[layer.kind],
        input_size=layer.inputs,
        hidden_size=H,
        num_layers=layer.layers,
        bidirectional=layer.bidirectional,
        skip_input=layer.skip,
    )
    assert_same(y.permute(2, 1, 0), run(descriptor, weights, layer.data(B, T).transpose(2, 1, 0)))


@pytest.mark.parametrize("bias", BIASES)
def test_every_bias_mode_goes_out(bias):
    descriptor = RNNDescriptor("gru", X, H, num_layers=2, bidirectional=True, bias=bias, dropout=0.5)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    arrays, done = to_rnnparams(descriptor, weights)
    assert done[0] == "transposed the matrices of single gates"
    assert done[-1] == "left out dropout=0.5, which is not in the arrays"
    assert len(done) == (2 if bias == "double" else 3)
    steps = np.random.default_rng(7).normal(size=(T, B, X))
    plain = [array.detach().numpy() for array in arrays]
    assert_same(knet_forward(plain, "gru", 2, 2, steps), run(descriptor, weights, steps))


@pytest.mark.parametrize("write", [to_knet, to_rnnparams])
@pytest.mark.parametrize(
    ("options", "lacks"), [({"proj_size": 2}, "projection"), ({"cell_clip": (0, 1)}, "clipping")]
)
def test_what_knet_lacks_is_refused(write, options, lacks):
    descriptor = RNNDescriptor("lstm", X, H, **options)
    with pytest.raises(UnsupportedError, match=f"but Knet has no {lacks}"):
        write(descriptor, RNNWeights.init(descriptor))


def put(index, value):
    return lambda params: [*params[:index], value, *params[index + 1 :]]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda p: p[:-1], InvalidValueError, "params holds 11 arrays; expected a multiple of 12"),
        (lambda p: [], InvalidValueError, "params holds 0 arrays"),
        (
            put(1, np.ones((H, X))),
            InvalidValueError,
            r"params\[1\] is of shape \[5, 3\]; expected shape \[3, 5\]",
        ),
        (put(4, None), InvalidTypeError, r"params\[4\] is a NoneType; expected shape \[5, 5\]"),
        (put(0, None), InvalidTypeError, r"params\[1\] is a Tensor; expected None: with skip input"),
        (put(11, None), InvalidTypeError, r"params\[11\] is a NoneType; expected a bias"),
        (put(11, np.ones((1, H))), InvalidTypeError, r"params\[11\] is a Tensor; expected a bias of one"),
        (put(8, np.ones(H, np.float32)), InvalidTypeError, r"params\[8\] is torch.float32"),
        (put(8, np.ones(H, int)), InvalidTypeError, r"params\[8\] has dtype torch.int64"),
    ],
)
def test_what_is_no_list_of_parameters_is_refused(change, error, text):
    with pytest.raises(error, match=text):
        from_rnnparams(change(draw("gru", 1, 1, False)), cell="gru")


def test_another_size_of_w_is_refused():
    with pytest.raises(
        InvalidValueError, match=r"w is of shape \[1, 42\]; expected shape \[1, 1, 42\], or \[42\]"
    ):
        from_knet(torch.zeros(1, 42), cell="gru", input_size=3, hidden_size=2)
