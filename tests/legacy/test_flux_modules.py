"""The cell style as torch modules: training, copies, files, containers, compilers, and the way over."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from compare import assert_bitwise, assert_same
from flux_cases import MODES, B, Case, H, I, T, make_cell
from torch import nn
from torch.nn.utils import prune

from rnncompat import InvalidTypeError, UnsupportedError, legacy
from rnncompat.legacy import flux
from rnncompat.versions import TORCH_RELEASE


def test_recur_takes_any_cell_with_a_state():
    """The example of the old documentation: an accumulator."""
    m = legacy.Recur(lambda h, x: (h + x, x), 0)
    assert [m(x) for x in (2, 3)] == [2, 3]
    assert [m(x) for x in range(1, 11)] == list(range(1, 11))
    assert m.state == 60
    legacy.reset(m)
    assert (m.state, m.init) == (0, 0)
    assert legacy.Recur(lambda h, x: (h + x, x), 0, 5).state == 5
    with pytest.raises(InvalidTypeError, match="cell is a int"):
        legacy.Recur(3, 0)
    with pytest.raises(InvalidTypeError, match="init is missing, and cell is a function"):
        legacy.Recur(lambda h, x: (h, x))


def test_an_initial_state_given_by_hand_is_trained_and_moves():
    trained = nn.Parameter(torch.ones(H))
    m = legacy.Recur(legacy.LSTMCell(I, H), (trained, torch.zeros(H)))
    m(torch.ones(I, B)).sum().backward()
    assert trained.grad.shape == (H,)
    assert any(p is trained for p in m.parameters())
    m.double()
    assert [s.dtype for s in m.init] == [torch.float64] * 2
    assert m(torch.ones(I)).dtype == torch.float64
    assert legacy.Recur(lambda h, x: (h * x, x), torch.ones(2)).init.shape == (2,)


def test_the_state_may_be_set_also_to_a_parameter():
    m = flux.GRU(I, H)
    m(torch.ones(I, B))
    m.state = m.cell.h
    assert m(torch.ones(I)).shape == (H,)
    m.state = torch.ones(H, 2)
    assert m(torch.ones(I, 2)).shape == (H, 2)
    assert [name for name, _ in m.named_parameters()] == ["cell.Wi", "cell.Wh", "cell.b", "cell.h"]


def test_reset_reaches_whatever_holds_a_recur():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(flux.LSTM(I, H), nn.Tanh())

    model, extra = Model(), flux.GRU(I, H)
    chain = flux.Chain(model.inner, lambda h: h)
    for reset in (legacy.reset, flux.reset_b):
        for m in (model.inner, extra):
            m(torch.ones(I, B))
        assert reset({"model": model, "more": [chain, (extra,)]}) is None
        assert extra.state is extra.cell.h
        assert model.inner[0].state == (model.inner[0].cell.h, model.inner[0].cell.c)
    with pytest.raises(InvalidTypeError, match="m is a function"):
        legacy.reset(lambda h: h)


def test_chain_holds_functions_and_can_be_sliced():
    m = flux.Chain(flux.RNN(I, H), torch.exp, nn.Tanh())
    x = torch.ones(I)
    first = m[:1](x)
    legacy.reset(m)
    assert_bitwise(first.exp().tanh(), m(x))
    assert "exp" in repr(m)
    with pytest.raises(InvalidTypeError, match="layer 1 is a int"):
        flux.Chain(m, 3)


@pytest.mark.parametrize("mode", MODES)
def test_copies_and_files_keep_the_state_and_no_graph(mode):
    m = Case(mode).recur()
    x = torch.ones(I, B).double()
    m(x)
    stream = io.BytesIO()
    torch.save(m.state_dict(), stream)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):  # noqa: S301  # our own bytes
        assert not any(s.requires_grad for s in (other.state if mode == "lstm" else [other.state]))
        assert other.cell is not m.cell
        assert_bitwise(m.state, other.state)
    fresh = legacy.Recur(make_cell(mode))
    fresh.load_state_dict(torch.load(io.BytesIO(stream.getvalue()), weights_only=True))
    legacy.reset(m)
    assert_bitwise(m(x), fresh(x))


def test_training_reaches_the_initial_state_too():
    m = flux.Chain(flux.LSTM(I, H), flux.GRU(H, 2))
    before = copy.deepcopy(m.state_dict())
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for _ in range(2):
        legacy.reset(m)
        m(torch.ones(I, B, T)).sum().backward()
        optimizer.step()
    assert not [name for name, value in m.state_dict().items() if torch.equal(value, before[name])]


def test_hooks_of_the_cell_run():
    """Pruning and weight norm set a weight in a hook before each call."""
    m = flux.GRU(I, H)
    plain = copy.deepcopy(m)
    prune.l1_unstructured(m.cell, "Wi", amount=10)
    with torch.no_grad():
        m.cell.Wi_orig.fill_(5)
        plain.cell.Wi.copy_(5 * m.cell.Wi_mask)
    assert_bitwise(plain(torch.ones(I)), m(torch.ones(I)))


def test_autocast_changes_nothing():
    for m in (flux.LSTM(I, H), flux.RNN(I, H, torch.sin)):
        x = torch.ones(I, B)
        expected = [m(x), m(torch.ones(I, B, T))]
        legacy.reset(m)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_bitwise(expected, [m(x), m(torch.ones(I, B, T))])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("batch", [None, B])
def test_to_new_prints_the_line_and_gives_the_same_numbers(mode, batch, capsys):
    case = Case(mode)
    m = case.recur()
    if batch:
        m(torch.tensor(case.xs[0]))
    new, state = m.to_new("layer")
    code = capsys.readouterr().out
    scope = {"rnncompat": __import__("rnncompat"), "torch": torch}
    exec(code, scope)  # noqa: S102  # it is what a user does with it
    assert repr(scope["layer"]) == repr(new)
    assert "bias='input'" in code
    x = torch.tensor(np.stack(case.xs, 2))
    output, after = new(x.permute(2, 1, 0), state)
    assert_same(m(x).detach(), output.permute(2, 1, 0).detach())
    expected = m.state if mode == "lstm" else (m.state,)
    found = after if mode == "lstm" else (after,)
    assert_same([s.t()[None].detach() for s in expected], [s.detach() for s in found])
    with torch.no_grad():
        new.weight_ih_l0.zero_()
    assert m.cell.Wi.any()


def test_to_new_refuses_what_the_core_has_not():
    with pytest.raises(UnsupportedError, match="σ is"):
        flux.RNN(I, H, torch.sin).to_new()
    with pytest.raises(UnsupportedError, match="cell is a function"):
        legacy.Recur(lambda h, x: (h, x), 0).to_new()


@torch.no_grad()  # dynamo itself warns where a module holds a tensor with a graph
def test_compiled_steps_and_sequences():
    m = nn.Sequential(flux.LSTM(I, H), flux.GRU(H, 2))
    x, xs = torch.randn(I, B), torch.randn(I, B, T)

    def call(x):
        return m(x)

    expected = [call(x), call(x), call(xs)]
    state = m[0].state
    legacy.reset(m)
    compiled = torch.compile(call, fullgraph=TORCH_RELEASE >= (2, 6), backend="eager")
    assert_same(expected, [compiled(x), compiled(x), compiled(xs)], 1e-6)
    assert_same(state, m[0].state, 1e-6)
