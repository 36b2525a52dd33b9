"""The flat ``w`` of the old layer: its layout, its live views, its initial values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from compare import assert_bitwise, assert_same
from old_layers import LAYERS, B, H, Layer, T

from rnncompat import InvalidTypeError, InvalidValueError, layout_of, legacy


@pytest.fixture(params=LAYERS, ids=str)
def layer(request):
    return request.param


@pytest.fixture(params=["relu", "tanh", "lstm", "gru"])
def kind(request):
    return request.param


SIZES = {"relu": 14, "tanh": 14, "lstm": 56, "gru": 42}


def test_sizes_of_w(kind):
    assert legacy.RNN(3, 2, rnnType=kind).w.shape == (1, 1, SIZES[kind])
    skip = legacy.RNN(2, 2, rnnType=kind, skipInput=True)
    gates = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}[kind]
    assert skip.w.shape == (1, 1, gates * 2 * (2 + 2))


def test_published_offsets():
    """LSTM, X=3, H=2, two layers, both directions: 240 elements."""
    r = legacy.RNN(3, 2, numLayers=2, bidirectional=True)
    assert r.w.shape == (1, 1, 240)
    with torch.no_grad():
        r.w.copy_(torch.arange(240.0)[None, None])
    for place, offset, shape in (
        ((1, 1, 1), 0, (3, 2)),
        ((1, 5, 1), 24, (2, 2)),
        ((2, 1, 1), 40, (3, 2)),
        ((3, 1, 1), 80, (4, 2)),
        ((3, 5, 1), 112, (2, 2)),
        ((1, 1, 2), 176, (2,)),
        ((1, 5, 2), 184, (2,)),
        ((4, 8, 2), 238, (2,)),
    ):
        view = legacy.rnnparam(r, *place)
        assert view.shape == shape
        assert view.t().flatten().tolist() == list(range(offset, offset + view.numel()))


def test_w_is_the_cores_flat_layout(layer):
    r = layer.old()
    assert r.w.numel() == layout_of(r.descriptor).size
    for slot in layout_of(r.descriptor).slots:
        part = r.w.flatten()[slot.offset : slot.offset + slot.size]
        assert_same(layer.named[slot.name].ravel(), part)


def test_rnnparams_are_the_gates_of_torchs_matrices_transposed(layer):
    r = layer.old()
    expected = []
    for kind in ("weight", "bias"):
        for suffix in layer.suffixes:
            for side in ("ih", "hh"):
                whole = layer.named.get(f"{kind}_{side}{suffix}")
                gates = r.descriptor.gates
                parts = [None] * gates if whole is None else np.split(whole, gates)
                expected += [None if part is None else part.T for part in parts]
    assert_same(expected, legacy.rnnparams(r))
    assert_same(expected, legacy.rnnparams(r, r.w))
    assert_bitwise(legacy.rnnparam(r, 1, 2, 2), legacy.rnnparam(r, r.w, 1, 2, 2))


def test_parameters_are_live_views_that_gradients_flow_through():
    r = Layer("gru", 2).old()
    x = torch.tensor(Layer("gru").data(B, T))
    before = r(x)
    with torch.no_grad():
        legacy.rnnparam(r, 2, 6, 2).add_(1.0)
        legacy.rnnparam(r, 2, 4, 1)[1, 3] = 7.0
    assert not torch.equal(before, r(x))
    assert r.w.flatten()[-H:].tolist() == (Layer("gru", 2).named["bias_hh_l1"][-H:] + 1).tolist()
    legacy.rnnparam(r, 2, 4, 1)[1, 3].backward()
    place = r.w.grad.flatten().nonzero().item()
    assert r.w.flatten()[place] == 7
    assert_same(torch.tensor(1.0).double(), r.w.grad.sum())


@pytest.mark.parametrize(
    ("kind", "place", "name"),
    [
        ("lstm", (0, 1, 1), "layer"),
        ("lstm", (5, 1, 1), "layer"),
        ("lstm", (1, 9, 1), "id"),
        ("gru", (1, 7, 1), "id"),
        ("tanh", (1, 3, 1), "id"),
        ("relu", (1, 1, 3), "par"),
        ("relu", (1, 1, 0), "par"),
    ],
)
def test_wrong_places_are_refused(kind, place, name):
    r = legacy.RNN(3, 2, rnnType=kind, numLayers=2, bidirectional=True)
    with pytest.raises(InvalidValueError, match=rf"{name} is \d; expected a whole number from 1 to"):
        legacy.rnnparam(r, *place)
    with pytest.raises(InvalidTypeError, match="layer is a float"):
        legacy.rnnparam(r, 1.0, 1, 1)
    with pytest.raises(InvalidTypeError, match="6 arguments"):
        legacy.rnnparam(r, r.w, 1, 1, 1, 1)


def test_defaults_are_as_they_were():
    r, w = legacy.rnninit(3, 2)
    assert isinstance(r, legacy.RNN)
    assert w is r.w
    assert isinstance(w, torch.nn.Parameter)
    assert (r.h, r.c, r.inputSize, r.hiddenSize, r.numLayers) == (None, None, 3, 2, 1)
    assert (r.dropout, r.seed, r.inputMode, r.direction, r.algo) == (0, 0, 0, 0, 0)
    assert r.mode is legacy.CUDNN_LSTM
    assert r.dataType is torch.float32
    other = legacy.RNN(2, 2, rnnType="relu", skipInput=True, bidirectional=True, dtype=torch.float64)
    assert (other.inputMode, other.direction, other.dataType) == (1, 1, torch.float64)
    assert other.mode is legacy.CUDNN_RNN_RELU
    assert repr(r) == "RNN(RNNDescriptor('lstm', 3, 2))"


def test_initial_values_are_xavier_a_gate_zeros_and_ones():
    """Each gate's matrix is (in, H), so the bound is sqrt(6 / (in + H)), not that of the whole block."""
    r = legacy.RNN(30, 20, numLayers=2, bidirectional=True)
    for place, inputs in (((1, 1, 1), 30), ((2, 7, 1), 20), ((3, 4, 1), 40)):
        bound = (6 / (inputs + 20)) ** 0.5
        largest = legacy.rnnparam(r, *place).abs().max()
        assert 0.97 * bound < largest <= bound
    for layer in range(1, 5):
        for gate in range(1, 9):
            assert (legacy.rnnparam(r, layer, gate, 2) == (gate in (2, 6))).all()


def test_initial_values_come_from_the_functions_given_in_order():
    calls = []

    def record(name, value):
        def initial(dtype, size):
            calls.append((name, dtype, size))
            return torch.full(size, value, dtype=dtype)

        return initial

    r = legacy.RNN(
        3,
        2,
        winit=record("w", 2.0),
        binit=record("b", 3.0),
        finit=record("f", 4.0),
        dtype=torch.float64,
    )
    assert calls == [
        *[("w", torch.float64, (3, 2))] * 4,
        *[("w", torch.float64, (2, 2))] * 4,
        *[("b", torch.float64, (2,))] * 8,
        *[("f", torch.float64, (2,))] * 2,
    ]
    assert r.w.flatten()[:40].eq(2).all()
    assert [legacy.rnnparam(r, 1, i, 2)[0].item() for i in range(1, 9)] == [3, 4, 3, 3, 3, 4, 3, 3]
    with pytest.raises(InvalidValueError, match=r"winit gave shape \[1\]; expected .*\[3, 2\]"):
        legacy.RNN(3, 2, winit=lambda dtype, size: torch.ones(1))
    with pytest.raises(InvalidValueError, match="binit gave a float"):
        legacy.RNN(3, 2, binit=lambda dtype, size: 1.0)


def test_the_same_seed_of_torch_draws_the_same_weights():
    torch.manual_seed(7)
    one = legacy.RNN(3, 2)
    torch.manual_seed(7)
    assert_bitwise(one.w.detach(), legacy.RNN(3, 2).w.detach())
