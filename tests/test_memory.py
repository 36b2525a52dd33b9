"""Training on sequences of changing length keeps nothing."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
import torch

import rnncompat

pytestmark = pytest.mark.thorough


def assert_flat(train, calls):
    """After *calls* to fill torch's own caches, as many again keep nothing."""

    def alive():
        gc.collect()
        return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())

    tracemalloc.start()
    train(calls)
    tensors = alive()
    before = tracemalloc.get_traced_memory()[0]
    train(calls)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert alive() <= tensors
    assert grown < 80 * calls  # bytes: one small tensor kept a call has more


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("ragged", [False, True], ids=["dense", "ragged"])
def test_five_hundred_training_calls_of_changing_length_end_with_flat_memory(cell, ragged):
    module = getattr(rnncompat, cell)(3, 5, num_layers=2)

    def train(calls):
        for call in range(calls):
            steps = 1 + call % 23
            x = torch.randn(steps, 4, 3)
            lengths = [steps, 0, steps // 2, 1] if ragged else None
            module(x, lengths=lengths)[0].sum().backward()
            module.zero_grad(set_to_none=True)

    assert_flat(train, 500)


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "RNN"])
def test_two_hundred_chunks_of_a_stream_end_with_flat_memory(cell):
    """The state goes on from call to call, detached: the graphs of the calls before are gone."""
    module = getattr(rnncompat, cell)(3, 5, num_layers=2)

    def train(calls):
        state = None
        for _ in range(calls):
            output, state = module(torch.randn(7, 4, 3), state)
            output.sum().backward()
            module.zero_grad(set_to_none=True)
            state = state.detach()

    assert_flat(train, 200)
