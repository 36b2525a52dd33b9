"""Every derivative there is, chosen without flags: second order, torch.func's transforms, forward mode."""

from __future__ import annotations

import pytest
import torch
from compare import assert_same

import rnncompat
from rnncompat import InvalidValueError, RNNDescriptor, RNNWeights, explain, rnn_forward

F64 = torch.float64
T, B, I, H = 5, 3, 2, 4

NETWORKS = {
    "rnn_relu": ("rnn_relu", {"bidirectional": True}),
    "rnn_tanh": ("rnn_tanh", {"bias": "none"}),
    "lstm": ("lstm", {"num_layers": 2}),
    "gru": ("gru", {"bias": "input", "bidirectional": True}),
    "gru, recurrent bias": ("gru", {"bias": "recurrent"}),
    "projection, clip out of reach": ("lstm", {"proj_size": 3, "cell_clip": (-9.0, 9.0)}),
}
CALLS = {
    "dense": {},
    "lengths": {"lengths": [5, 0, 3]},
    "mask": {"mask": torch.tensor([[1, 0, 1], [1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 1, 1]]).bool()},
    "resets": {"resets": torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]]).bool()},
    "resets to the given state": {
        "resets": torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]]).bool(),
        "reset_to": "initial",
        "lengths": [5, 4, 3],
    },
}


MODULES = {
    "relu": (rnncompat.RNN, {"nonlinearity": "relu"}),
    "tanh": (rnncompat.RNN, {}),
    "lstm": (rnncompat.LSTM, {}),
    "projected": (rnncompat.LSTM, {"proj_size": 3}),
    "gru": (rnncompat.GRU, {}),
}


def make(kind, layers=1):
    cls, options = MODULES[kind]
    return cls(I, H, layers, dtype=F64, **options)


@pytest.fixture(params=NETWORKS)
def network(request):
    cell, options = NETWORKS[request.param]
    return RNNDescriptor(cell, I, H, **options)


@pytest.fixture(params=CALLS)
def function(request, network):
    """``(flat weights, x, h) -> (output, final h)`` of one call."""

    def run(flat, x, h):
        state = (h, None) if network.has_cell_state else h
        output, after = rnn_forward(network, RNNWeights(network, flat), x, state, **CALLS[request.param])
        return output, after.h

    return run


@pytest.fixture
def leaves(network):
    flat = RNNWeights.init(network, dtype=F64).flat.detach()
    x = torch.randn(T, B, I, dtype=F64)
    h = torch.randn(network.num_pseudo_layers, B, network.state_size, dtype=F64)
    return tuple(t.requires_grad_() for t in (flat, x, h))


def plain(leaves):
    return tuple(t.detach() for t in leaves)


def energy(outputs):
    return sum((t * t).sum() for t in outputs)


@pytest.mark.parametrize(
    "fast", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["fast", "full"]
)
def test_second_derivatives(function, leaves, fast):
    assert torch.autograd.gradgradcheck(function, leaves, fast_mode=fast)


def test_func_grad_equals_autograd(function, leaves):
    expected = torch.autograd.grad(energy(function(*leaves)), leaves)
    assert_same(expected, torch.func.grad(lambda *a: energy(function(*a)), (0, 1, 2))(*plain(leaves)))


def test_func_jvp_equals_the_gradient_along_it(function, leaves):
    tangents = tuple(torch.randn_like(t) for t in leaves)
    _, slope = torch.func.jvp(lambda *a: energy(function(*a)), plain(leaves), tangents)
    gradients = torch.autograd.grad(energy(function(*leaves)), leaves)
    assert_same(sum((g * t).sum() for g, t in zip(gradients, tangents, strict=True)), slope)


def test_func_hessian_equals_double_backward(function, leaves):
    flat, x, h = plain(leaves)
    found = torch.func.hessian(lambda h: energy(function(flat, x, h)))(h)
    assert_same(torch.autograd.functional.hessian(lambda h: energy(function(flat, x, h)), h), found)


@pytest.mark.parametrize("kind", MODULES)
def test_func_vmap_of_grad_is_a_gradient_a_sample(kind):
    module = make(kind)
    x, lengths = torch.randn(T, B, I, dtype=F64), torch.tensor([5, 0, 3])
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def loss(parameters, sample, length):
        arguments = {"lengths": length[None]}
        output, _ = torch.func.functional_call(module, parameters, (sample[:, None],), arguments)
        return (output**2).sum()

    found = torch.func.vmap(torch.func.grad(loss), (None, 1, 0))(parameters, x, lengths)
    for row in range(B):
        module.zero_grad()
        (module(x[:, row : row + 1], lengths=lengths[row : row + 1])[0] ** 2).sum().backward()
        for name, parameter in module.named_parameters():
            assert_same(parameter.grad, found[name][row])


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize(
    "options", [{}, {"lengths": [5, 2]}, {"resets": torch.ones(T, 2, dtype=torch.bool)}], ids=str
)
def test_func_vmap_over_the_weights_of_an_ensemble(kind, options):
    members = [make(kind, 2) for _ in range(3)]
    stacked, _ = torch.func.stack_module_state(members)
    x = torch.randn(T, 2, I, dtype=F64)

    def call(parameters, x):
        return torch.func.functional_call(members[0], parameters, (x,), options)[0]

    expected = torch.stack([member(x, **options)[0] for member in members])
    assert_same(expected, torch.func.vmap(call, (0, None))(stacked, x))


@pytest.mark.parametrize("name", ["mask", "resets"])
def test_func_vmap_over_flags(name):
    module = rnncompat.GRU(I, H, dtype=F64)
    x, flags = torch.randn(T, B, I, dtype=F64), torch.rand(T, B) < 0.5
    found = torch.func.vmap(lambda x, f: module(x[:, None], **{name: f[:, None]})[0][:, 0], 1, 1)(x, flags)
    assert_same(module(x, **{name: flags})[0], found)


def test_func_vmap_over_lengths_refuses_what_cannot_be():
    module = rnncompat.GRU(I, H)
    call = torch.func.vmap(lambda x, n: module(x[:, None], lengths=n[None])[0], (1, 0))
    with pytest.raises(InvalidValueError, match="is 6, but the input has T = 5 steps"):
        call(torch.randn(T, B, I), torch.tensor([5, 6, 0]))


def test_first_order_calls_stay_on_the_fast_path():
    descriptor = RNNDescriptor("gru", I, H)
    weights = RNNWeights.init(descriptor)
    x = torch.randn(T, B, I, requires_grad=True)
    assert explain(descriptor, x, weights=weights, lengths=[5, 0, 3]).backend == "aten"
    with torch.autograd.forward_ad.dual_level():
        assert explain(descriptor, x, weights=weights).backend == "reference"
    seen = []

    def watched(values):
        seen.append(explain(descriptor, values, weights=weights).backend)
        return rnn_forward(descriptor, weights, values)[0].sum()

    torch.autograd.grad(watched(x), x)
    assert seen == ["aten"]


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("options", [{}, {"lengths": [5, 0, 3]}], ids=["dense", "lengths"])
def test_batched_backward_gives_the_rows_of_a_jacobian(kind, options):
    module = make(kind)
    x = torch.randn(T, B, I, dtype=F64, requires_grad=True)
    output, _ = module(x, **options)
    directions = torch.randn(4, *output.shape, dtype=F64)
    one_by_one = [torch.autograd.grad(output, x, d, retain_graph=True)[0] for d in directions]
    (together,) = torch.autograd.grad(output, x, directions, is_grads_batched=True, retain_graph=True)
    assert_same(torch.stack(one_by_one), together)
