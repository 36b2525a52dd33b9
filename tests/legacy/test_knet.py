"""The old layer: every option against NumPy's recursion, gradients against torch.nn, and its state."""

from __future__ import annotations

import pytest
import torch
from compare import assert_bitwise, assert_same
from old_layers import LAYERS, B, H, Layer, T, X, columns, lengths_of

from rnncompat import InvalidTypeError, InvalidValueError, UnsupportedError, legacy

RAGGED = [7, 5, 5, 2, 1]


@pytest.fixture(params=LAYERS, ids=str)
def layer(request):
    return request.param


@pytest.fixture(params=["relu", "tanh", "lstm", "gru"])
def kind(request):
    return request.param


def tensor(array):
    return None if array is None else torch.tensor(array)


def test_values_of_sequences_steps_and_vectors_from_every_start(layer):
    r = layer.old()
    for shape in ((), (B,), (B, T)):
        batch, steps = (*shape, 1, 1)[:2]
        x = layer.data(*shape)
        wide = x.reshape(layer.inputs, batch, steps)
        given = layer.states(batch)
        for h, c in ((None, None), given):
            r.h, r.c = (0 if state is None else tensor(state) for state in (h, c))
            y, *after = layer.numpy(wide, h, c)
            assert_same(y.reshape(-1, *shape), r(torch.tensor(x)))
            assert_same(after[0], r.h)
            assert r.c == 0 if after[1] is None else torch.allclose(r.c, tensor(after[1]), 1e-10, 1e-10)
            got = legacy.rnnforw(r, r.w, torch.tensor(x), tensor(h), tensor(c), hy=True, cy=True)
            assert_same([y.reshape(-1, *shape), *after, None], list(got))


def test_gradients_reach_the_flat_weights_the_input_and_both_states(layer):
    r, module = layer.old(), layer.torch()
    x = torch.tensor(layer.data(B, T), requires_grad=True)
    h, c = (None if s is None else torch.tensor(s, requires_grad=True) for s in layer.states(B))
    y, hy, cy, _ = legacy.rnnforw(r, r.w, x, h, c)
    turned = [v.detach().permute(2, 1, 0).requires_grad_() for v in (x, h, c) if v is not None]
    state = turned[1] if c is None else tuple(turned[1:])
    expected, after = module(turned[0], state)
    hs = after if isinstance(after, tuple) else (after,)
    weigh = [torch.randn(v.shape, dtype=v.dtype) for v in (expected, *hs)]
    sum((v * w).sum() for v, w in zip((expected, *hs), weigh, strict=True)).backward()
    results = [v for v in (y, hy, cy) if v is not None]
    sum((v.permute(2, 1, 0) * w).sum() for v, w in zip(results, weigh, strict=True)).backward()
    leaves = [v for v in (x, h, c) if v is not None]
    assert_same([v.grad for v in turned], [v.grad.permute(2, 1, 0) for v in leaves])
    assert_same(layer.flat_gradient(module), r.w.grad.flatten())
    assert r.w.grad.shape == r.w.shape


@pytest.mark.parametrize("sizes", [[B] * T, RAGGED], ids=["equal", "ragged"])
def test_packed_columns_give_each_sequence_its_own_end(layer, sizes):
    r = layer.old()
    x = layer.data(sum(sizes))
    padded, lengths = columns(x, sizes), lengths_of(sizes)
    h, c = layer.states(sizes[0])
    y, *after = layer.numpy(padded, h, c, lengths)
    got, *states, _ = legacy.rnnforw(r, r.w, torch.tensor(x), tensor(h), tensor(c), batchSizes=sizes)
    assert_same(y, torch.tensor(columns(got.detach().numpy(), sizes)))
    assert_same(after, states)
    r.h, r.c = tensor(h), tensor(c)
    assert_bitwise(got, r(torch.tensor(x), batchSizes=torch.tensor(sizes)))
    assert_bitwise(states[0], r.h)


def test_packed_training_gives_torchs_gradients(layer):
    r, module = layer.old(), layer.torch()
    x = torch.tensor(layer.data(sum(RAGGED)), requires_grad=True)
    y = r(x, batchSizes=RAGGED)
    rows = x.detach().t().requires_grad_()
    packed = torch.nn.utils.rnn.PackedSequence(rows, torch.tensor(RAGGED))
    expected = module(packed)[0].data
    weigh = torch.randn_like(expected)
    (expected * weigh).sum().backward()
    (y.t() * weigh).sum().backward()
    assert_same(rows.grad.t(), x.grad)
    assert_same(layer.flat_gradient(module), r.w.grad.flatten())


def test_three_dimensions_beside_batch_sizes_are_columns_in_time_order(kind):
    r = Layer(kind).old()
    x = torch.tensor(Layer(kind).data(B, T))
    y = r(x, batchSizes=[B] * T)
    assert y.shape == (H, B, T)
    assert_same(r(x), y)
    assert_same(r(x), r(x.transpose(1, 2).reshape(X, -1), batchSizes=[B] * T).view(H, T, B).transpose(1, 2))


@pytest.mark.parametrize("layers", [1, 2])
def test_two_calls_go_on_where_one_would_be_gradients_included(kind, layers):
    keep = {"h": 0, "c": 0} if kind == "lstm" else {"h": 0}
    whole, split = Layer(kind, layers).old(**keep), Layer(kind, layers).old(**keep)
    x = torch.tensor(Layer(kind).data(B, T))
    y = whole(x)
    parts = torch.cat([split(x[:, :, :4]), split(x[:, :, 4:])], 2)
    assert_same(y, parts)
    assert_same([whole.h, whole.c], [split.h, split.c])
    y.pow(2).sum().backward()
    parts.pow(2).sum().backward()
    assert_same(whole.w.grad, split.w.grad)


def test_none_forgets_zero_keeps_and_an_array_goes_on(kind):
    layer = Layer(kind)
    r, x = layer.old(), torch.tensor(layer.data(B, T))
    r(x)
    assert r.h is None
    assert r.c is None
    r.h = 0
    first = r(x)
    assert r.h.shape == (H, B, 1)
    assert r.c is None
    kept = r.h
    assert not torch.equal(r(x), first)
    r.h = kept[:, :, 0]  # trailing ones may be left out
    again = r(x)
    r.h = kept
    assert_bitwise(again, r(x))
    r.h = None
    assert_bitwise(first, r(x))


def test_a_cell_kept_alone_and_a_state_kept_alone():
    layer = Layer("lstm")
    x = torch.tensor(layer.data(B, T))
    y, h, c = layer.numpy(x.numpy())
    r = layer.old(c=0)
    assert_same(y, r(x))
    assert r.h is None
    assert_same(c, r.c)
    given = layer.states(B)[1]
    r.c = torch.tensor(given)
    assert_same(layer.numpy(x.numpy(), None, given)[0], r(x))
    r = layer.old(h=0)
    r(x)
    assert_same(h, r.h)
    assert r.c is None


def test_a_state_for_a_cell_without_one_is_refused_but_zero_is_harmless():
    layer = Layer("gru")
    x = torch.tensor(layer.data(B, T))
    r = layer.old(h=0, c=0)
    r(x)
    assert r.c == 0
    r.c = torch.zeros(H, B, 1, dtype=torch.float64)
    with pytest.raises(UnsupportedError, match=r"c is given, but the cell is 'gru'"):
        r(x)
    with pytest.raises(UnsupportedError, match=r"no cell state"):
        legacy.rnnforw(r, r.w, x, None, r.c)
    assert legacy.rnnforw(r, r.w, x, hy=True, cy=True)[2] is None


def test_states_held_are_part_of_the_graph_and_a_parameter_gets_its_gradient():
    r, x = Layer("lstm").old(), torch.tensor(Layer("lstm").data(B, T))
    start = torch.nn.Parameter(torch.zeros(H, B, 1, dtype=torch.float64))
    r.h, r.c = start, 0
    assert [name for name, _ in r.named_parameters()] == ["w"]
    r(x)
    r(x).sum().backward()
    assert start.grad.abs().sum() > 0
    assert r.h.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        r(x).sum().backward()
    r.h, r.c = r.h.detach(), r.c.detach()
    r(x).sum().backward()


def test_rnnforw_neither_reads_nor_changes_the_states_held():
    layer = Layer("lstm")
    r = layer.old(h=torch.ones(H, B, 1, dtype=torch.float64), c=0)
    held = r.h
    x = torch.tensor(layer.data(B, T))
    y, h, c, reserve = legacy.rnnforw(r, r.w, x)
    assert_same(layer.numpy(x.numpy())[0], y)
    assert h is c is reserve is None
    assert r.h is held
    assert r.c == 0
    given = layer.states(B)
    _, h, c, _ = legacy.rnnforw(r, r.w.detach(), x, *map(torch.tensor, given))
    assert_same(layer.numpy(x.numpy(), *given)[1:], (h, c))
    _, h, c, _ = legacy.rnnforw(r, r.w, x, torch.tensor(given[0]), hy=False, cy=True)
    assert h is None
    assert c.shape == (H, B, 1)
    for wrong in (r.w.clone(), r.w.flatten(), None):
        with pytest.raises(InvalidValueError, match=r"w is not r\.w"):
            legacy.rnnforw(r, wrong, x)
    with pytest.raises(InvalidTypeError, match="r is a Linear"):
        legacy.rnnforw(torch.nn.Linear(1, 1), r.w, x)
