"""Programs in the old styles run unchanged, and again as the migration tool rewrites them; the numbers are NumPy's."""

from __future__ import annotations

import gc
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy_step
import pytest
import torch
from compare import assert_same
from legacy_calls import counted
from old_layers import Layer

import rnncompat
from rnncompat import legacy

I, H, B, T = 3, 5, 4, 3
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}


PROGRAMS = Path(__file__).parent / "programs"
STYLES = [
    "p1_cells",
    "p2_halves",
    "p3_copyparams",
    "p4_flux_cuda",
    "p5_reference",
    "p6_no_state_field",
    "p7_training",
    "p8_cache",
    "p8_cell",
    "p9_new_call",
]


# Without LibCST the test of the tool below is skipped, by the list, and there is nothing migrated to run.
RUNS = ["old", "migrated"] if importlib.util.find_spec("libcst") else ["old"]


def run_program(name, code, monkeypatch):
    """The module that *code* makes, in place of the program *name*."""
    program = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, program)  # dataclasses look there
    exec(compile(code, str(PROGRAMS / f"{name}.py"), "exec"), vars(program))  # noqa: S102  # the program under test
    return program


@pytest.fixture(params=RUNS)
def load(request, monkeypatch):
    """Imports a program: as it stands, every legacy call counted, or what the tool makes of it, where one raises."""
    old = request.param == "old"

    def load(name):
        path = PROGRAMS / f"{name}.py"
        program = run_program(name, path.read_bytes() if old else migrate(path).code, monkeypatch)
        program.is_old = old
        return program

    with counted() if old else legacy.legacy_warnings("error"):
        yield load


@pytest.fixture
def load_old(monkeypatch):
    """Imports a program as it stands, every legacy call counted."""
    with counted():
        yield lambda name: run_program(name, (PROGRAMS / f"{name}.py").read_bytes(), monkeypatch)


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


def test_p5_in_the_spelling_of_2018(load):
    expected, actual = load("p5_reference").check_as_of_2018()
    assert_same(expected, actual, 1e-6)
    assert expected.abs().sum() > 0


def test_p4_constants_without_prefix(load, mode, weights, step):
    p4 = load("p4_flux_cuda")
    result, inference, back = p4.call(mode, p4.Cell(*map(torch.tensor, weights)), *step["data"])
    y, co = step["value"]
    expected = [y, y] if co is None else [y, y, co]
    assert_same(expected, list(result))
    assert_same(expected, list(inference))
    *dstate, dy = step["incoming"]
    gradients = back(dy, *dstate)
    assert_same([step["gradients"][name] for name in gradients], list(gradients.values()))


@pytest.mark.parametrize("mode", ["gru", "lstm"])
def test_p6_cells_without_a_field_for_the_state(load, mode, weights, step):
    p6 = load("p6_no_state_field")
    cell = {"gru": p6.GRUCell, "lstm": p6.LSTMCell}[mode](*map(torch.tensor, weights))
    x, *state = step["data"]
    after, y = p6.call(cell, state, x)
    assert_same(step["value"][0], y)
    assert_same([v for v in step["value"] if v is not None], after)


def test_p7_a_training_script(load):
    p7 = load("p7_training")
    m, reset = p7.model(), p7.reset if p7.is_old else p7.reset_states
    xs, ys = torch.randn(6, 16, 5), torch.rand(6, 2, 5)
    assert p7.sizes_of_the_state(m, xs[0]) == ((8,), (8, 5), (8,))
    p7.loss(m, xs, ys)
    states = [m[0].state, m[1].state]
    reset(m)
    outputs = [m(x) for x in xs]
    assert_same(states, [m[0].state, m[1].state], 1e-6)

    reset(m)
    lstm, gru = m[0].cell, m[1].cell
    h = numpy_outputs("lstm", lstm, xs.double().numpy())
    h = numpy_outputs("gru", gru, h)
    expected = np.stack(h, 2)
    whole = m[:2](torch.stack(list(xs), 2))
    assert_same(expected, whole.detach().double(), 1e-5)
    reset(m)
    assert_same(torch.stack(outputs, 2), m(torch.stack(list(xs), 2)), 1e-5)

    losses = p7.train(m, xs, ys)
    assert losses[-1] < 0.5 * losses[0]
    refusal = {True: (TypeError, r"cell is a Recur; expected RNNCell, .* Pass m.cell")}
    kind, words = refusal.get(p7.is_old, (AttributeError, "no attribute 'descriptor'"))
    with pytest.raises(kind, match=words):  # it never worked
        p7.desc_of_a_recur()


def numpy_outputs(mode, cell, xs):
    """Outputs of a cell of torch over T steps, by NumPy, from its state of zeros."""
    wi, wh, b, h = (p.detach().double().numpy() for p in (cell.Wi, cell.Wh, cell.b, cell.h))
    zeros = [np.zeros((len(h), x.shape[1])) for x in xs]
    return numpy_step.through_time(mode, wi, wh, b, xs, h, h if mode == "lstm" else None, zeros)[0]


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_p8_the_cache_of_descriptors(load, kind, batch):
    p8 = load("p8_cache")
    cell = load("p8_cell").make(kind).double()  # its caller's, which has moved too
    x, y, expected, back, held = p8.check(cell, batch)
    assert held == (False, p8.is_old)  # under a mark when migrated: there is no cache to ask
    assert_same(expected, y)
    dy = torch.rand_like(y)
    of_cell = torch.autograd.grad(y, [cell.Wi, cell.Wh, cell.b, cell.h], dy)
    result = back(dy, None) if kind != "LSTMCell" else back(dy, None, None)
    dh = result.h if batch == 1 else result.h.sum(1)
    assert_same([result.Wi.t(), result.Wh.t(), result.b, dh], list(of_cell))
    mode = {"RNNCell": "tanh", "LSTMCell": "lstm", "GRUCell": "gru"}[kind]
    arrays = [w.detach().numpy() for w in (cell.Wi, cell.Wh, cell.b)]
    zeros = np.zeros((5, batch))
    value = numpy_step.forward(
        mode, *arrays, x.numpy().reshape(10, -1), zeros, zeros if mode == "lstm" else None
    )
    assert_same(value[0], y.reshape(5, -1))


def log_likelihood(scores, gold):
    """Mean over the rows of *scores* ``(N, classes)`` of the log probability of *gold* ``(N,)``."""
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return logs[np.arange(len(gold)), gold].mean()


def test_k1_charlm(load_old, mode):
    """Chunks through the state held give the losses of one sequence, and training on them lowers these."""
    k1, oracle = load_old("k1_charlm"), Layer(mode, 2)
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


def test_k1_tagger(load_old):
    """Each sentence's scores and final states are those it has alone; padding counts for nothing."""
    k1, oracle = load_old("k1_tagger"), Layer("lstm", bidirectional=True)
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
