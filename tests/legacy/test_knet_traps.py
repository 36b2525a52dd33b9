"""Each trap of the old interfaces that concerns the layer style, with what a naive port would give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from compare import assert_bitwise, assert_same
from old_layers import B, H, Layer, T, X

from rnncompat import InvalidTypeError, InvalidValueError, legacy
from rnncompat.legacy import knetlayers
from rnncompat.legacy.knetlayers.ragged import pack

SIX = 6e-7  # the numbers have six digits


def fill(value):
    """An initial value that is the same everywhere."""
    return lambda dtype, size: torch.full(size, value, dtype=dtype)


def f64(values):
    return torch.tensor(values, dtype=torch.float64)


def test_t22_empty_input_works_where_a_length_was_asserted():
    r = legacy.RNN(3, 2, bidirectional=True, h=0, c=0)
    assert r(torch.ones(3, 0)).shape == (4, 0)
    assert r.h.shape == r.c.shape == (2, 0, 2)
    with pytest.raises(InvalidValueError, match=r"batchSizes is \[\] for 0 columns"):
        r(torch.ones(3, 0), batchSizes=[])


def test_t26_parameters_are_transposed_for_multiplying_from_the_left():
    layer = Layer("tanh")
    r, x = layer.old(), torch.tensor(layer.data(B))
    wx, wh, bx, bh = legacy.rnnparams(r)
    assert wx.shape == (X, H)
    assert_same(torch.tanh(wx.t() @ x + (bx + bh)[:, None]), r(x))
    assert wh.shape == (H, H)
    skip = legacy.RNN(H, H, rnnType="gru", skipInput=True, bidirectional=True, numLayers=2)
    absent = {
        (layer, gate)
        for layer in range(1, 5)
        for gate in range(1, 7)
        if legacy.rnnparam(skip, layer, gate, 1) is None
    }
    assert absent == {(layer, gate) for layer in (1, 2) for gate in (1, 2, 3)}


def test_t27_zero_keeps_nothing_discards_and_arrays_are_never_compared_with_zero():
    r, x = legacy.RNN(3, 2, rnnType="tanh"), torch.ones(3, 5)
    for start in (0, False, 0.0):
        r.h = start
        r(x)
        assert r.h.shape == (2, 5, 1)
    r.h = torch.zeros(2, 5, 1)  # an array of zeros is an array
    r(x)
    assert r.h.any()
    r.h = None
    r(x)
    assert r.h is None


def test_t28_both_forget_biases_are_one():
    r = legacy.RNN(1, 1, winit=fill(0.0), dtype=torch.float64)
    _, _, c, _ = legacy.rnnforw(r, r.w, f64([0.0]), None, f64([1.0]))
    assert_same(f64([[[0.880797]]]), c, SIX)  # sigmoid(2); one bias alone gives .731059
    assert [legacy.rnnparam(r, 1, i, 2).item() for i in range(1, 9)] == [0, 1, 0, 0, 0, 1, 0, 0]


def all_dropped(**options):
    return legacy.RNN(1, 1, rnnType="tanh", dropout=1.0, winit=fill(1.0), **options)


def test_t29_the_layer_drops_its_input_too_while_gradients_are_recorded():
    r, x = all_dropped(), torch.ones(1)
    kept = torch.tanh(torch.ones(1))
    assert not r(x).any()
    with torch.no_grad():
        assert_same(kept, r(x), 1e-6)
    assert_same(kept, r.eval()(x), 1e-6)
    r.train().w.requires_grad_(False)
    assert_same(kept, r(x), 1e-6)
    assert not r(x.clone().requires_grad_()).any()


def test_t29_rnnforw_and_knetlayers_drop_between_layers_only():
    x, once = torch.ones(1), torch.tanh(torch.ones(1))
    one, two = all_dropped(), all_dropped(numLayers=2)
    assert_same(once, legacy.rnnforw(one, one.w, x)[0], 1e-6)
    assert not legacy.rnnforw(two, two.w, x)[0].any()
    with torch.no_grad():
        assert_same(torch.tanh(once), legacy.rnnforw(two, two.w, x)[0], 1e-6)
    srnn = knetlayers.SRNN(input=1, hidden=1, activation="tanh", dropout=1.0, winit=fill(1.0))
    assert_same(once, srnn(x).y, 1e-6)


def test_t29_what_is_not_dropped_is_scaled_and_packed_input_is_dropped_too():
    r = legacy.RNN(1, 1, rnnType="relu", dropout=0.75, winit=fill(1.0), binit=fill(0.0))
    y = r(torch.ones(1, 200))
    assert set(y.flatten().tolist()) == {0.0, 4.0}
    packed = r(torch.ones(1, 200), batchSizes=[200])
    assert set(packed.flatten().tolist()) == {0.0, 4.0}


def test_t30_the_second_layer_reads_both_directions_and_the_backward_state_is_of_step_one():
    layer = Layer("gru", 2, bidirectional=True)
    r = layer.old(h=0)
    assert legacy.rnnparam(r, 3, 1, 1).shape == (2 * H, H)
    y = r(torch.tensor(layer.data(B, T)))
    assert_bitwise(y[:H, :, T - 1], r.h[:, :, 2])
    assert_bitwise(y[H:, :, 0], r.h[:, :, 3])
    assert not torch.allclose(y[H:, :, T - 1], r.h[:, :, 3])


def test_t31_a_ragged_batch_ends_at_each_sequences_own_step():
    r = Layer("gru").old(h=0)
    sizes = [3, 2, 2, 1]
    y = r(torch.tensor(Layer("gru").data(sum(sizes))), batchSizes=sizes)
    last = [7, 6, 2]  # columns of the last steps of sequences of 4, 3 and 1 steps
    assert_bitwise(y[:, last], r.h[:, :, 0])
    assert not torch.allclose(y[:, -1], r.h[:, 1, 0])


def ragged_layer():
    return knetlayers.GRU(input=9, hidden=2, embed=4, dtype=torch.float64)


def test_t32_ids_count_from_one():
    layer = ragged_layer()
    x = layer.embedding.weight[8][:, None, None]
    y, *_ = legacy.rnnforw(layer.specs, layer.params, x)
    assert_same(y, layer([9]).y)
    with pytest.raises(InvalidValueError, match="ids count from 1"):
        layer([0])


def test_t32_a_an_ascending_batch_is_sorted_before_it_is_packed():
    packed = pack([torch.tensor([1]), torch.tensor([2, 3])])
    assert packed.tokens.tolist() == [2, 1, 3]  # unsorted: 1 2 0
    assert packed.batch_sizes == [2, 1]  # unsorted: 2, which does not add up to 3
    assert [index.tolist() for index in packed.indices] == [[1], [0, 2]]


def test_t32_b_the_mask_of_each_instance_is_its_own():
    _, mask = knetlayers.PadRNNOutput(ragged_layer()([[1, 2, 3], [4]]))
    assert mask[0].int().tolist() == [[1, 1, 1], [1, 0, 0]]  # [1, 0, 0] twice, once


def test_t32_c_initial_states_are_sorted_with_the_batch():
    layer = knetlayers.LSTM(input=9, hidden=2, embed=4, dtype=torch.float64)
    h, c = torch.tensor(np.random.default_rng(1).normal(size=(2, 2, 3, 1)))
    batch = [[1], [2, 3], [4, 5, 6]]
    out = layer(batch, h, c)
    for b, ids in enumerate(batch):
        own = layer(ids, h[:, b : b + 1], c[:, b : b + 1])
        assert_same(own.y[:, 0], out.y[:, out.indices[b]])
        assert_same((own.hidden, own.memory), (out.hidden[:, b : b + 1], out.memory[:, b : b + 1]))


def test_t32_instances_of_one_length_keep_the_callers_order():
    batch = [torch.tensor([i] * (1 + i % 2)) for i in range(100)]
    packed = pack(batch)
    assert packed.tokens[:100].tolist() == [*range(1, 100, 2), *range(0, 100, 2)]
    assert packed.tokens[100:].tolist() == [*range(1, 100, 2)]


def test_t20_nothing_is_converted():
    r = legacy.RNN(3, 2)
    with pytest.raises(InvalidTypeError, match="float64"):
        r(torch.ones(3, 4).double())
    r.h = torch.zeros(2, 4, 1).double()
    with pytest.raises(InvalidTypeError, match="float64"):
        r(torch.ones(3, 4))
