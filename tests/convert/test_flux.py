"""Flux: its equations in NumPy on its own arrays, features first."""

from __future__ import annotations

import itertools

import numpy as np
import numpy_step
import pytest
import torch
from cases import BIASES, CELLS
from compare import assert_bitwise, assert_same
from flux_cases import Case

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNState,
    RNNWeights,
    UnsupportedError,
    layout_of,
    rnn_forward,
)
from rnncompat.convert.flux import from_flux, state_from_flux, to_flux

I, H, B, T = 3, 5, 4, 7
MODES = {"rnn_relu": "relu", "rnn_tanh": "tanh", "lstm": "lstm", "gru": "gru"}
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def draw(cell, layers=1, hidden=H):
    rng = np.random.default_rng(8)
    rows = GATES[cell] * hidden
    return [
        {
            "Wi": rng.normal(size=(rows, hidden if k else I)),
            "Wh": rng.normal(size=(rows, hidden)),
            "b": rng.normal(size=rows),
        }
        for k in range(layers)
    ]


def flux_forward(cell, layers, xs):
    """Outputs ``(T, H, B)`` of a ``Chain`` of cells on *xs* ``(T, in, B)``."""
    for fields in layers:
        h = c = np.zeros((fields["Wh"].shape[1], B))
        out = []
        for x in xs:
            h, c = numpy_step.forward(MODES[cell], *(fields[f] for f in ("Wi", "Wh", "b")), x, h, c)
            out.append(h)
        xs = np.stack(out)
    return xs


def run(descriptor, weights, xs, state=None):
    x = torch.tensor(xs).transpose(1, 2)
    return rnn_forward(descriptor, weights, x, state, backend="reference")[0].transpose(1, 2)


XS = np.random.default_rng(9).normal(size=(T, I, B))


@pytest.mark.parametrize(("cell", "layers"), list(itertools.product(CELLS, (1, 2, 3))))
def test_a_chain_of_layers(cell, layers):
    arrays = draw(cell, layers)
    descriptor, weights, done = from_flux(arrays, cell=cell)
    assert (descriptor, done) == (RNNDescriptor(cell, I, H, num_layers=layers, bias="input"), ())
    assert weights.flat.numel() == sum(array.size for fields in arrays for array in fields.values())
    assert_same(flux_forward(cell, arrays, XS), run(descriptor, weights, XS))
    back, done = to_flux(descriptor, weights)
    assert done == ()
    for fields, again in zip(arrays, back, strict=True):
        assert list(again) == ["Wi", "Wh", "b"]
        assert_bitwise(list(fields.values()), list(again.values()))


@pytest.mark.parametrize("absent", [{}, {"b": None}, {"b": False}])
def test_layers_without_a_bias(absent):
    layers = [{**{f: fields[f] for f in ("Wi", "Wh")}, **absent} for fields in draw("gru", 2)]
    zeros = [{**fields, "b": np.zeros(3 * H)} for fields in layers]
    descriptor, weights, done = from_flux(layers)
    assert (descriptor.bias.value, done) == ("none", ())
    assert_same(flux_forward("gru", zeros, XS), run(descriptor, weights, XS))
    mixed = [layers[0], draw("gru", 2)[1]]
    descriptor, weights, done = from_flux(mixed)
    assert done == ("added a bias of zeros to the layers without one",)
    assert_same(flux_forward("gru", [zeros[0], mixed[1]], XS), run(descriptor, weights, XS))


@pytest.mark.parametrize(("cell", "bias"), list(itertools.product(CELLS, BIASES)))
def test_every_bias_mode_goes_out_or_is_refused(cell, bias):
    descriptor = RNNDescriptor(cell, I, H, num_layers=2, bias=bias, dropout=0.5)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    if cell == "gru" and bias in ("double", "recurrent"):
        with pytest.raises(UnsupportedError, match="bias_hh of layer 1 is not zero at the new gate"):
            to_flux(descriptor, weights)
        with torch.no_grad():
            for layer in (0, 1):
                weights[f"bias_hh_l{layer}"][2 * H :] = 0
    arrays, done = to_flux(descriptor, weights)
    said = {
        "double": ("bias_ih + bias_hh became one bias",),
        "input": (),
        "recurrent": ("bias_hh became the one bias",),
        "none": ("added a bias of zeros",),
    }
    assert done == (*said[bias], "left out dropout=0.5, which is not in the arrays")
    plain = [{field: array.numpy() for field, array in fields.items()} for fields in arrays]
    assert_same(flux_forward(cell, plain, XS), run(descriptor, weights, XS))


def test_a_nan_in_the_bias_that_must_be_zero_is_not_zero():
    descriptor = RNNDescriptor("gru", I, H)
    weights = RNNWeights(descriptor, torch.zeros(layout_of(descriptor).size))
    to_flux(descriptor, weights)
    weights["bias_hh_l0"][-1] = float("nan")
    with pytest.raises(UnsupportedError, match="no value of it does the same"):
        to_flux(descriptor, weights)


@pytest.mark.parametrize("mode", ["relu", "tanh", "lstm", "gru"])
def test_the_old_cells_with_the_state_they_learnt(mode):
    case = Case(mode)
    fields = {name: getattr(case.cell, name) for name in case.names}
    with pytest.raises(InvalidValueError, match="layer 1 has an initial state that is not zero"):
        from_flux(fields, cell={"relu": "rnn_relu", "tanh": "rnn_tanh"}.get(mode))
    state = state_from_flux(fields)
    weights_only = {name: fields[name] for name in ("Wi", "Wh", "b")}
    descriptor, weights, _ = from_flux(weights_only, cell={"relu": "rnn_relu", "tanh": "rnn_tanh"}.get(mode))
    ys, *_ = case.numpy()
    assert_same(np.stack(ys), run(descriptor, weights, case.xs, state))


def test_the_state_of_newer_layers():
    h, c = np.arange(2.0 * H).reshape(2, H, 1)
    layers = [{"state0": (h, c)}, {"state0": (c, h)}]
    expected = RNNState(*(torch.tensor(np.stack(p)).transpose(1, 2) for p in ((h, c), (c, h))))
    assert_bitwise(expected, state_from_flux(layers))
    assert_bitwise(torch.tensor(h.T[None]), state_from_flux({"state0": h}).h)
    assert state_from_flux({"state0": h}).c is None
    from_flux({**draw("lstm")[0], "state0": (0 * h, 0 * c)})
    for uneven in ([{"state0": h}, {"state0": (h, c)}], [{"h": h}, {"h": h[1:]}], [{"h": h}, {}]):
        with pytest.raises(InvalidValueError, match="expected one size, and a c in all or none"):
            state_from_flux(uneven)


def change(**fields):
    return [{**draw("gru")[0], **fields}]


@pytest.mark.parametrize(
    ("layers", "error", "text"),
    [
        ([{**draw("gru")[0], "Wh_h̃": np.ones((H, H))}], UnsupportedError, "layer 1 is a GRUv3"),
        (change(σ=1), InvalidValueError, r"layer 1 has the fields \['Wh', 'Wi', 'b', 'σ'\]; expected Wi, Wh"),
        ([{"Wi": np.ones((15, 3))}], InvalidValueError, "expected Wi, Wh"),
        (change(Wh=np.ones((10, 5))), InvalidValueError, "Wh of layer 1 is of shape .* G = 1"),
        (change(Wh=np.ones((5, 15))), InvalidValueError, "Wh of layer 1 is of shape .* G = 1"),
        (change(Wh=np.ones(15)), InvalidValueError, "Wh of layer 1 .* two dimensions"),
        (change(b=np.ones(14)), InvalidValueError, r"b of layer 1 is of shape \[14\]; expected shape \[15\]"),
        (change(b=np.ones(15, np.float32)), InvalidTypeError, "b of layer 1 is torch.float32"),
        (change(Wi="no"), InvalidTypeError, "Wi of layer 1 is a str"),
        (draw("gru") + draw("lstm", 2)[1:], InvalidValueError, r"Wi of layer 2 is of shape \[20, 5\]"),
        (draw("gru") + draw("gru"), InvalidValueError, r"Wi of layer 2 is of shape \[15, 3\]; .* \[15, 5\]"),
        (draw("gru") + draw("gru", 1, 2), UnsupportedError, r"hidden sizes \[5, 2\]"),
        ([], InvalidTypeError, "layers is a list; expected the fields"),
        ([1], InvalidTypeError, "layers is a list; expected the fields"),
        (draw("rnn_tanh"), InvalidValueError, "cell is None; expected 'rnn_relu' or 'rnn_tanh'"),
    ],
)
def test_what_fits_no_network_is_refused(layers, error, text):
    with pytest.raises(error, match=text):
        from_flux(layers)


@pytest.mark.parametrize(
    ("options", "lacks"),
    [
        ({"bidirectional": True}, "only one direction"),
        ({"input_size": H, "input_mode": "skip"}, "no skip input"),
        ({"proj_size": 2}, "no projection"),
        ({"cell_clip": (-1, 1)}, "no clipping of c"),
    ],
)
def test_what_flux_lacks_is_refused(options, lacks):
    descriptor = RNNDescriptor(**{"cell": "lstm", "input_size": I, "hidden_size": H, **options})
    with pytest.raises(UnsupportedError, match=f"but Flux has {lacks}"):
        to_flux(descriptor, RNNWeights.init(descriptor))
