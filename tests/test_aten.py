"""Backend ``aten`` equals ``reference``: values, states and all gradients, in every dtype."""

from __future__ import annotations

import pytest
import torch
from cases import cases, examples
from compare import assert_bitwise, assert_same
from hypothesis import assume, given

from rnncompat import Cell, RNNDescriptor, RNNWeights, UnsupportedError, rnn_forward


def results(case, backend, dtype=torch.float64, **options):
    """Output, states, and the gradients of x, the weights and the given state."""
    d = case.descriptor
    x = case.x.to(dtype).requires_grad_()
    weights = case.weights.to(dtype=dtype)
    state = None if case.state is None else case.state.to(dtype=dtype)
    leaves = [x, weights.flat]
    if state is not None:
        state = type(state)(*(None if s is None else s.clone().requires_grad_() for s in state))
        leaves += [s for s in state if s is not None]
    torch.manual_seed(1)
    output, after = rnn_forward(d, weights, x, state, backend=backend, **case.options, **options)
    tensors = [output, *(s for s in after if s is not None)]
    random = torch.Generator().manual_seed(2)
    total = sum((t * torch.randn(t.shape, generator=random).to(dtype)).sum() for t in tensors)
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    return tensors, [torch.zeros_like(t) if g is None else g for t, g in zip(leaves, gradients, strict=True)]


@pytest.mark.parametrize("return_states", ["last", "all"])
@given(case=cases())
@examples(250)
def test_values_states_and_gradients_in_float64(return_states, case):
    expected = results(case, "reference", return_states=return_states)
    assert_same(expected, results(case, "aten", return_states=return_states))


TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 8e-2}
"""Of torch.testing, widened by the length of the sums: gradients of weights add up to 48 steps."""


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@given(case=cases())
@examples(80)
def test_other_dtypes(dtype, case):
    # In 8 to 11 bits two ways of adding up fall on different sides of a kink now and then.
    kink = case.descriptor.cell is Cell.RNN_RELU or case.descriptor.cell_clip is not None
    assume(dtype is torch.float32 or not kink)
    for wanted, given_ in zip(results(case, "reference", dtype), results(case, "aten", dtype), strict=True):
        for expected, actual in zip(wanted, given_, strict=True):
            assert actual.dtype == dtype
            scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
            assert_same(expected.double() / scale, actual.double() / scale, TOLERANCE[dtype])


@pytest.mark.parametrize("gaps", ["dense", "lengths"])
@pytest.mark.parametrize("cell", ["rnn_tanh", "lstm", "gru"])
def test_backends_agree_with_dropout_on(cell, gaps):
    descriptor = RNNDescriptor(cell, 2, 3, num_layers=3, bidirectional=True, dropout=0.5)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    x = torch.randn(6, 5, 2, dtype=torch.float64)
    lengths = None if gaps == "dense" else [6, 1, 0, 3, 5]
    outputs = []
    for backend in ("reference", "aten"):
        torch.manual_seed(3)
        outputs.append(rnn_forward(descriptor, weights, x, lengths=lengths, training=True, backend=backend))
    assert_same(*outputs)


@given(case=cases())
@examples(30)
def test_the_same_call_twice_gives_the_same_bits(case):
    assert_bitwise(results(case, "aten"), results(case, "aten"))


@given(case=cases(max_steps=4, max_layers=1))
@examples(30)
def test_second_derivatives_work_without_the_user_asking(case):
    def second(backend):
        x = case.x.clone().requires_grad_()
        output, _ = rnn_forward(case.descriptor, case.weights, x, case.state, backend=backend, **case.options)
        (first,) = torch.autograd.grad((output**2).sum(), x, create_graph=True)
        return torch.autograd.grad((first**2).sum() + (output**3).sum(), [x, case.weights.flat])

    assert_same(second("reference"), second("aten"), 1e-8)


# torch's own forward-mode rules load scripts on first use, which it deprecates itself.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*")
def test_what_it_cannot_do_is_refused_and_auto_goes_elsewhere():
    descriptor = RNNDescriptor("gru", 2, 3)
    weights = RNNWeights.init(descriptor)
    x = torch.randn(4, 5, 2)
    with pytest.raises(UnsupportedError, match=r"'aten': it has no algorithm 'standard'"):
        rnn_forward(descriptor, weights, x, backend="aten", algorithm="standard")
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(UnsupportedError, match="forward-mode derivatives"):
            rnn_forward(descriptor, weights, dual, backend="aten")
        output, _ = rnn_forward(descriptor, weights, dual)
        tangent = torch.autograd.forward_ad.unpack_dual(output).tangent
    step = 1e-3
    ahead, behind = (rnn_forward(descriptor, weights, x + sign * step)[0] for sign in (1, -1))
    torch.testing.assert_close(tangent, (ahead - behind) / (2 * step), rtol=1e-2, atol=1e-3)


def test_torch_func_goes_through_the_definition():
    descriptor = RNNDescriptor("gru", 2, 3)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    x = torch.randn(6, 4, 2, dtype=torch.float64)  # [B, T, I]: one sample a row

    def loss(flat, sample):
        output, _ = rnn_forward(descriptor, RNNWeights(descriptor, flat), sample[:, None])
        return (output**2).sum()

    flat = weights.flat.detach()
    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(flat, x)
    one_by_one = [torch.autograd.grad(loss(weights.flat, sample), weights.flat)[0] for sample in x]
    assert_same(torch.stack(one_by_one), per_sample)


@pytest.mark.parametrize("cell", ["rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize("options", [{}, {"lengths": [6, 0, 3]}], ids=["dense", "lengths"])
def test_an_output_is_no_view_and_may_be_changed_in_place(cell, options):
    descriptor = RNNDescriptor(cell, 2, 4)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    x = torch.randn(6, 3, 2, dtype=torch.float64, requires_grad=True)
    output, _ = rnn_forward(descriptor, weights, x, backend="aten", **options)
    assert not output._is_view()
    expected = torch.autograd.grad((output * 2 + 1).square().sum(), [x, weights.flat], retain_graph=True)
    output.mul_(2).add_(1)
    assert_same(expected, torch.autograd.grad(output.square().sum(), [x, weights.flat]))
