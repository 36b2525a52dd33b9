"""Libraries that drive modules of other people: skorch and Opacus."""

from __future__ import annotations

import copy

import pytest
import torch
from compare import assert_same
from native import F64, NETWORKS, I, Native, twins
from torch import nn

pytestmark = pytest.mark.thorough

T, B = 6, 4
LENGTHS = torch.tensor([3, 6, 0, 5])


class Rows(nn.Module):
    """Rows first, as these libraries cut batches."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, lengths):
        return self.model(x.transpose(0, 1), lengths=lengths)


def examples():
    """Sequences ``[N, T, I]`` of any lengths, and the sum of the first feature of their real steps."""
    x, lengths = torch.randn(23, T, I, dtype=F64), torch.randint(0, T + 1, (23,))
    real = torch.arange(T) < lengths[:, None]
    return {"x": x.numpy(), "lengths": lengths.numpy()}, (x[..., 0] * real).sum(1).numpy()


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_skorch_trains_and_predicts(kind, tmp_path):
    """As it trains and predicts with torch's own kernels; lengths come through its loader."""
    from skorch import NeuralNetRegressor  # noqa: PLC0415  # not everywhere

    def regressor(model):
        return NeuralNetRegressor(
            Rows,
            module__model=model,
            optimizer=torch.optim.Adam,
            lr=0.02,
            batch_size=7,
            max_epochs=8,
            train_split=None,
            verbose=0,
        )

    nets = [regressor(model) for model in twins(NETWORKS[kind]())]
    inputs, targets = examples()
    ours, expected = (net.fit(inputs, targets) for net in nets)
    losses = [net.history[:, "train_loss"] for net in (ours, expected)]
    assert losses[0][-1] < losses[0][0] / 2
    assert losses[0] == pytest.approx(losses[1], rel=1e-8)
    predicted = torch.from_numpy(ours.predict(inputs))
    assert_same(torch.from_numpy(expected.predict(inputs)), predicted, 1e-8)
    with torch.no_grad():
        assert_same(ours.module_(**{k: torch.from_numpy(v) for k, v in inputs.items()}), predicted)
    ours.save_params(f_params=tmp_path / "weights.pt")
    fresh = regressor(twins(NETWORKS[kind]())[0]).initialize()
    fresh.load_params(f_params=tmp_path / "weights.pt")
    assert_same(predicted, torch.from_numpy(fresh.predict(inputs)))


def reading(module):
    """*module* in the one form that Opacus can differentiate by sample: a tensor in, a tensor out.

    Its hooks keep the positional arguments of a call but differentiate by the first, never see keywords, and
    multiply what a module returns by one gradient, so that a tuple fails. Nor does wrapping help, as hooks go
    to the module that owns the parameters. So a subclass says what is differentiated: here the output, and
    how many steps are real comes as one more feature.
    """

    class Reading(type(module)):
        def forward(self, x):
            return super().forward(x[..., :I], mask=x[..., I] > 0)[0]

    module.__class__ = Reading
    return module


def batch(first):
    """A batch with a feature more, 1 where a step is real; rows first or steps first."""
    real = torch.arange(T)[:, None] < LENGTHS
    x = torch.cat([torch.randn(T, B, I, dtype=F64), real[..., None].to(F64)], dim=-1)
    # Without a gradient to its input, torch warns that Opacus' hooks see none.
    return (x.transpose(0, 1) if first else x).clone().requires_grad_()


def network(kind, first):
    """A network under a layer as Opacus takes it; how the oracle loses on one sample; the oracle's leaves."""
    rnn = NETWORKS[kind](batch_first=first)
    head = nn.Linear(rnn.descriptor.output_size, 4, dtype=F64)
    plain, plain_head = Native(rnn), copy.deepcopy(head)

    def loss(x, row):
        one = (x[row] if first else x[:, row])[:, None, :I]  # [T, 1, I]
        output, _ = plain(one, lengths=LENGTHS[[row]])
        return plain_head(output).square().sum()

    return nn.Sequential(reading(rnn), head), loss, [*plain.parameters(), *plain_head.parameters()]


@pytest.fixture(params=[True, False], ids=["rows first", "steps first"])
def first(request):
    return request.param


@pytest.mark.parametrize("kind", NETWORKS)
def test_opacus_gives_the_gradient_of_every_sample(kind, first):
    from opacus import GradSampleModule  # noqa: PLC0415  # not everywhere

    model, loss, leaves = network(kind, first)
    x = batch(first)
    expected = [torch.autograd.grad(loss(x, row), leaves, materialize_grads=True) for row in range(B)]
    private = GradSampleModule(model, batch_first=first, loss_reduction="mean", force_functorch=True)
    (private(x).square().sum() / B).backward()
    for samples, parameter in zip(zip(*expected, strict=True), private.parameters(), strict=True):
        assert_same(torch.stack(samples), parameter.grad_sample)
        assert_same(torch.stack(samples).mean(0), parameter.grad)
        assert samples[0].any()
        assert not torch.allclose(samples[0], samples[1])


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_opacus_clips_every_sample(kind, first):
    """A step of its optimiser, with the noise off: the mean of the samples' gradients, each clipped."""
    from opacus import GradSampleModule  # noqa: PLC0415  # not everywhere
    from opacus.optimizers import DPOptimizer  # noqa: PLC0415  # not everywhere

    model, loss, leaves = network(kind, first)
    x = batch(first)
    expected = [p.detach().clone() for p in leaves]
    private = GradSampleModule(model, batch_first=first, force_functorch=True)
    optimizer = DPOptimizer(
        torch.optim.SGD(private.parameters(), lr=0.1),
        noise_multiplier=0.0,
        max_grad_norm=0.5,
        expected_batch_size=B,
    )
    norms = []
    for row in range(B):
        grads = torch.autograd.grad(loss(x, row), leaves, materialize_grads=True)
        norms.append(torch.cat([g.flatten() for g in grads]).norm())
        scale = (0.5 / (norms[-1] + 1e-6)).clamp(max=1.0)  # its own guard against dividing by zero
        for value, grad in zip(expected, grads, strict=True):
            value.sub_(0.1 / B * scale * grad)
    (private(x).square().sum() / B).backward()
    optimizer.step()
    assert max(norms) > 0.5
    assert_same(expected, [p.detach() for p in private.parameters()])
