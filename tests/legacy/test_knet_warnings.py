"""Calls of the layer style warn once a call site, at the user's line, through whatever container they come."""

from __future__ import annotations

import inspect

import pytest
import torch

from rnncompat import legacy
from rnncompat.legacy.registry import REGISTRY

pytestmark = pytest.mark.warns

X = torch.ones(3)


def here():
    return inspect.currentframe().f_back.f_lineno


def test_every_public_call_warns_and_none_warns_for_another(heard):
    r = legacy.RNN(3, 2)
    legacy.rnninit(3, 2)
    legacy.rnnforw(r, r.w, X)
    legacy.rnnparam(r, 1, 1, 1)
    legacy.rnnparams(r)
    legacy.knetlayers.SRNN(input=3, hidden=2, embed=4)
    legacy.knetlayers.LSTM(input=3, hidden=2)
    layer = legacy.knetlayers.GRU(input=3, hidden=2, embed=4)
    with legacy.legacy_warnings("quiet"):
        out = layer([[1], [2, 3]])
    legacy.knetlayers.PadRNNOutput(out)
    legacy.knetlayers.PadSequenceArray([[1], [2, 3]])
    names = [str(w.message).split("()")[0].removeprefix("legacy.") for w in heard]
    calls = {row.name for row in REGISTRY.values() if row.kind.value == "call"}
    lower = {name for name in calls if name.startswith("knetlayers.")}
    assert sorted(names) == sorted(lower | set(legacy.knet.__all__))


@pytest.mark.parametrize("name", ["RNN", "knetlayers.GRU"])
def test_a_call_of_a_layer_warns_once_at_its_own_line_through_torchs_machinery(name, heard):
    with legacy.legacy_warnings("quiet"):
        layer = legacy.RNN(3, 2) if name == "RNN" else legacy.knetlayers.GRU(input=3, hidden=2)
    chain = torch.nn.Sequential(layer)
    for _ in range(3):
        layer(X)
    first = here() - 1
    for _ in range(3):
        chain(X)
    assert [(w.filename, w.lineno) for w in heard] == [(__file__, first), (__file__, here() - 1)]
    assert {str(w.message) for w in heard} == {REGISTRY[name].text}


def test_to_new_and_the_fields_of_a_layer_do_not_warn(heard):
    with legacy.legacy_warnings("quiet"):
        layer = legacy.knetlayers.LSTM(input=3, hidden=2)
    layer.to_new()
    assert layer.gatesview["bif10"].tolist() == [1, 1]
    assert layer.specs.hiddenSize == 2
    assert not heard
