"""Programs in the old styles run unchanged; their numbers come from NumPy."""

from __future__ import annotations

import gc
import importlib.util
from pathlib import Path

import numpy as np
import numpy_step
import pytest
import torch
from compare import assert_same

from rnncompat import legacy

I, H, B, T = 3, 5, 4, 3
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}


@pytest.fixture(autouse=True)
def _quiet():
    with legacy.legacy_warnings("quiet"):
        yield


def load(name):
    path = Path(__file__).parent / "programs" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


@pytest.fixture(params=GATES)
def mode(request):
    return request.param


@pytest.fixture
def weights(mode):
    rows = GATES[mode] * H
    rng = np.random.default_rng(1)
    return [rng.normal(size=s) for s in ((rows, I), (rows, H), (rows,))]


def test_p1_cells_train_through_time_with_a_vector_state(mode, weights):
    p1 = load("p1_cells")
    rng = np.random.default_rng(2)
    xs, dys = rng.normal(size=(T, I, B)), rng.normal(size=(T, H, B))
    h, c = rng.normal(size=H), rng.normal(size=H)
    tensors = [torch.tensor(w) for w in weights]
    states = [torch.tensor(h), torch.tensor(c)]
    cell = {
        "relu": lambda: p1.RNNCell(torch.relu, *tensors, states[0]),
        "tanh": lambda: p1.RNNCell(torch.tanh, *tensors, states[0]),
        "gru": lambda: p1.GRUCell(*tensors, states[0]),
        "lstm": lambda: p1.LSTMCell(*tensors, *states),
    }[mode]()
    lstm = mode == "lstm"
    start = tuple(states) if lstm else states[0]
    ys, dcell, dstate, dxs = p1.bptt(cell, start, list(map(torch.tensor, xs)), list(map(torch.tensor, dys)))
    expected, _, dweights, dh, dc, expected_dxs = numpy_step.through_time(
        mode, *weights, xs, h, c if lstm else None, dys
    )
    assert_same(expected, ys)
    assert_same([dweights[k] for k in ("Wi", "Wh", "b")], [dcell[k] for k in ("Wi", "Wh", "b")])
    assert_same([dh, dc] if lstm else [dh], list(dstate) if lstm else [dstate])
    assert_same(expected_dxs, dxs)

    state, y = p1.call(cell, start, torch.tensor(xs[0]))
    assert_same(expected[0], y)
    assert_same(expected[0], state[0] if lstm else state)
    assert cell in p1.descs
    twin = type(cell)(**vars(cell))
    assert p1.desc(twin) is not p1.desc(cell)
    assert p1.desc(cell) is p1.desc(cell)
    del twin, cell
    gc.collect()
    assert not len(p1.descs)


@pytest.fixture
def step(mode, weights):
    """A descriptor with its weights, the data of one step, and NumPy's answer."""
    rng = np.random.default_rng(3)
    shapes = ((I, B), (H,), (H,), (H, B), (H, B), (H, B))
    x, h, c, dy, dho, dco = (rng.normal(size=s) for s in shapes)
    wide = [np.repeat(s[:, None], B, 1) for s in (h, c)]
    lstm = mode == "lstm"
    data = (x, wide[0], wide[1] if lstm else None)
    desc = legacy.RNNDesc[torch.float64](list(GATES).index(mode), I, H)
    legacy.setweights(desc, *map(torch.tensor, weights))
    return {
        "desc": desc,
        "data": [torch.tensor(v) for v in ((x, h, c) if lstm else (x, h))],
        "incoming": [torch.tensor(v) for v in ((dho, dco, dy) if lstm else (dho, dy))],
        "value": numpy_step.forward(mode, *weights, *data),
        "gradients": numpy_step.backward(mode, *weights, *data, dy, dho, dco if lstm else 0.0),
    }


def test_p2_halves(mode, weights, step):
    p2 = load("p2_halves")
    adjoint = p2.lstm_adjoint if mode == "lstm" else p2.rnn_adjoint
    (state, y), back = adjoint(step["desc"], *step["data"])
    assert_same(step["value"][0], y)
    if mode == "lstm":
        assert_same(list(step["value"]), list(state))
    result = back(*step["incoming"])
    turned = {"Wi", "Wh"}
    for name, value in result.items():
        expected = step["gradients"][name]
        assert_same(expected.T if name in turned else expected, value)


def test_p3_copyparams(mode, weights, step):
    p3 = load("p3_copyparams")
    desc = legacy.RNNDesc[torch.float64](step["desc"].mode, I, H)
    p3.copyparams(desc, *map(torch.tensor, weights))
    *state, y = p3.step(desc, *step["data"])
    assert_same(step["value"][0], y)
    assert_same([v for v in step["value"] if v is not None], list(state))
    if mode != "lstm":
        x, h = step["data"]
        dho, dy = step["incoming"]
        reserve, y, ho = p3.step_train(desc, x, h)
        assert_same([step["value"][0]] * 2, [y, ho])
        result = p3.gradients(desc, x, h, y, reserve, dy, dho)
        assert_same([step["gradients"][k] for k in ("x", "h", "Wi", "Wh", "b")], list(result))


def test_p5_reference(mode):
    p5 = load("p5_reference")
    expected, actual, desc = p5.check(list(GATES).index(mode))
    assert_same(expected, actual, 1e-6)
    assert expected.abs().sum() > 0
    assert desc.hidden == 5
