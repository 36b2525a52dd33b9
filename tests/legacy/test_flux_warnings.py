"""Calls of the cell style warn once a call site, at the user's line, through whatever container they come."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch

from rnncompat import legacy
from rnncompat.legacy import flux, flux09
from rnncompat.legacy.registry import REGISTRY

pytestmark = pytest.mark.warns

X, H = torch.ones(3), torch.zeros(5)


@pytest.fixture
def m():
    with legacy.legacy_warnings("quiet"):
        return flux.GRU(3, 5)


def here():
    return inspect.currentframe().f_back.f_lineno


def names(heard):
    return [str(w.message).split("()")[0].removeprefix("legacy.") for w in heard]


def test_every_public_call_warns_and_none_warns_for_another(heard):
    cell, lstm = legacy.GRUCell(3, 5), legacy.LSTMCell(3, 5)
    legacy.RNNCell(3, 5)
    m = legacy.Recur(cell)
    layers = flux.RNN(3, 5), flux.LSTM(5, 5), flux.GRU(5, 2)
    chain = flux.Chain(*layers)
    legacy.reset(chain)
    legacy.reset_b(m)
    d = flux.RNNDesc(cell)
    flux.desc(cell)
    assert flux.descs[cell].params.any()
    flux.glorot_uniform(3)
    flux09.copyparams(cell, d)
    flux09.copyparams_b(cell, d)
    flux09.forwardInference(d, X, H)
    assert lstm.to_new("lstm").hidden_size == 5
    calls = {row.name for row in REGISTRY.values() if row.kind.value == "call"}
    lower = {name for name in calls if name.partition(".")[0] in ("flux", "flux09")}
    assert sorted(names(heard)) == sorted(
        lower | {"RNNCell", "LSTMCell", "GRUCell", "Recur", "reset", "reset_b"}
    )
    assert {w.filename for w in heard} == {__file__}


def test_calls_of_cells_and_recurs_warn_once_a_line(m, heard):
    for _ in range(100):
        m(X)
    first = here() - 1
    for _ in range(100):
        m.cell(H, X)
    second = here() - 1
    assert [(w.lineno, n) for w, n in zip(heard, names(heard), strict=True)] == [
        (first, "Recur"),
        (second, "GRUCell"),
    ]
    with legacy.legacy_warnings("quiet"):
        cells = legacy.LSTMCell(3, 5), legacy.RNNCell(3, 5)
    cells[0]((H, H), X)
    cells[1](H, X)
    assert names(heard)[2:] == ["LSTMCell", "RNNCell"]


class Model(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)  # the line that is meant


def test_the_line_is_the_users_through_every_container(m, heard):
    with legacy.legacy_warnings("quiet"):
        chain = flux.Chain(m, torch.tanh)
    for container in (torch.nn.Sequential(m), chain, torch.nn.Sequential(torch.nn.Sequential(chain))):
        for _ in range(3):
            container(X)
    assert [w.lineno for w in heard] == [here() - 1]
    [chain(x) for x in torch.ones(7, 3)]
    list(map(chain, torch.ones(7, 3)))
    assert [w.lineno for w in heard[1:]] == [here() - 2, here() - 1]
    Model(chain)(X)
    source, start = inspect.getsourcelines(Model)
    meant = start + next(i for i, text in enumerate(source) if "the line that is meant" in text)
    assert [w.lineno for w in heard[3:]] == [meant]
    assert {w.filename for w in heard} == {__file__}
    assert set(names(heard)) == {"Recur"}


def test_switches_reach_calls_through_containers(m, heard):
    container = torch.nn.Sequential(m)
    with legacy.legacy_warnings("quiet"):
        container(X)
    assert not heard
    for _ in range(2):
        with legacy.legacy_warnings("error"), pytest.raises(legacy.LegacyRNNWarning, match=r"legacy\.Recur"):
            container(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(legacy.LegacyRNNWarning, match="whose state goes in and comes out"):
                container(X)
    assert m.state is m.cell.h or m.state.shape == (5,)


def test_a_namespaced_name_says_so_and_its_anchor_is_one(heard):
    flux.GRU(3, 5)
    assert str(heard[0].message) == (
        "legacy.flux.GRU() is deprecated since 0.1 and will be removed in 1.0; "
        'use rnncompat.GRU(bias="input"). See docs/migrating.md#fluxgru'
    )
