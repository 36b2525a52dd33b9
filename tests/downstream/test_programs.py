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
from old_layers import Layer

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


def log_likelihood(scores, gold):
    """Mean over the rows of *scores* ``(N, classes)`` of the log probability of *gold* ``(N,)``."""
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return logs[np.arange(len(gold)), gold].mean()


def test_k1_charlm(mode):
    """Chunks through the state held give the losses of one sequence, and training on them lowers these."""
    k1, oracle = load("k1_charlm"), Layer(mode, 2)
    vocab, batch, chunk = 11, 7, 4
    model = k1.CharLM(vocab, oracle.inputs, 5, rnnType=mode, numLayers=2, h=0, c=0)
    with torch.no_grad():
        model.rnn.w.copy_(torch.tensor(oracle.flat)[None, None])
    ids = np.random.default_rng(2).integers(vocab, size=(batch, 3 * chunk + 1))
    table, output = (p.detach().numpy().copy() for p in (model.input, model.output))
    y, *_ = oracle.numpy(table[:, ids[:, :-1]])
    scores = np.tensordot(output, y, 1)  # [V, B, T]
    expected = [
        -log_likelihood(
            scores[:, :, t : t + chunk].reshape(vocab, -1).T, ids[:, t + 1 : t + chunk + 1].ravel()
        )
        for t in range(0, 3 * chunk, chunk)
    ]
    chunks = [
        (torch.tensor(ids[:, t : t + chunk]), torch.tensor(ids[:, t + 1 : t + chunk + 1]))
        for t in range(0, 3 * chunk, chunk)
    ]
    for losses in (k1.evaluate(model, chunks), k1.train(model, chunks, lr=0.0)):
        np.testing.assert_allclose(losses, expected, 1e-10)
    assert k1.train(model, chunks * 10, lr=0.05)[-1] < expected[-1]

    model.rnn.dropout = 0.5
    assert k1.evaluate(model, chunks) == k1.evaluate(model, chunks)
    assert k1.train(model, chunks, lr=0.0) != k1.train(model, chunks, lr=0.0)
    if mode == "lstm":
        fresh = k1.CharLM(vocab, 3, 5).rnn
        assert all((bias == 1).all() for bias in k1.forget_biases(fresh))
    matrices = [w for name, w in oracle.named.items() if name.startswith("weight")]
    with torch.no_grad():
        model.rnn.w.copy_(torch.tensor(oracle.flat)[None, None])
    assert_same(sum((w**2).sum() for w in matrices), k1.matrix_norm(model.rnn))


def test_k1_tagger():
    """Each sentence's scores and final states are those it has alone; padding counts for nothing."""
    k1, oracle = load("k1_tagger"), Layer("lstm", bidirectional=True)
    model = k1.Tagger(vocab=11, embed=oracle.inputs, hidden=5, tags=4)
    with torch.no_grad():
        model.encoder.params.copy_(torch.tensor(oracle.flat)[None, None])
    table, head = (p.detach().numpy() for p in (model.encoder.embedding.weight, model.tags))
    sentences, tags = [[3, 1], [5, 9, 11, 2], [7], [4, 6]], [[1, 2], [3, 0, 4, 1], [2], [4, 4]]
    scores, mask, final = model(sentences)
    assert mask.sum(1).tolist() == [2, 4, 1, 2]
    kept, gold = [], []
    for b, (ids, own) in enumerate(zip(sentences, tags, strict=True)):
        y, h, _ = oracle.numpy(table[np.array(ids) - 1].T[:, None])
        alone = np.tensordot(head, y[:, 0], 1)  # [tags, T]
        assert_same(alone, scores[:, b, : len(ids)])
        assert_same(h[:, 0].T.ravel(), final[:, b])
        kept += [alone[:, t] for t, tag in enumerate(own) if tag]
        gold += [tag - 1 for tag in own if tag]
    loss = model.loss(sentences, tags)
    assert_same(-log_likelihood(np.array(kept), np.array(gold)), loss)
    loss.backward()
    assert model.encoder.params.grad.isfinite().all()
    assert not model.encoder.embedding.weight.grad[[7, 9]].any()  # ids 8 and 10 do not occur
    assert_same(model(sentences)[0][:, 2, :1], model([[7]])[0][:, 0])
