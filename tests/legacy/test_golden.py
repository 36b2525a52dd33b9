"""The golden table of the old behaviour: numbers that never came from this package.

Source: the specification's golden vectors, computed in float64 from the equations and checked against
torch to 1e-15, rounded to 6 digits.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from compare import assert_same

from rnncompat import legacy

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))
ROUNDED = 6e-7  # half a unit of the sixth digit, and room for the sum of two
MODES = {
    "RELU": legacy.CUDNN_RNN_RELU,
    "TANH": legacy.CUDNN_RNN_TANH,
    "LSTM": legacy.CUDNN_LSTM,
    "GRU": legacy.CUDNN_GRU,
}


def tensor(name, mode=None):
    table = GOLDEN["inputs"] if mode is None else GOLDEN[mode]
    return torch.tensor(table[name], dtype=torch.float64)


def weight(start, slope, *shape):
    """``start + slope * p(k)`` for the k-th element of the row-major array, p(k) = ((7k+3) mod 11) - 5."""
    k = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (start + slope * ((7 * k + 3) % 11 - 5)).view(shape)


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def rnn(mode):
    desc = legacy.RNNDesc[torch.float64](MODES[mode], 3, 2)
    rows = 2 * legacy.ngates(desc)
    wi = weight(0.05, 0.1, rows, 3)
    assert_same(torch.tensor([-0.15, 0.55, 0.15], dtype=torch.float64), wi[0])
    legacy.setweights(desc, wi, weight(-0.05, 0.15, rows, 2), weight(0.02, 0.2, rows))
    return desc


def arguments(mode):
    return [tensor(n) for n in (("x", "h", "c") if mode == "LSTM" else ("x", "h"))]


def cotangents(mode):
    return [tensor(n) for n in (("dy", "dho", "dco") if mode == "LSTM" else ("dy", "dho"))]


def test_forward(rnn, mode):
    outputs = legacy.forward(rnn, *arguments(mode))
    assert_same(tensor("y", mode), outputs[0], ROUNDED)
    assert_same(tensor("y", mode), outputs[1], ROUNDED)
    assert len(outputs) == (3 if mode == "LSTM" else 2)
    if mode == "LSTM":
        assert_same(tensor("co", mode), outputs[2], ROUNDED)


def test_pullback(rnn, mode):
    outputs, back = legacy.pullback(rnn, *arguments(mode))
    assert_same(tensor("y", mode), outputs[0], ROUNDED)
    gradients = back(*cotangents(mode))
    names = ("x", "h", "c", "Wi", "Wh", "b") if mode == "LSTM" else ("x", "h", "Wi", "Wh", "b")
    assert names == gradients._fields
    for name in names:
        assert_same(tensor("d" + name, mode), getattr(gradients, name), ROUNDED)


def test_both_halves_of_backward(rnn, mode):
    x, h, *c = arguments(mode)
    reserve, (y, *_) = legacy.forwardTrain(rnn, x, h, *c)
    if mode == "LSTM":
        dy, dho, dco = cotangents(mode)
        data = legacy.backwardData(rnn, y, dy, dho, dco, h, c[0], reserve)
    else:
        data = legacy.backwardData(rnn, y, *cotangents(mode), h, reserve)
    (dwi, dwh), db = legacy.backwardWeights(rnn, x, h, y, reserve)
    names = ("dx", "dh", "dc") if mode == "LSTM" else ("dx", "dh")
    for name, value in zip((*names, "dWi", "dWh", "db"), (*data, dwi, dwh, db), strict=True):
        assert_same(tensor(name, mode), value, ROUNDED)


def test_autograd_gives_the_same_gradients(rnn, mode):
    """The bias gradient is that of the input side; the recurrent one is there too, for who asks params."""
    leaves = [t.requires_grad_() for t in arguments(mode)]
    rnn.params.requires_grad_()
    outputs = legacy.forward(rnn, *leaves)
    *data, flat = torch.autograd.grad(outputs, [*leaves, rnn.params], cotangents(mode))
    for name, value in zip(("dx", "dh", "dc"), data, strict=False):
        assert_same(tensor(name, mode), value, ROUNDED)
    (dwi, dwh), db = legacy.params(flat, 3, 2, legacy.ngates(rnn))
    for name, value in (("dWi", dwi), ("dWh", dwh), ("db", db)):
        assert_same(tensor(name, mode), value, ROUNDED)
    recurrent = flat[-len(db) :]
    if mode == "GRU":
        assert_same(tensor("dbR_n", mode), recurrent[-2:], ROUNDED)
        recurrent, db = recurrent[:-2], db[:-2]
    assert_same(db, recurrent, ROUNDED)
