"""What people do to a module while they train it: each against the same done to :class:`native.Native`."""

from __future__ import annotations

import copy

import pytest
import torch
from compare import assert_bitwise, assert_same
from native import F64, NETWORKS, H, I, Native, gradients, parameters, twins
from torch import nn
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, prune, vector_to_parameters
from torch.nn.utils import parametrizations as param
from torch.nn.utils.parametrize import cached, register_parametrization
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

T, B = 6, 4
LENGTHS = [3, 6, 0, 5]


@pytest.fixture(params=[True, False], ids=["packed", "apart"])
def packed(request):
    """Whether the parameters lie in one buffer."""
    return request.param


@pytest.fixture(params=NETWORKS)
def module(request, packed):
    made = NETWORKS[request.param]()
    if packed:
        made.flatten_parameters()
    return made


@pytest.fixture
def pair(module):
    return twins(module)


def batch():
    return torch.randn(T, B, I, dtype=F64)


def train(model, x, steps=3, **options):
    """A few steps of SGD that remembers, on data that grow."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        model(x * (1 + step), **options).sum().backward()
        optimizer.step()


def assert_trained_alike(expected, ours, x, **options):
    """Both have moved, to the same parameters, and say the same."""
    before = parameters(ours)
    train(expected, x, **options)
    train(ours, x, **options)
    after = parameters(ours)
    assert list(after) == list(parameters(expected))
    assert all(not torch.equal(before[name], after[name]) for name in after)
    assert_same(list(parameters(expected).values()), list(after.values()))
    assert_same(expected(x, **options), ours(x, **options))


@pytest.mark.parametrize("options", [{}, {"lengths": LENGTHS}], ids=["dense", "lengths"])
def test_sgd_in_a_model(pair, options):
    ours, expected = pair
    assert_trained_alike(expected, ours, batch(), **options)


@pytest.mark.parametrize("decay", [None, 0.75])
def test_averaged_models(pair, decay):
    """Stochastic weight averaging and, with a decay, the exponential kind."""
    ours, expected = pair
    ema = None if decay is None else lambda mean, new, _: decay * mean + (1 - decay) * new
    averaged = AveragedModel(ours, avg_fn=ema)
    x, means = batch(), None
    for n in range(3):
        for model in (ours, expected):
            train(model, x, steps=1, lengths=LENGTHS)
        averaged.update_parameters(ours)
        averaged.module.rnn.flatten_parameters()
        share = 1 / (n + 1) if decay is None else 1 - decay
        new = parameters(expected)
        means = {k: means[k] + share * (v - means[k]) for k, v in new.items()} if n else new
    assert_same(list(parameters(expected).values()), list(parameters(ours).values()))
    assert_same(list(means.values()), list(parameters(averaged.module).values()))
    assert not torch.allclose(ours(x), averaged(x))
    expected.load_state_dict(means)
    assert_same(expected(x, lengths=LENGTHS), averaged(x, lengths=LENGTHS))
    assert_same(
        torch.autograd.grad(expected(x).sum(), list(expected.parameters())),
        torch.autograd.grad(averaged(x).sum(), list(averaged.parameters())),
    )


def test_an_optimizer_of_one_vector(pair):
    """The optimiser sees one vector; the parameters are views of it, through which its steps act."""
    ours, expected = pair
    x = batch()
    theta = nn.Parameter(parameters_to_vector(ours.parameters()).detach().clone())
    optimizer = torch.optim.Adam([theta], lr=0.1)
    for step in range(3):
        vector_to_parameters(theta, ours.parameters())
        if step == 1:
            ours.rnn.flatten_parameters()  # the parameters leave the vector until the next round
        ours.zero_grad()
        ours(x).sum().backward()
        theta.grad = parameters_to_vector([p.grad for p in ours.parameters()])
        optimizer.step()
    vector_to_parameters(theta, ours.parameters())
    adam = torch.optim.Adam(expected.parameters(), lr=0.1)
    for _ in range(3):
        adam.zero_grad()
        expected(x).sum().backward()
        adam.step()
    assert_same(list(parameters(expected).values()), list(parameters(ours).values()))
    assert_same(expected(x), ours(x))
    assert_same(parameters_to_vector(expected.parameters()), theta.detach())


def test_clipped_gradients(pair):
    """Clipping works in place: gradients that shared memory would shrink twice."""
    ours, expected = pair
    x, norms = batch(), []
    for model in (expected, ours):
        for scale in (1.0, 2.0):
            model(x * scale, lengths=LENGTHS).sum().backward()
        norms.append(clip_grad_norm_(model.parameters(), 0.5))
        assert norms[-1] > 0.5
    assert_same(norms[0], norms[1])
    assert list(gradients(expected)) == list(gradients(ours))
    assert_same(list(gradients(expected).values()), list(gradients(ours).values()))
    assert_same(
        torch.tensor(0.5, dtype=F64), sum(g.square().sum() for g in gradients(ours).values()).sqrt(), 1e-5
    )
    assert len({g.data_ptr() for g in gradients(ours).values()}) == len(gradients(ours))
    for value in ours.parameters():
        assert value.grad.shape == value.shape
        assert value.grad.is_contiguous()


@pytest.mark.parametrize("options", [{}, {"lengths": LENGTHS}], ids=["dense", "lengths"])
@pytest.mark.parametrize("kind", ["tanh", "lstm", "projected", "gru"])
def test_checkpointing_with_dropout_between_layers(kind, options):
    """The recomputed forward draws the same masks and gives the same gradients by everything."""
    module = NETWORKS[kind](dropout=0.4)
    x = batch().requires_grad_()
    h = torch.randn(len(module(x)[1]), B, H, dtype=F64) if kind == "gru" else None
    inputs = [x, *module.parameters()] + ([] if h is None else [h.requires_grad_()])
    weight = torch.randn_like(module(x)[0])

    def run(again):
        torch.manual_seed(5)
        arguments = (x, h)
        if again:
            output, _ = checkpoint(lambda *a: module(*a, **options), *arguments, use_reentrant=False)
        else:
            output, _ = module(*arguments, **options)
        torch.rand(7)  # whatever is drawn in between must not matter
        return output, torch.autograd.grad((output * weight).sum(), inputs)

    assert_bitwise(run(again=False), run(again=True))
    dropped = run(again=True)[0]
    assert not torch.allclose(dropped, module(x, h, **options)[0])
    if not options:
        torch.manual_seed(5)
        assert_same(Native(module)(x, h)[0], dropped)


def weight_norm(module):
    param.weight_norm(module, "weight_hh_l0", dim=0)
    param.weight_norm(module, "weight_ih_l0", dim=1)


def spectral_norm(module):
    """Each reading of the weight in training moves its vectors by one power iteration."""
    torch.manual_seed(2)
    param.spectral_norm(module, "weight_hh_l0", n_power_iterations=1)


def orthogonal(module):
    torch.manual_seed(2)  # a matrix that is not square is filled up at random
    param.orthogonal(module, "weight_hh_l0")


def spectral_norm_by_a_hook(module):
    torch.manual_seed(2)
    nn.utils.spectral_norm(module, "weight_hh_l0")


def shrunk(module):
    """Two parametrizations, one after the other, one of them by a user."""

    class Half(nn.Module):
        def forward(self, weight):
            return weight / 2

    orthogonal(module)
    register_parametrization(module, "weight_hh_l0", Half())
    register_parametrization(module, "bias_hh_l0", Half())


def assert_trains_alike_under(change, pair):
    ours, expected = pair
    for model in (ours, expected):
        change(model.rnn)
    x = batch()
    assert_trained_alike(expected, ours, x, lengths=LENGTHS)
    ours.rnn.flatten_parameters()
    for model in (ours.eval(), expected.eval()):
        model(x)
    assert_same(expected.rnn.weight_hh_l0, ours.rnn.weight_hh_l0)
    assert_trained_alike(expected, ours, x)


@pytest.mark.parametrize(
    "change", [spectral_norm, orthogonal, shrunk, spectral_norm_by_a_hook], ids=lambda change: change.__name__
)
def test_parametrized_weights_train(change, pair):
    assert_trains_alike_under(change, pair)


def test_weight_norm_trains(pair):
    assert_trains_alike_under(weight_norm, pair)


@pytest.mark.parametrize("kind", ["tanh", "projected"])
def test_cached_parametrizations_serve_a_loop_of_steps(kind):
    """In a loop of steps the parametrization is worked out once; its gradient is that of the whole sequence."""
    module = NETWORKS[kind]()
    expected = Native(module)
    for network in (module, expected):
        orthogonal(network)
    x = batch()
    with cached():
        state, outputs = None, []
        for x_t in x:
            y, state = module.step(x_t, state)
            outputs.append(y)
        assert_same(expected(x)[0], torch.stack(outputs))
        loss = (torch.stack(outputs) * x.sum(-1, keepdim=True)).sum()
    assert_same(
        torch.autograd.grad((expected(x)[0] * x.sum(-1, keepdim=True)).sum(), list(expected.parameters())),
        torch.autograd.grad(loss, list(module.parameters())),
    )


def prune_weights(module):
    torch.manual_seed(4)
    prune.l1_unstructured(module, "weight_ih_l0", 0.4)
    prune.ln_structured(module, "weight_hh_l0", 0.3, n=2, dim=1)
    prune.random_unstructured(module, "bias_hh_l0", 2)


def prune_globally(module):
    weights = [(module, name) for name in module.names if name.startswith("weight")]
    prune.global_unstructured(weights, pruning_method=prune.L1Unstructured, amount=0.4)


@pytest.mark.parametrize("change", [prune_weights, prune_globally], ids=lambda change: change.__name__)
def test_pruned_weights_train(change, pair):
    """What is pruned stays zero while the rest learns; a second round prunes on top of the first."""
    ours, expected = pair
    x = batch()
    for _ in range(2):
        for model in (ours, expected):
            change(model.rnn)
        assert_trained_alike(expected, ours, x, lengths=LENGTHS)
        ours.rnn.flatten_parameters()
        masks = dict(ours.rnn.named_buffers())
        ours(x)
        assert len(masks) >= 3
        for name, mask in masks.items():
            assert 0 < mask.sum() < mask.numel()
            assert not getattr(ours.rnn, name.removesuffix("_mask"))[mask == 0].any()
    outputs = ours(x)
    for name in masks:
        prune.remove(ours.rnn, name.removesuffix("_mask"))
    assert_same(outputs, ours(x))
    assert_same(outputs, copy.deepcopy(ours)(x))


def test_functional_call_of_a_model(pair):
    """Some parameters are given, the others are its own; options pass; gradients go to what was given."""
    ours, expected = pair
    own, x = parameters(ours), batch()
    given = {name: (2 * value).requires_grad_() for name, value in own.items() if "hh" in name}
    theirs = {name: value.detach().clone().requires_grad_() for name, value in given.items()}
    results = []
    for model, leaves in ((expected, theirs), (ours, given)):
        output = torch.func.functional_call(model, leaves, (x,), {"lengths": LENGTHS})
        grads = torch.autograd.grad(output.square().sum(), [*leaves.values(), model.rnn.weight_ih_l0])
        results.append((output, grads))
    assert_same(*results)
    assert not torch.allclose(results[1][0], ours(x, lengths=LENGTHS))
    assert_bitwise(list(own.values()), list(parameters(ours).values()))


def test_functional_call_through_a_step_of_learning(pair):
    """The gradient through a step of gradient descent, as meta-learning takes it: second derivatives in use."""
    ours, expected = pair
    x, results = batch(), []
    for model in (expected, ours):
        named = dict(model.named_parameters())
        loss = model(x, lengths=LENGTHS).square().mean()
        grads = torch.autograd.grad(loss, list(named.values()), create_graph=True)
        moved = {name: p - 0.3 * g for (name, p), g in zip(named.items(), grads, strict=True)}
        outer = torch.func.functional_call(model, moved, (x.flip(0),)).square().mean()
        results.append((outer, torch.autograd.grad(outer, list(named.values()))))
    assert_same(*results)
