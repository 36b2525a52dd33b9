"""Modules whose parameters share one buffer: whatever happens to them, the next call sees the right values."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from compare import assert_bitwise, assert_same
from torch import nn
from torch.nn.utils import parameters_to_vector, prune, vector_to_parameters

from rnncompat import RNNDescriptor, RNNWeights, layout_of, rnn_forward
from rnncompat.modules import GRU, LSTM
from rnncompat.packing import PACKS, WeightsModule, flat_view, gather_flat, pack

T, B, I, H = 6, 5, 2, 4
F64 = torch.float64


@pytest.fixture(params=[True, False], ids=["packed", "apart"])
def module(request):
    """An LSTM of two layers and directions, its parameters in one buffer or each in its own."""
    made = LSTM(I, H, 2, bidirectional=True, dtype=F64)
    if request.param:
        made.flatten_parameters()
    assert (view(made) is not None) == request.param
    return made


def in_order(module):
    return [getattr(module, slot.name) for slot in layout_of(module.descriptor).slots]


def view(module):
    return flat_view(in_order(module), layout_of(module.descriptor))


def copies(module):
    return {name: value.detach().clone() for name, value in module.named_parameters()}


def assert_runs_with(module, expected):
    """*module* gives what a fresh ``torch.nn`` module of the weights *expected* gives, and no stale buffer."""
    fresh = nn.LSTM(I, H, 2, bidirectional=True, dtype=F64)
    fresh.load_state_dict(expected)
    x = torch.randn(T, B, I, dtype=F64)
    assert_same(fresh(x), tuple(module(x)))
    weights = torch.cat([expected[slot.name].reshape(-1) for slot in layout_of(module.descriptor).slots])
    assert_same(weights, gather_flat(in_order(module)))
    buffer = view(module)
    if buffer is not None:
        assert_same(weights, buffer)


def test_flattening_moves_memory_and_nothing_else():
    module = LSTM(I, H, 2, proj_size=3, bias="input", dtype=F64)
    expected, objects = copies(module), list(module.parameters())
    gradient = torch.ones_like(module.weight_hh_l0)
    module.weight_hh_l0.grad = gradient
    before = PACKS["cpu"]
    module.flatten_parameters()
    module.flatten_parameters()
    assert PACKS["cpu"] == before + 1
    assert all(p is q and p.is_leaf for p, q in zip(objects, module.parameters(), strict=True))
    assert module.weight_hh_l0.grad is gradient
    assert_bitwise(list(expected.values()), list(module.state_dict().values()))
    flat = view(module)
    assert flat.shape == (layout_of(module.descriptor).size,)
    assert not flat.requires_grad
    flat.fill_(2.0)
    assert all((p == 2).all() for p in module.parameters())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_call_never_packs_and_modes_leave_plain_parameters(mode):
    module = LSTM(I, H, 2, bidirectional=True, dtype=F64)
    before = PACKS.copy()
    module(torch.randn(T, B, I, dtype=F64))
    module.reset_parameters()
    assert before == PACKS
    expected = copies(module)
    with mode():
        module.flatten_parameters()
        assert view(module) is not None
    module(torch.randn(T, B, I, dtype=F64))[0].sum().backward()
    assert not module.weight_hh_l0.is_inference()
    assert module.weight_hh_l0.grad.shape == (4 * H, H)
    assert_runs_with(module, expected)


def test_what_cannot_share_a_buffer_stays_apart():
    def refuses(module):
        before = PACKS.copy()
        values = copies(module)
        module.flatten_parameters()
        assert before == PACKS
        assert_bitwise(list(values.values()), list(copies(module).values()))

    mixed = GRU(I, H)
    mixed.bias_hh_l0 = nn.Parameter(mixed.bias_hh_l0.detach().double())
    refuses(mixed)
    tied = GRU(H, H, 2)
    tied.weight_hh_l1 = tied.weight_hh_l0
    refuses(tied)
    shared = GRU(H, H, 2)
    shared.weight_hh_l1.data = shared.weight_hh_l0.data
    refuses(shared)
    reshaped = GRU(I, H)
    reshaped.bias_hh_l0 = nn.Parameter(torch.zeros(H))
    refuses(reshaped)
    pruned = prune.random_unstructured(GRU(I, H), "weight_hh_l0", 0.5)
    refuses(pruned)
    with torch.inference_mode():
        refuses(GRU(I, H))

    class Special(nn.Parameter):
        pass

    special = GRU(I, H)
    special.bias_hh_l0 = Special(torch.zeros(3 * H))
    refuses(special)


def test_neighbours_in_memory_are_not_one_buffer():
    """Separate allocations may follow each other without a gap: reading across them is not allowed."""
    descriptor = RNNDescriptor("gru", I, H)
    layout = layout_of(descriptor)
    memory = np.zeros(layout.size)
    apart = [torch.from_numpy(memory[s.offset : s.offset + s.size]).view(s.shape) for s in layout.slots]
    assert flat_view(apart, layout) is None
    within = torch.arange(layout.size + 7.0)[7:]
    parts = list(RNNWeights(descriptor, within).tensors())
    assert_bitwise(within, flat_view(parts, layout))
    assert flat_view([*parts[:3], parts[3].clone()], layout) is None
    halves = RNNWeights(descriptor, torch.zeros(layout.size, dtype=torch.float16)).tensors()
    assert flat_view([*halves[:3], halves[3].view(torch.bfloat16)], layout) is None
    turned = parts[1].reshape(-1).view(H, 3 * H).t()
    assert flat_view([parts[0], turned, *parts[2:]], layout) is None
    assert flat_view([p.to("meta") for p in parts], layout) is None
    assert not pack(dict(zip(["weight_ih_l0"], parts, strict=False)), layout)


def test_casts(module):
    expected = copies(module)
    assert_runs_with(module.to(F64), expected)
    rounded = {name: value.float().double() for name, value in expected.items()}
    module.float().flatten_parameters()
    assert_runs_with(module.double(), rounded)


def test_casts_that_swap_the_tensors(module):
    expected = copies(module)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        module.to(F64)
        module.float().double()
        rounded = copies(module)
        module.load_state_dict(expected)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)  # torch.nn.LSTM cannot load under it
    assert_same([value.float().double() for value in expected.values()], list(rounded.values()))
    assert_runs_with(module, expected)
    module.flatten_parameters()
    assert_runs_with(module, expected)


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))],  # noqa: S301  # ours
    ids=["deepcopy", "pickle"],
)
def test_copies_share_no_memory(module, copied):
    expected = copies(module)
    other = copied(module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    assert_runs_with(other, expected)
    other.flatten_parameters()
    assert_runs_with(other, expected)
    assert_runs_with(module, {name: torch.zeros_like(value) for name, value in expected.items()})


def test_loading(module):
    source = nn.LSTM(I, H, 2, bidirectional=True, dtype=F64)
    module.load_state_dict(source.state_dict())
    assert_runs_with(module, copies(source))


def test_loading_by_assignment(module):
    source = nn.LSTM(I, H, 2, bidirectional=True, dtype=F64)
    module.load_state_dict(source.state_dict(), assign=True)
    assert_runs_with(module, copies(source))
    with torch.no_grad():
        source.weight_hh_l1.add_(1)
    assert_runs_with(module, copies(source))


def test_sharing_between_processes(module):
    expected = copies(module)
    module.share_memory()
    assert all(p.is_shared() for p in module.parameters())
    assert_runs_with(module, expected)


def test_functional_call(module):
    expected, own = copies(LSTM(I, H, 2, bidirectional=True, dtype=F64)), copies(module)
    x = torch.randn(T, B, I, dtype=F64)
    leaves = {name: value.clone().requires_grad_() for name, value in expected.items()}
    output, _ = torch.func.functional_call(module, leaves, (x,))
    fresh = nn.LSTM(I, H, 2, bidirectional=True, dtype=F64)
    fresh.load_state_dict(expected)
    assert_same(fresh(x)[0], output)
    assert_same(
        torch.autograd.grad(fresh(x)[0].sum(), list(fresh.parameters())),
        torch.autograd.grad(output.sum(), list(leaves.values())),
    )
    assert_runs_with(module, own)


def test_weight_norm(module):
    from torch.nn.utils.parametrizations import weight_norm  # noqa: PLC0415  # not in every torch

    expected = copies(module)
    weight_norm(module, "weight_hh_l0", dim=0)
    assert_runs_with(module, expected)
    inner = module.parametrizations.weight_hh_l0
    with torch.no_grad():
        inner.original0.mul_(3)
    expected["weight_hh_l0"] = expected["weight_hh_l0"] * 3
    module.flatten_parameters()
    assert_runs_with(module.double(), expected)
    nn.utils.parametrize.remove_parametrizations(module, "weight_hh_l0")
    module.flatten_parameters()
    assert view(module) is not None
    assert_runs_with(module, expected)


def test_pruning(module):
    expected = copies(module)
    mask = torch.rand(4 * H, H) < 0.5
    prune.custom_from_mask(module, "weight_hh_l1_reverse", mask)
    with torch.no_grad():
        module.weight_hh_l1_reverse_orig.add_(1)
    expected["weight_hh_l1_reverse"] = (expected["weight_hh_l1_reverse"] + 1) * mask
    module(torch.randn(T, B, I, dtype=F64))
    assert_runs_with(module, expected)
    prune.remove(module, "weight_hh_l1_reverse")
    module.flatten_parameters()
    assert view(module) is not None
    assert_runs_with(module, expected)


def test_an_optimizer_step(module):
    fresh = nn.LSTM(I, H, 2, bidirectional=True, dtype=F64)
    fresh.load_state_dict(copies(module))
    x = torch.randn(T, B, I, dtype=F64)
    for network in (fresh, module):
        optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            network(x)[0].square().sum().backward()
            optimizer.step()
    assert_runs_with(module, copies(fresh))


def test_tied_weights_of_two_modules(module):
    other = LSTM(I, H, 2, bidirectional=True, dtype=F64)
    other.flatten_parameters()
    other.weight_hh_l0 = module.weight_hh_l0
    both = nn.ModuleList([module, other])
    for step in range(3):
        both[step % 2].flatten_parameters()
        with torch.no_grad():
            both[(step + 1) % 2].weight_hh_l0.add_(1)
        expected = copies(module)
        assert_runs_with(module, expected)
        assert_runs_with(other, {**copies(other), "weight_hh_l0": expected["weight_hh_l0"]})
    assert other.weight_hh_l0 is module.weight_hh_l0


def test_parameters_from_a_vector(module):
    vector = parameters_to_vector(module.parameters()).detach() * 2
    vector_to_parameters(vector, module.parameters())
    sizes = [value.numel() for value in module.parameters()]
    parts = zip(vector.split(sizes), module.named_parameters(), strict=True)
    expected = {name: part.view(value.shape).clone() for part, (name, value) in parts}
    assert_runs_with(module, expected)
    vector.mul_(2)
    assert_runs_with(module, {name: value * 2 for name, value in expected.items()})


def test_each_parameter_has_a_version_of_its_own():
    """A bias that no gradient needs may change between forward and backward; a view of one buffer may not."""
    module = GRU(I, H, dtype=F64)
    module.flatten_parameters()
    x = torch.randn(T, B, I, dtype=F64)
    weights = RNNWeights.from_named(module.descriptor, module.state_dict()).requires_grad_()
    expected = torch.autograd.grad(module(x, backend="reference")[0].sum(), list(module.parameters()))
    loss = module(x, backend="reference")[0].sum()
    before = module.weight_hh_l0._version
    with torch.no_grad():
        module.bias_ih_l0.add_(1)
    assert module.weight_hh_l0._version == before
    assert_same(expected, torch.autograd.grad(loss, list(module.parameters())))
    loss = rnn_forward(module.descriptor, weights, x, backend="reference")[0].sum()
    with torch.no_grad():
        weights["bias_ih_l0"].add_(1)
    with pytest.raises(RuntimeError, match=r"modified (by an )?inplace"):
        loss.backward()
    loss = module(x, backend="reference")[0].sum()
    with torch.no_grad():
        module.weight_hh_l0.add_(1)
    with pytest.raises(RuntimeError, match=r"modified (by an )?inplace"):
        loss.backward()


@pytest.mark.parametrize("save", [pickle.dump, torch.save])
def test_files_hold_the_weights_once(save):
    def size(module):
        buffer = io.BytesIO()
        save(module, buffer)
        return buffer.tell()

    module = LSTM(96, 128, 2)
    weights = sum(4 * value.numel() for value in module.parameters())
    for written in (module, copy.deepcopy(module), LSTM.from_torch(module.to_torch())):
        assert weights < size(written) <= 1.1 * weights
    module.flatten_parameters()
    assert size(copy.deepcopy(module)) <= 1.1 * weights


def check_moments(device):
    """A module packs when made, moved, loaded, copied and unpickled, and a call finds the buffer."""
    made = LSTM(I, H, 2, bidirectional=True, dtype=F64, device=device)
    expected = copies(made)
    for module in (
        made,
        LSTM(I, H, 2, bidirectional=True, dtype=F64).to(device),
        LSTM.from_torch(nn.LSTM(I, H, 2, bidirectional=True, dtype=F64).to(device)),
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),  # noqa: S301  # ours
        copy.deepcopy(made).float().double(),
    ):
        assert view(module) is not None
        module.load_state_dict(expected)
        assert view(module) is not None
        assert_same(list(expected.values()), [p.detach() for p in module.parameters()])
    before = PACKS.copy()
    made(torch.randn(T, B, I, dtype=F64, device=device))
    made.to(device)
    assert before == PACKS


def test_the_moments_of_packing(monkeypatch):
    """As on CUDA, with the question whether parameters lie there answered yes."""
    monkeypatch.setattr(WeightsModule, "_pack_on_cuda", WeightsModule.flatten_parameters)
    check_moments("cpu")


@pytest.mark.gpu
def test_the_moments_of_packing_on_cuda():
    check_moments("cuda")
    module = LSTM(I, H, 2, bidirectional=True, dtype=F64).cuda()
    x = torch.randn(T, B, I, dtype=F64)
    output, state = module(x.cuda())
    assert view(module.cpu()) is None
    assert_same(tuple(module(x)), (output.cpu(), state.to("cpu")))


def test_the_cpu_packs_only_when_asked():
    before = PACKS.copy()
    module = GRU(I, H)
    module.load_state_dict(copy.deepcopy(module).double().float().state_dict())
    assert before == PACKS
    assert view(module) is None
