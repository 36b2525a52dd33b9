"""Training on sequences of changing length keeps nothing."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
import torch

import rnncompat

pytestmark = pytest.mark.thorough


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

    def alive():
        gc.collect()
        return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())

    tracemalloc.start()
    train(500)  # torch's own caches fill
    tensors = alive()
    before = tracemalloc.get_traced_memory()[0]
    train(500)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert alive() <= tensors
    assert grown < 40_000  # bytes: less than a hundred a call, where one small tensor kept has more
