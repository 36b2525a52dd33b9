"""What backend ``cudnn`` does around its calls, on any machine: a call is stood in for by plain operations.

Everything but the calls themselves runs here as it does on a GPU: which rows cuDNN is handed, in which order and
layout, one call a layer, stretches of long sequences, the states of every step.
"""

from __future__ import annotations

import cudnn_rules
import pytest
import torch
from cases import cases, examples
from compare import assert_same
from cudnn_rules import why_refused
from hypothesis import given
from hypothesis import strategies as st

from rnncompat import RNNDescriptor, RNNWeights
from rnncompat.backends import ReturnStates
from rnncompat.backends.cudnn import backend, constraints, function, layers, long, rows
from rnncompat.functional import Options, read_request


@pytest.fixture(autouse=True)
def _calls_stood_in_for(monkeypatch):
    for module in (backend, layers, long):
        monkeypatch.setattr(module, "run", stand_in)


def stand_in(request, taken):
    """A call of cuDNN in plain operations, after the checks that cuDNN would make."""
    assert why_refused(taken.layout, taken.steps, taken.lengths or (taken.steps,) * taken.batch) is None
    if taken.layout is rows.Layout.SEQ_MAJOR_PACKED:
        assert request.x.shape == (sum(taken.lengths), request.descriptor.input_size)
    else:
        first = (taken.batch, taken.steps) if taken.turned else (taken.steps, taken.batch)
        assert request.x.shape == (*first, request.descriptor.input_size)
        assert request.x.is_contiguous() or not taken.turned
        assert torch.isfinite(request.x).all()
    assert taken.steps <= rows.MOST_STEPS
    assert request.state.h.shape[1] == taken.batch
    return function.run_plainly(request, taken)


def results(case, run, return_states, turned):
    """Output, states and every gradient."""
    x = case.x.clone()
    x[~case.real] = torch.nan
    x = (x.transpose(0, 1).contiguous() if turned else x).requires_grad_()
    options = dict(case.options)
    options |= {k: v.t() for k, v in options.items() if turned and k in ("mask", "resets")}
    asked = Options(**options, batch_first=turned, return_states=return_states)
    flat = case.weights.flat.detach().requires_grad_()
    weights = case.weights.with_flat(flat)
    _, request = read_request(case.descriptor, weights.by_layer(), x, case.state, asked)
    output, state = run(request)
    values = [output, *(s for s in state if s is not None)]
    total = sum((v * torch.linspace(0.5, 1.5, v.numel()).view(v.shape)).sum() for v in values)
    return [*values, *torch.autograd.grad(total, [x, flat], allow_unused=True)]


def agree(case, return_states, turned=False):
    if case.steps == 0 or case.batch == 0:
        return  # refused before
    expected = results(case, backend.ReferenceBackend().forward, return_states, turned)
    actual = results(case, backend._forward_here, return_states, turned)
    assert_same(
        expected, [torch.zeros_like(e) if a is None else a for e, a in zip(expected, actual, strict=True)]
    )


@pytest.mark.parametrize("return_states", ["last", "all"])
@given(cases(), st.booleans())
@examples(150)
def test_rows_are_handed_over_and_given_back(return_states, case, turned):
    agree(case, return_states, turned)


@given(cases(), st.booleans(), st.sampled_from([90100, 90200]))
@examples(150)
def test_rows_without_a_step_where_cudnn_refuses_them(case, turned, version):
    with pytest.MonkeyPatch.context() as patch:
        for module in (constraints, cudnn_rules):
            patch.setattr(module, "version", lambda: version)
        agree(case, "last", turned)


@pytest.mark.parametrize("return_states", ["last", "all"])
@given(cases(max_steps=11), st.integers(1, 4))
@examples(150)
def test_long_sequences_run_in_stretches(return_states, case, most):
    with pytest.MonkeyPatch.context() as patch:
        for module in (rows, layers, long):
            patch.setattr(module, "MOST_STEPS", most)
        agree(case, return_states)


def test_batch_first_input_is_not_copied():
    x = torch.randn(4, 7, 3)
    taken = rows.Rows(7, 4, turned=True)
    assert taken.enter(x.transpose(0, 1)).data_ptr() == x.data_ptr()
    assert taken.leave(x).shape == (7, 4, 3)


def test_dropout_acts_between_the_layers():
    d = RNNDescriptor("gru", 3, 5, num_layers=3, bidirectional=True, dropout=0.4)
    weights = RNNWeights.init(d, dtype=torch.float64)
    x, found = torch.randn(7, 4, 3, dtype=torch.float64), []
    for run in (backend.ReferenceBackend().forward, backend._forward_here):
        torch.manual_seed(5)
        options = Options(training=True, lengths=[3, 7, 0, 5], return_states="all")
        _, request = read_request(d, weights.by_layer(), x, None, options, draw=True)
        assert len(request.drops) == 2
        assert request.return_states is ReturnStates.ALL
        found.append(run(request))
    assert_same(list(found[0].state), list(found[1].state))
    assert_same(found[0].output, found[1].output)
