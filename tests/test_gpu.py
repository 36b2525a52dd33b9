"""The same numbers on the GPU as on the CPU: ``pytest -m gpu``."""

from __future__ import annotations

import copy

import pytest
import torch
from cases import cases, examples
from compare import assert_bitwise, assert_same
from hypothesis import given
from torch.nn.utils.rnn import pack_padded_sequence

from rnncompat import (
    RNNDescriptor,
    RNNState,
    RNNWeights,
    SequenceBatch,
    block_sum,
    legacy,
    rnn_forward,
    upsample_nearest,
)
from rnncompat.legacy import flux

pytestmark = pytest.mark.gpu


def results(case, device, return_states):
    """Output, states and every gradient, on the CPU."""
    d = case.descriptor
    weights = case.weights.to(device)
    x = case.x.to(device).requires_grad_()
    state = None if case.state is None else case.state.to(device)
    options = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in case.options.items()}
    output, after = rnn_forward(d, weights, x, state, return_states=return_states, **options)
    assert output.device.type == device
    total = (output**2).sum() + sum((s**2).sum() for s in after if s is not None)
    gradients = torch.autograd.grad(total, [x, weights.flat])
    return [t.detach().cpu() for t in (output, *(s for s in after if s is not None), *gradients)]


@pytest.mark.parametrize("return_states", ["last", "all"])
@given(cases())
@examples(150)
def test_gpu_and_cpu_agree_in_values_and_gradients(return_states, case):
    assert_same(results(case, "cpu", return_states), results(case, "cuda", return_states))


def test_lengths_mask_and_resets_may_lie_anywhere():
    descriptor = RNNDescriptor("gru", 2, 3, bidirectional=True)
    weights = RNNWeights.init(descriptor, device="cuda", dtype=torch.float64)
    x = torch.randn(5, 4, 2, device="cuda", dtype=torch.float64)
    lengths, resets = [5, 0, 3, 1], torch.rand(5, 4) < 0.3
    expected = rnn_forward(descriptor, weights, x, lengths=lengths, resets=resets)
    for place in ("cpu", "cuda"):
        given_lengths = torch.tensor(lengths, device=place)
        actual = rnn_forward(descriptor, weights, x, lengths=given_lengths, resets=resets.to(place))
        assert_bitwise(expected, actual)
    rows = SequenceBatch.from_padded(x, lengths).to_list()
    output, _ = rnn_forward(descriptor, weights, rows)
    assert [len(row) for row in output] == lengths
    packed = pack_padded_sequence(x, [5, 2, 3, 1], enforce_sorted=False)
    output, _ = rnn_forward(descriptor, weights, packed)
    assert output.data.device.type == "cuda"


def test_the_same_call_and_seed_give_the_same_bits():
    descriptor = RNNDescriptor("lstm", 2, 3, num_layers=2, dropout=0.5)
    weights = RNNWeights.init(descriptor, device="cuda")
    x = torch.randn(5, 4, 2, device="cuda")

    def call():
        torch.manual_seed(3)
        return rnn_forward(descriptor, weights, x, training=True)

    assert_bitwise(call(), call())


def test_a_device_that_differs_is_named():
    descriptor = RNNDescriptor("gru", 2, 3)
    weights = RNNWeights.init(descriptor, device="cuda")
    with pytest.raises(
        TypeError, match=r"x is torch.float32 on cpu, but the weights are torch.float32 on cuda:0"
    ):
        rnn_forward(descriptor, weights, torch.zeros(5, 4, 2))
    state = RNNState(torch.zeros(1, 4, 3))
    with pytest.raises(TypeError, match=r"state.h is torch.float32 on cpu"):
        rnn_forward(descriptor, weights, torch.zeros(5, 4, 2, device="cuda"), state)


@pytest.mark.parametrize("mode", range(4))
def test_legacy_on_the_gpu(mode):
    with legacy.legacy_warnings("quiet"):
        rnn = legacy.RNNDesc[torch.float64](mode, 3, 5)
        rnn.params.normal_()
        other = legacy.RNNDesc[torch.float64](mode, 3, 5, device="cuda")
        other.params.copy_(rnn.params)
        x, h, dy = torch.randn(3, 4).double(), torch.randn(5).double(), torch.randn(5, 4).double()
        outputs, back = legacy.pullback(rnn, x, h)
        on_gpu, back_gpu = legacy.pullback(other, x.cuda(), h.cuda())
        assert_same(list(outputs), [t.cpu() for t in on_gpu])
        assert_same(list(back(dy, None)), [t.cpu() for t in back_gpu(dy.cuda(), None)])


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells_on_the_gpu(kind):
    with legacy.legacy_warnings("quiet"):
        m = legacy.Recur(getattr(legacy, kind)(3, 5)).double()
        other = copy.deepcopy(m).cuda()
        x = torch.randn(3, 4, 7)  # stays on the CPU and float32: x is converted
        results = [[model(x), model(x[..., 0])] for model in (m, other)]
        assert_same(results[0], [t.cpu() for t in results[1]])
        gradients = [
            torch.autograd.grad(ys[1].sum(), list(model.parameters()))
            for model, ys in zip((m, other), results, strict=True)
        ]
        assert_same(list(gradients[0]), [g.cpu() for g in gradients[1]])
        assert_same(flux.descs[m.cell].params.detach(), flux.descs[other.cell].params.detach().cpu())


@pytest.mark.parametrize("kind", ["relu", "tanh", "lstm", "gru"])
def test_the_old_layer_on_the_gpu(kind):
    with legacy.legacy_warnings("quiet"):
        r = legacy.RNN(3, 5, rnnType=kind, numLayers=2, bidirectional=True, dtype=torch.float64, h=0)
        other = copy.deepcopy(r).cuda()
        x = torch.randn(3, 12).double()
        y, on_gpu = (m(v, batchSizes=[4, 4, 3, 1]) for m, v in ((r, x), (other, x.cuda())))
        y.sin().sum().backward()
        on_gpu.sin().sum().backward()
        assert_same([y, r.h, r.w.grad], [v.cpu() for v in (on_gpu, other.h, other.w.grad)])


def test_the_old_layers_dropout_is_seeded_on_the_gpu_and_leaves_torchs_numbers_alone():
    with legacy.legacy_warnings("quiet"):
        one = legacy.RNN(3, 5, numLayers=2, dropout=0.5, seed=11, device="cuda")
        two = copy.deepcopy(one)
        x = torch.ones(3, 4, 6, device="cuda")
        before = torch.cuda.get_rng_state()
        first = one(x)
        assert_bitwise(first, two(x))
        assert torch.equal(before, torch.cuda.get_rng_state())
        assert not torch.equal(first, one(x))


def test_ragged_ids_on_the_gpu():
    with legacy.legacy_warnings("quiet"):
        layer = legacy.knetlayers.LSTM(input=9, hidden=2, embed=4, dtype=torch.float64)
        batch = [[5], [1, 2, 3], [9, 4]]
        outputs = [layer(batch, hy=True, cy=True)]
        outputs.append(layer.cuda()(batch, hy=True, cy=True))
        outputs.append(layer([torch.tensor(ids, device="cuda") for ids in batch], hy=True, cy=True))
        for out in outputs[1:]:
            assert_same(list(outputs[0][:3]), [v.cpu() for v in out[:3]])
            padded, mask = legacy.knetlayers.PadRNNOutput(out)
            assert padded.y.shape == mask.shape == (2, 3, 3)


UPSAMPLED = [
    ((2, 3, 5), (41,)),
    ((2, 3, 70), (4,)),
    ((2, 3, 4, 5), (1, 1)),
    ((2, 3, 4, 5), (3, 2)),
    ((2, 35, 4, 70), (2, 2)),
    ((2, 3, 4, 5), (9, 16)),
    ((2, 3, 4, 5, 7), (2, 3, 1)),
    ((0, 3, 4, 5), (2, 2)),
]


@pytest.mark.parametrize(("shape", "factors"), UPSAMPLED, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("channels_last", [False, True])
def test_upsampling_gives_the_bits_of_the_cpu(shape, factors, dtype, channels_last):
    """Whole numbers, so that no order of a sum is rounded: what differs is wrong."""
    x = torch.randint(-3, 4, shape).to(dtype)
    if channels_last and len(shape) == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    y = upsample_nearest(x, factors)
    y_gpu = upsample_nearest(x.cuda(), factors)
    assert_bitwise(y, y_gpu.cpu())
    assert y_gpu.stride() == y.stride() or not y.numel()
    dy = torch.randint_like(y, -3, 4)
    assert_bitwise(block_sum(dy, factors), block_sum(dy.cuda(), factors).cpu())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("factors", [(2, 2), (3, 5), (16, 9)])
def test_the_gradient_of_upsampling_is_repeatable_on_the_gpu(dtype, factors):
    x = torch.randn(2, 35, 6, 7, device="cuda").to(dtype).requires_grad_()
    y = upsample_nearest(x, factors)
    dy = torch.randn(y.shape, device="cuda").to(dtype)
    first, second = (torch.autograd.grad(y, x, dy, retain_graph=True)[0] for _ in range(2))
    assert_bitwise(first, second)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 1e-2)
    assert_same(block_sum(dy.cpu(), factors), first.cpu(), tolerance)
    with torch.autocast("cuda"):
        assert torch.autograd.grad(upsample_nearest(x, factors), x, dy)[0].dtype is dtype
        assert block_sum(dy, factors).dtype is dtype


def test_second_derivatives_of_upsampling_on_the_gpu():
    x = torch.randn(2, 1, 3, 4, device="cuda", dtype=torch.float64, requires_grad=True)
    for factors in ((2, 3), (9, 8)):
        assert torch.autograd.gradgradcheck(lambda x, f=factors: upsample_nearest(x, f) ** 3, x)


def test_legacy_upsampling_on_the_gpu():
    x = torch.randint(-3, 4, (6, 9, 2, 5)).float()
    with legacy.legacy_warnings("quiet"):
        assert_bitwise(legacy.upsample(x, (2, 3), 3), legacy.upsample(x.cuda(), (2, 3), 3).cpu())
        there = legacy.upsample_gradient(x.cuda(), (2, 3), 3)
        assert_bitwise(legacy.upsample_gradient(x, (2, 3), 3), there.cpu())


def test_transforms_of_upsampling_on_the_gpu():
    x, dx = torch.randn(2, 3, 2, 4, 5, device="cuda").double().unbind(0)
    for factors in ((2, 3), (41, 1)):
        expected = upsample_nearest(x, factors)
        mapped = torch.func.vmap(lambda row, f=factors: upsample_nearest(row[None], f)[0])(x)
        assert_bitwise(expected, mapped)
        _, slope = torch.func.jvp(lambda t, f=factors: upsample_nearest(t, f), (x,), (dx,))
        assert_bitwise(upsample_nearest(dx, factors), slope)
        leaf = x.clone().requires_grad_()
        many = torch.randn(3, *expected.shape, device="cuda").double()
        (grads,) = torch.autograd.grad(upsample_nearest(leaf, factors), leaf, many, is_grads_batched=True)
        assert_same(torch.stack([block_sum(dy, factors) for dy in many]), grads)
