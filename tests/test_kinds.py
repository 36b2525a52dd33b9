"""What kind of input goes in comes out, with the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cases import CELLS
from compare import assert_bitwise, assert_same
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence

from rnncompat import RNNDescriptor, RNNState, RNNWeights, SequenceBatch, rnn_forward, rnn_step

LENGTHS = [4, 6, 1, 4, 3]


@pytest.fixture(params=CELLS)
def net(request):
    descriptor = RNNDescriptor(request.param, 2, 3, num_layers=2, bidirectional=True)
    return descriptor, RNNWeights.init(descriptor, dtype=torch.float64)


@pytest.fixture
def x():
    return torch.randn(6, 5, 2, dtype=torch.float64)


@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_packed_in_packed_out_keeps_order_and_indices(net, x, enforce_sorted):
    lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
    packed = pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)
    h = torch.randn(4, 5, 3, dtype=torch.float64)
    state = (h, None) if net[0].has_cell_state else h
    padded, padded_state = rnn_forward(*net, x, state, lengths=lengths)
    output, after = rnn_forward(*net, packed, state)
    assert isinstance(output, PackedSequence)
    expected = pack_padded_sequence(padded, lengths, enforce_sorted=enforce_sorted)
    assert_bitwise(expected.data, output.data)
    for name in ("batch_sizes", "sorted_indices", "unsorted_indices"):
        assert getattr(packed, name) is getattr(output, name)
    assert_bitwise(tuple(padded_state), tuple(after))


def test_packed_gradient_reaches_the_packed_data(net, x):
    packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
    data = packed.data.clone().requires_grad_()
    output, _ = rnn_forward(*net, packed._replace(data=data))
    (gradient,) = torch.autograd.grad(output.data.sum(), data)
    leaf = x.clone().requires_grad_()
    padded, _ = rnn_forward(*net, leaf, lengths=LENGTHS)
    (expected,) = torch.autograd.grad(padded.sum(), leaf)
    assert_same(pack_padded_sequence(expected, LENGTHS, enforce_sorted=False).data, gradient)


@pytest.mark.parametrize("kind", [list, tuple])
def test_list_in_list_out_with_empty_rows(net, x, kind):
    lengths = [4, 0, 1, 6, 3]
    rows = kind(x[:n, b] for b, n in enumerate(lengths))
    output, after = rnn_forward(*net, rows)
    padded, state = rnn_forward(*net, x, lengths=lengths)
    assert isinstance(output, list)
    assert_same([padded[:n, b] for b, n in enumerate(lengths)], output)
    assert_same(tuple(state), tuple(after))


def test_sequence_batch_in_sequence_batch_out(net, x):
    mask = torch.rand(6, 5) < 0.5
    batch = SequenceBatch.from_mask(x, mask)
    output, after = rnn_forward(*net, batch)
    padded, state = rnn_forward(*net, x, mask=mask)
    assert isinstance(output, SequenceBatch)
    assert_bitwise(padded, output.to_padded())
    assert torch.equal(output.mask, mask)
    assert_bitwise(tuple(state), tuple(after))


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.array,
        lambda v: np.array(v, dtype=np.int32),
        torch.tensor,
        lambda v: torch.tensor(v, dtype=torch.int32),
        lambda v: torch.tensor(v, dtype=torch.uint8),
    ],
    ids=["list", "tuple", "numpy", "numpy-int32", "int64", "int32", "uint8"],
)
def test_lengths_in_every_form(net, x, form):
    expected = rnn_forward(*net, x, lengths=LENGTHS)
    assert_bitwise(expected, rnn_forward(*net, x, lengths=form(LENGTHS)))


def test_a_right_padded_mask_is_lengths_and_any_mask_is_gather_run_scatter(net, x):
    right = torch.arange(6)[:, None] < torch.tensor(LENGTHS)
    assert_bitwise(rnn_forward(*net, x, lengths=LENGTHS), rnn_forward(*net, x, mask=right))
    holes = torch.rand(6, 5) < 0.6
    rows = [x[holes[:, b], b] for b in range(5)]
    output, state = rnn_forward(*net, x, mask=holes)
    gathered, expected = rnn_forward(*net, rows)
    assert_same(gathered, [output[holes[:, b], b] for b in range(5)])
    assert_same(tuple(expected), tuple(state))


def test_batch_first_moves_x_mask_resets_and_output_but_never_the_state(net, x):
    mask, resets = torch.rand(6, 5) < 0.7, torch.rand(6, 5) < 0.3
    output, state = rnn_forward(*net, x, mask=mask, resets=resets)
    turned, same = rnn_forward(*net, x.transpose(0, 1), mask=mask.t(), resets=resets.t(), batch_first=True)
    assert_bitwise(output.transpose(0, 1), turned)
    assert_bitwise(tuple(state), tuple(same))


def test_unbatched_is_a_batch_of_one_without_the_axis(net, x):
    row = x[:, 0]
    flags = torch.tensor([True, False, True, True, False, True])
    h = torch.randn(4, 3, dtype=torch.float64)
    single, batched = ((h, None), (h[:, None], None)) if net[0].has_cell_state else (h, h[:, None])
    output, state = rnn_forward(*net, row, single, mask=flags, resets=~flags)
    expected, whole = rnn_forward(*net, row[:, None], batched, mask=flags[:, None], resets=~flags[:, None])
    assert output.shape == (6, 6)
    assert state.h.shape == (4, 3)
    assert_bitwise(expected[:, 0], output)
    assert_bitwise([s[:, 0] for s in whole if s is not None], [s for s in state if s is not None])
    assert_bitwise(rnn_forward(*net, row, lengths=4), rnn_forward(*net, row, lengths=[4]))
    _, states = rnn_forward(*net, row, return_states="all")
    assert states.h.shape == (6, 4, 3)


@pytest.mark.parametrize("cell", CELLS)
def test_the_state_has_the_rank_of_the_input(cell):
    """One step of one row, one step of a batch, a sequence, a batch of sequences: with a batch axis or without."""
    net = RNNDescriptor(cell, 2, 3, num_layers=2), RNNWeights.init(RNNDescriptor(cell, 2, 3, num_layers=2))
    for call, shape, axes in (
        (rnn_step, (2,), ()),
        (rnn_step, (5, 2), (5,)),
        (rnn_forward, (6, 2), ()),
        (rnn_forward, (6, 5, 2), (5,)),
    ):
        state = RNNState(*(torch.randn(2, *axes, 3) for _ in range(2 if cell == "lstm" else 1)))
        for before in (None, state, call(*net, torch.randn(*shape), state)[1]):
            output, after = call(*net, torch.randn(*shape), before)
            assert output.shape == (*shape[:-1], 3)
            assert [s.shape for s in after if s is not None] == [s.shape for s in state if s is not None]


def test_steps_are_the_sequence_one_by_one(x):
    descriptor = RNNDescriptor("lstm", 2, 4, num_layers=2, proj_size=3)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    whole, final = rnn_forward(descriptor, weights, x)
    state, outputs = None, []
    for x_t in x:
        y, state = rnn_step(descriptor, weights, x_t, state)
        outputs.append(y)
    assert_same(whole, torch.stack(outputs))
    assert_same(tuple(final), tuple(state))
    y, state = rnn_step(descriptor, weights, x[0, 0], RNNState(torch.zeros(2, 3).double()))
    assert y.shape == (3,)
    assert state.c.shape == (2, 4)


def test_sequence_batch_round_trips(x):
    batch = SequenceBatch.from_padded(x, LENGTHS)
    for other in (
        SequenceBatch.from_packed(batch.to_packed()),
        SequenceBatch.from_list(batch.to_list()),
        SequenceBatch.from_mask(batch.to_padded(9.0), batch.mask),
        SequenceBatch.from_padded(x.transpose(0, 1), LENGTHS, batch_first=True),
        SequenceBatch.from_packed(pack_sequence(batch.to_list(), enforce_sorted=False)),
    ):
        assert other.lengths.tolist() == LENGTHS
        assert_bitwise(batch.to_padded(), other.to_padded())
    assert (batch.to_padded(9.0)[4:, 0] == 9).all()
    left = SequenceBatch.from_mask(x, batch.mask.flip(0))
    assert left.lengths.tolist() == LENGTHS
    assert_bitwise(
        [row.flip(0) for row in SequenceBatch.from_padded(x.flip(0), LENGTHS).to_list()], left.to_list()
    )
    assert_bitwise(pack_sequence(left.to_list(), enforce_sorted=False).data, left.to_packed().data)
    assert "lengths=[4, 6, 1, 4, 3]" in repr(batch)
    assert SequenceBatch.from_padded(x).lengths.tolist() == [6] * 5


@pytest.mark.parametrize(
    "length", [4, [4], np.int64(4), np.array([4]), torch.tensor(4), torch.tensor([4])], ids=repr
)
def test_the_length_of_an_unbatched_sequence_in_any_form(net, x, length):
    expected, _ = rnn_forward(*net, x[:, :1], lengths=[4])
    output, _ = rnn_forward(*net, x[:, 0], lengths=length)
    assert_bitwise(expected[:, 0], output)
