"""Programs in the old styles run unchanged, and again as the migration tool rewrites them; the numbers are NumPy's."""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy_step
import pytest
import torch
from compare import assert_same

import rnncompat
from rnncompat import legacy
from rnncompat.legacy.registry import REGISTRY, Kind
from rnncompat.legacy.warn import listening

I, H, B, T = 3, 5, 4, 3
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}


PROGRAMS = Path(__file__).parent / "programs"
STYLES = ["p1_cells", "p2_halves", "p3_copyparams", "p5_reference", "p9_new_call"]


CODES = {
    (function.__init__ if name == "RNNDesc" else function).__code__: name
    for name, function in (
        (row.name, getattr(legacy, row.name)) for row in REGISTRY.values() if row.kind is Kind.CALL
    )
}


@contextmanager
def counted():
    """Checks that what ``report`` hears of is what Python's own profiler sees."""
    heard, seen = Counter(), Counter()

    def profile(frame, event, _):
        if event == "call" and frame.f_code in CODES:
            seen[CODES[frame.f_code], frame.f_back.f_code.co_filename, frame.f_back.f_lineno] += 1

    before = sys.getprofile()
    with listening(lambda *call: heard.update([call])):
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before)
    assert heard == seen


# Without LibCST the test of the tool below is skipped, by the list, and there is nothing migrated to run.
RUNS = ["old", "migrated"] if importlib.util.find_spec("libcst") else ["old"]


@pytest.fixture(params=RUNS)
def load(request, monkeypatch):
    """Imports a program: as it stands, every legacy call counted, or what the tool makes of it, where one raises."""
    old = request.param == "old"

    def load(name):
        path = PROGRAMS / f"{name}.py"
        code = path.read_bytes() if old else migrate(path).code
        program = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, program)  # dataclasses look there
        exec(compile(code, str(path), "exec"), vars(program))  # noqa: S102  # the program under test
        program.is_old = old
        return program

    with counted() if old else legacy.legacy_warnings("error"):
        yield load


def migrate(path):
    from rnncompat.legacy.migrate import migrate_source  # noqa: PLC0415  # LibCST is an extra

    return migrate_source(path.read_bytes())


@pytest.mark.parametrize("name", STYLES)
def test_the_tool_decides_on_at_least_four_calls_of_five(name):
    result = migrate(PROGRAMS / f"{name}.py")
    assert result.left <= result.calls / 5
    assert (result.calls > 0) is (name != "p9_new_call")


@pytest.fixture(params=GATES)
def mode(request):
    return request.param


@pytest.fixture
def weights(mode):
    rows = GATES[mode] * H
    rng = np.random.default_rng(1)
    return [rng.normal(size=s) for s in ((rows, I), (rows, H), (rows,))]


def numpy_bptt(mode, weights, xs, h, c, dys):
    """Outputs, weight gradients in setweights' orientation, and the gradients of the broadcast initial state."""
    hs, cs = [np.repeat(h[:, None], B, 1)], [None if c is None else np.repeat(c[:, None], B, 1)]
    for x in xs:
        h_new, c_new = numpy_step.forward(mode, *weights, x, hs[-1], cs[-1])
        hs.append(h_new)
        cs.append(c_new)
    total = {"Wi": 0, "Wh": 0, "b": 0}
    dh, dc, dxs = 0.0, 0.0, []
    for t in reversed(range(len(xs))):
        g = numpy_step.backward(mode, *weights, xs[t], hs[t], cs[t], dys[t], dh, dc)
        dh, dc = g["h"], 0.0 if c is None else g["c"]
        dxs.insert(0, g["x"])
        total = {"Wi": total["Wi"] + g["Wi"].T, "Wh": total["Wh"] + g["Wh"].T, "b": total["b"] + g["b"]}
    return hs[1:], total, dh.sum(1), None if c is None else dc.sum(1), dxs


def test_p1_cells_train_through_time_with_a_vector_state(load, mode, weights):
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
    expected = numpy_bptt(mode, weights, xs, h, c if lstm else None, dys)
    assert_same(expected[0], ys)
    assert_same([expected[1][k] for k in ("Wi", "Wh", "b")], [dcell[k] for k in ("Wi", "Wh", "b")])
    assert_same(list(expected[2:4]) if lstm else [expected[2]], list(dstate) if lstm else [dstate])
    assert_same(expected[4], dxs)

    state, y = p1.call(cell, start, torch.tensor(xs[0]))
    assert_same(expected[0][0], y)
    assert_same(expected[0][0], state[0] if lstm else state)
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
    descriptor = rnncompat.RNNDescriptor(list(rnncompat.Cell)[list(GATES).index(mode)], I, H)
    wi, wh, b = map(torch.tensor, weights)
    named = {"weight_ih_l0": wi, "weight_hh_l0": wh, "bias_ih_l0": b, "bias_hh_l0": torch.zeros_like(b)}
    new = rnncompat.RNNWeights.from_named(descriptor, named)
    with legacy.legacy_warnings("quiet"):
        old = legacy.RNNDesc[torch.float64](list(GATES).index(mode), I, H)
        legacy.setweights(old, wi, wh, b)
    return {
        "desc": {True: old, False: new},  # what the program is given by its caller, which has moved too
        "weights": (wi, wh, b),
        "data": [torch.tensor(v) for v in ((x, h, c) if lstm else (x, h))],
        "incoming": [torch.tensor(v) for v in ((dho, dco, dy) if lstm else (dho, dy))],
        "value": numpy_step.forward(mode, *weights, *data),
        "gradients": numpy_step.backward(mode, *weights, *data, dy, dho, dco if lstm else 0.0),
    }


def test_p2_halves(load, mode, step):
    p2 = load("p2_halves")
    adjoint = p2.lstm_adjoint if mode == "lstm" else p2.rnn_adjoint
    (state, y), back = adjoint(step["desc"][p2.is_old], *step["data"])
    assert_same(step["value"][0], y)
    if mode == "lstm":
        assert_same(list(step["value"]), list(state))
    result = back(*step["incoming"])
    turned = {"Wi", "Wh"}
    for name, value in result.items():
        expected = step["gradients"][name]
        assert_same(expected.T if name in turned else expected, value)


def mode_for(program, mode):
    """The mode as the program's caller names it: a number then, a word now."""
    number = list(GATES).index(mode)
    return number if program.is_old else list(rnncompat.Cell)[number]


def test_p3_copyparams(load, mode, step):
    p3 = load("p3_copyparams")
    desc = p3.desc(mode_for(p3, mode), *step["weights"])
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


def test_p5_reference(load, mode):
    p5 = load("p5_reference")
    expected, actual, desc = p5.check(mode_for(p5, mode))
    assert_same(expected, actual, 1e-6)
    assert expected.abs().sum() > 0
    assert (desc.hidden if p5.is_old else desc.descriptor.hidden_size) == 5


def test_p9_new_call(load):
    rng = np.random.default_rng(4)
    w, h = rng.normal(size=(H, I + H + 1)), rng.normal(size=(H, B))
    xs = rng.normal(size=(2, I, B, T))
    flat = w.flatten(order="F")
    wi, wh, b = np.split(flat, [H * I, H * (I + H)])
    state, expected = h, []
    for x in xs:
        steps = []
        for t in range(T):
            state, _ = numpy_step.forward("tanh", wi.reshape(H, I), wh.reshape(H, H), b, x[:, :, t], state)
            steps.append(state)
        expected.append(np.stack(steps, 2))
    p9 = load("p9_new_call")
    parts = w[:, :I], w[:, I:-1], w[:, -1]
    whole = p9.hcat(*map(torch.tensor, parts))
    assert_same(expected, p9.run(whole, list(map(torch.tensor, xs)), torch.tensor(h), H))
