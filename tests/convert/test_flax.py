"""Flax cells: Flax itself where it is installed, and its equations in NumPy everywhere."""

from __future__ import annotations

import itertools

import numpy as np
import numpy_flax
import pytest
import torch
from cases import BIASES, CELLS
from compare import assert_same

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    rnn_forward,
)
from rnncompat.convert.flax import from_flax, to_flax

I, H, B, T = 3, 5, 4, 7
X = np.random.default_rng(9).normal(size=(B, T, I))
MODES = {"lstm": "recurrent", "gru": "double", "rnn_tanh": "input", "rnn_relu": "input"}
BOTH = pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])


def activation(cell):
    return {"rnn_relu": "relu"}.get(cell, "tanh")


def run(descriptor, weights, x=X):
    output, _ = rnn_forward(descriptor, weights, torch.tensor(x), batch_first=True, backend="reference")
    return output.detach()


def leaves(layers):
    """Every array of nested parameters, by its path."""
    if not isinstance(layers, (dict, list, tuple)):
        return {(): np.asarray(layers)}
    items = layers.items() if isinstance(layers, dict) else enumerate(layers)
    return {(key, *path): leaf for key, inner in items for path, leaf in leaves(inner).items()}


@BOTH
@pytest.mark.parametrize(("cell", "layers"), list(itertools.product(CELLS, (1, 2, 3))))
def test_layers_come_in_and_go_out(cell, layers, both):
    params = numpy_flax.draw(cell, layers, both=both)
    descriptor, weights, done = from_flax(params, activation=activation(cell))
    assert descriptor == RNNDescriptor(cell, I, H, num_layers=layers, bidirectional=both, bias=MODES[cell])
    assert done == ()
    assert_same(numpy_flax.chain(cell, params, X), run(descriptor, weights))
    back, _ = to_flax(descriptor, weights)
    expected, found = leaves(params), leaves(back)
    assert expected.keys() == found.keys()
    assert all(np.array_equal(expected[path], found[path]) for path in expected)
    missing = {"gru": 2 * H * layers * (1 + both)}.get(
        cell, 0
    )  # zeros in the place of two biases of the state
    assert weights.flat.numel() == sum(leaf.size for leaf in expected.values()) + missing


@BOTH
@pytest.mark.parametrize(("cell", "bias"), list(itertools.product(CELLS, BIASES)))
def test_every_bias_mode_goes_out(cell, bias, both):
    descriptor = RNNDescriptor(cell, I, H, num_layers=2, bias=bias, bidirectional=both, dropout=0.5)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    arrays, done = to_flax(descriptor, weights)
    assert done[-1] == "left out dropout=0.5, which is not in the arrays"
    plain = [tuple(numpy_params(one) for one in layer) if both else numpy_params(layer) for layer in arrays]
    assert_same(numpy_flax.chain(cell, plain, X), run(descriptor, weights))


@pytest.mark.parametrize(
    ("cell", "bias", "done"),
    [
        ("lstm", "double", ("bias_ih + bias_hh became one bias",)),
        ("lstm", "input", ("bias_ih became the one bias",)),
        ("lstm", "recurrent", ()),
        ("lstm", "none", ("added a bias of zeros",)),
        ("gru", "double", ("bias_hh of r and z added to bias_ih",)),
        ("gru", "input", ("added a bias of zeros to hn",)),
        ("gru", "recurrent", ("bias_hh of r and z added to bias_ih",)),
        ("rnn_tanh", "input", ()),
        ("rnn_tanh", "recurrent", ("bias_hh became the one bias",)),
    ],
)
def test_what_became_of_the_biases_is_said(cell, bias, done):
    descriptor = RNNDescriptor(cell, I, H, bias=bias)
    assert to_flax(descriptor, RNNWeights.init(descriptor)).done == done


def numpy_params(params):
    return {dense: {name: t.numpy() for name, t in own.items()} for dense, own in params.items()}


@pytest.mark.filterwarnings("ignore")  # JAX and Flax, of each other
@pytest.mark.parametrize("kind", ["OptimizedLSTMCell", "LSTMCell", "GRUCell", "SimpleCell"])
def test_flax_itself_agrees(kind):
    linen = pytest.importorskip("flax.linen", reason="Flax comes with the environment convert")
    import jax  # noqa: PLC0415  # beside Flax only

    cell = {"GRUCell": "gru", "SimpleCell": "rnn_tanh"}.get(kind, "lstm")
    net = linen.RNN(getattr(linen, kind)(features=H))
    x = X.astype("float32")
    params = net.init(jax.random.PRNGKey(0), x)["params"]["cell"]
    (drawn,) = numpy_flax.draw(cell)
    assert leaves(params).keys() == leaves(drawn).keys()
    drawn = {dense: {n: a.astype("float32") for n, a in own.items()} for dense, own in drawn.items()}
    expected = np.asarray(net.apply({"params": {"cell": drawn}}, x))
    np.testing.assert_allclose(numpy_flax.run(cell, drawn, X), expected, atol=1e-6)
    descriptor, weights, _ = from_flax(drawn)
    assert_same(expected, run(descriptor, weights, x), 1e-6)
    arrays = numpy_params(to_flax(descriptor, weights).arrays[0])
    np.testing.assert_array_equal(net.apply({"params": {"cell": arrays}}, x), expected)
    given = from_flax(params)
    assert_same(np.asarray(net.apply({"params": {"cell": params}}, x)), run(*given[:2], x), 1e-6)


@pytest.mark.filterwarnings("ignore")  # JAX and Flax, of each other
@pytest.mark.parametrize("kind", ["OptimizedLSTMCell", "GRUCell", "SimpleCell"])
def test_flax_itself_agrees_in_both_directions(kind):
    linen = pytest.importorskip("flax.linen", reason="Flax comes with the environment convert")
    cell = {"GRUCell": "gru", "SimpleCell": "rnn_tanh"}.get(kind, "lstm")
    forward, backward = (linen.RNN(getattr(linen, kind)(features=H)) for _ in range(2))
    ((one, other),) = layers = [
        tuple(
            {dense: {n: a.astype("float32") for n, a in own.items()} for dense, own in params.items()}
            for params in pair
        )
        for pair in numpy_flax.draw(cell, both=True)
    ]
    params = {"forward_rnn": {"cell": one}, "backward_rnn": {"cell": other}}
    x = X.astype("float32")
    expected = np.asarray(linen.Bidirectional(forward, backward).apply({"params": params}, x))
    assert_same(expected, run(*from_flax(layers)[:2], x), 1e-6)


ONE = numpy_flax.draw("lstm")[0]


@pytest.mark.parametrize(
    ("layers", "options", "error", "words"),
    [
        ([], {}, InvalidTypeError, "the parameters of one cell"),
        (None, {}, InvalidTypeError, "layers is a NoneType"),
        ([()], {}, InvalidTypeError, "one or a pair a layer"),
        ([(ONE, ONE, ONE)], {}, InvalidTypeError, "one or a pair a layer"),
        ({1: ONE["ii"], "ii": ONE["ii"]}, {}, InvalidValueError, r"layer 1 has \['1', 'ii'\]"),
        ([ONE["ii"]], {}, InvalidValueError, r"layer 1 has \['kernel'\]"),
        ({**ONE, "hi": ONE["ii"]}, {}, InvalidValueError, r"hi of layer 1 has \['kernel'\]; expected"),
        (
            {**ONE, "if": {"kernel": ONE["ii"]["kernel"][:2]}},
            {},
            InvalidValueError,
            "kernel of if of layer 1",
        ),
        ({k: v for k, v in ONE.items() if k != "ho"}, {}, InvalidValueError, "layer 1 has"),
        ([ONE, numpy_flax.draw("gru", inputs=5)[0]], {}, UnsupportedError, "have the cells"),
        (ONE, {"activation": "relu"}, UnsupportedError, "activation is 'relu'; this cell has 'tanh'"),
        (numpy_flax.draw("rnn_tanh"), {"activation": "gelu"}, UnsupportedError, "activation is 'gelu'"),
        ([ONE, ONE], {}, InvalidValueError, "kernel of layer 2"),
    ],
)
def test_what_does_not_fit_is_named(layers, options, error, words):
    with pytest.raises(error, match=words):
        from_flax(layers, **options)


def test_options_that_flax_lacks_are_refused():
    descriptor = RNNDescriptor("lstm", I, H, proj_size=2)
    with pytest.raises(UnsupportedError, match="but Flax has no projection"):
        to_flax(descriptor, RNNWeights.init(descriptor))
