"""Each gate of versions.py is right on its own side: what it promises works, what it denies does not."""

from __future__ import annotations

import pytest
import torch

import rnncompat
from rnncompat import versions
from rnncompat.transforms import transforms_active
from rnncompat.versions import GATES, TORCH_RELEASE, Gate


def test_gates_say_what_they_need_or_that_it_is_there():
    later, here = (TORCH_RELEASE[0] + 1, 0), TORCH_RELEASE[:2]
    assert str(Gate(here, "this", "not")) == "this: yes"
    needs = f"this: needs torch >= {later[0]}.0, here is {torch.__version__}; that instead"
    assert str(Gate(later, "this", "that instead")) == needs
    told = str(rnncompat.doctor()).splitlines()
    assert [str(gate) for gate in GATES.values()] == [
        line for line in told if line in map(str, GATES.values())
    ]


def test_compiling_is_known_where_it_can_be_asked():
    def ask(x):
        return x + (1 if versions.is_compiling() else 2)

    told = torch.compile(ask, backend="eager")(torch.zeros(()))
    assert int(told) == (1 if GATES["tracing"].open else 2)
    assert not versions.is_compiling()


def test_compiling_takes_a_constant_out_of_the_graph_where_it_can():
    calls = []

    @versions.run_while_tracing
    def note(name):
        calls.append(name)
        return True

    def run(x):
        note("here")
        return x + 1

    compiled = torch.compile(run, backend="eager", fullgraph=GATES["tracing"].open)
    for _ in range(3):
        compiled(torch.zeros(()))
    assert len(calls) == (1 if GATES["tracing"].open else 3)


def test_transforms_are_seen():
    seen = []

    def watched(x):
        seen.append(transforms_active())
        return x * x

    torch.func.grad(watched)(torch.ones(()))
    assert seen == [True]
    assert not transforms_active()


def test_forward_mode_is_seen():
    assert not transforms_active()
    with torch.autograd.forward_ad.dual_level():
        assert transforms_active()


@pytest.mark.parametrize("on", [False, True])
def test_autocast_is_seen(on):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
        assert versions.autocast_enabled("cpu") is on
    assert not versions.autocast_enabled("cuda")
