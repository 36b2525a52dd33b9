"""Each row of the table of strategies runs what it says, and every runner gives the numbers of the others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cases import cases, examples
from compare import assert_same
from hypothesis import assume, given

from rnncompat import InvalidValueError, RNNDescriptor, RNNWeights, explain, rnn_forward
from rnncompat.backends import Algorithm, Request, ResetTo, ReturnStates
from rnncompat.backends.aten.backend import _layer, _plan
from rnncompat.backends.aten.fused import by_cell, by_segments, dense, packed
from rnncompat.backends.aten.strategy import STRATEGIES, by_hand

T, B, I, H = 7, 3, 4, 5
LENGTHS = [7, 3, 1]


def request(case):
    return Request(
        descriptor=case.descriptor,
        x=case.x,
        weights=case.weights.by_layer(),
        state=case.state,
        lengths=None,
        mask=None if case.gaps == "none" else case.real,
        resets=case.flags if case.resets else None,
        reset_to=ResetTo(case.reset_to),
        drops=(),
        padding_value=0.0,
        return_states=ReturnStates.LAST,
        algorithm=Algorithm.AUTO,
    )


@given(case=cases(plain=True))
@examples(300)
def test_all_runners_agree(case):
    case.given_state = True
    asked = request(case)
    plan = _plan(asked)
    assume(plan.sizes)
    layer = _layer(asked, plan, 0)
    x = plan.pack(case.x.masked_fill(~case.real[..., None], 0))
    expected = by_hand(x, layer)
    runners = [packed, by_segments]
    runners += [dense] if plan.place is None else []
    runners += [by_cell] if len(plan.sizes) == 1 and plan.place is None else []
    with torch.no_grad():
        for runner in runners:
            actual = runner(x, layer)
            assert_same(expected.output.detach(), actual.output)
            assert_same([list(s) for s in expected.final], [list(s) for s in actual.final])


def explained(cell="lstm", *, dtype=torch.float32, gradients=False, steps=T, extra=None, **options):
    descriptor = RNNDescriptor(cell, H if (extra or {}).get("input_mode") else I, H, **(extra or {}))
    weights = RNNWeights.init(descriptor, dtype=dtype).requires_grad_(gradients)
    x = torch.zeros(steps, B, descriptor.input_size, dtype=dtype)
    text = str(explain(descriptor, x, weights=weights, **options))
    rnn_forward(descriptor, weights, x, **options)  # what is explained runs
    return text


LONG = torch.tensor([[t < n for n in (40, 20, 20)] for t in range(40)])


@pytest.mark.parametrize(
    ("expected", "call"),
    [
        ("cell", {"steps": 1}),
        ("cell", {"steps": 1, "cell": "gru", "gradients": True}),
        ("packed", {"steps": 1, "lengths": [1, 1, 0]}),
        ("hand", {"steps": 1, "extra": {"cell_clip": (-1, 1)}}),
        ("dense", {}),
        ("dense", {"gradients": True}),
        ("dense", {"dtype": torch.float64}),
        ("hand", {"dtype": torch.float64, "gradients": True}),
        ("hand", {"return_states": "all"}),
        ("hand", {"extra": {"proj_size": 2}}),
        ("hand", {"extra": {"input_mode": "skip"}}),
        ("dense", {"cell": "gru"}),
        ("hand", {"cell": "gru", "gradients": True}),
        ("hand", {"cell": "rnn_tanh"}),
        ("hand", {"cell": "rnn_relu", "gradients": True}),
        ("segments", {"steps": 40, "mask": LONG}),
        ("segments", {"steps": 40, "mask": LONG, "gradients": True}),
        ("hand", {"steps": 40, "mask": LONG, "gradients": True, "cell": "gru"}),
        ("packed", {"lengths": LENGTHS}),
        ("hand", {"lengths": LENGTHS, "gradients": True}),
        ("packed", {"cell": "gru", "lengths": LENGTHS}),
        ("packed", {"cell": "gru", "resets": torch.eye(T, B, dtype=torch.bool)}),
        ("hand", {"cell": "rnn_tanh", "lengths": LENGTHS}),
    ],
)
def test_the_table_is_what_runs(expected, call):
    text = explained(**call)
    assert "aten" in text.splitlines()[0]
    assert f"layer 0: {expected}" in text


def test_a_skip_layer_is_alone_in_being_run_by_hand():
    text = explained(extra={"input_mode": "skip", "num_layers": 2})
    assert "layer 0: hand, layer 1: dense" in text


def test_every_row_of_the_table_is_documented():
    names = {row.name for row in STRATEGIES}
    assert names == {"cell", "dense", "segments", "packed", "hand"}
    assert all(row.when for row in STRATEGIES)


def test_explain_names_the_reasons_of_the_others():
    text = explained("gru", algorithm="auto", backend="reference")
    assert text.splitlines()[0].startswith("reference")
    descriptor = RNNDescriptor("gru", I, H)
    refused = explain(descriptor, torch.zeros(T, B, I), algorithm="standard")
    assert refused.backend is None
    assert "aten: no: it has no algorithm 'standard'" in str(refused)
    assert "layer 0: hand" in str(explain(descriptor, torch.zeros(T, B, I)))
    with torch.no_grad():
        assert "layer 0: dense" in str(explain(descriptor, torch.zeros(T, B, I)))


def test_the_guide_has_the_table():
    guide = (Path(__file__).parents[1] / "docs" / "backends.md").read_text(encoding="utf-8")
    for row in STRATEGIES:
        assert f"| `{row.name}` | {row.when} |" in guide


def test_explain_knows_the_names_that_a_call_knows():
    with pytest.raises(InvalidValueError, match=r"backend is 'fast'; expected 'auto' or one of"):
        explain(RNNDescriptor("gru", I, H), torch.zeros(T, B, I), backend="fast")
