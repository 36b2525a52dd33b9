"""Old programs step in loops without end: nothing may grow with the number of steps."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
import torch

from rnncompat import legacy

pytestmark = pytest.mark.thorough

STEPS = 100_000


def test_a_hundred_thousand_steps_end_with_flat_memory():
    rnn = legacy.RNNDesc(legacy.CUDNN_GRU, 3, 2)
    weights = torch.randn(6, 3), torch.randn(6, 2), torch.randn(6)
    x = torch.randn(3, 4)

    def steps(count):
        h = torch.zeros(2)
        for _ in range(count):
            legacy.setweights(rnn, *weights)
            _, h = legacy.forward(rnn, x, h)
        assert h.isfinite().all()

    steps(100)
    tensors = count_tensors()
    tracemalloc.start()
    steps(100)
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    steps(STEPS)
    tracemalloc.start()
    steps(100)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count_tensors() <= tensors
    assert after <= before + 20_000  # bytes; one byte a step would be five times that


def test_training_steps_that_refill_the_weights_keep_no_graph():
    rnn = legacy.RNNDesc(legacy.CUDNN_RNN_TANH, 3, 2)
    weights = [torch.randn(s, requires_grad=True) for s in ((2, 3), (2, 2), (2,))]
    x = torch.randn(3, 4)

    def step():
        legacy.setweights(rnn, *weights)
        y, _ = legacy.forward(rnn, x, torch.zeros(2))
        torch.autograd.grad(y.sum(), weights)

    step()
    tensors = count_tensors()
    for _ in range(300):
        step()
    assert count_tensors() <= tensors


def count_tensors():
    gc.collect()
    return sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())
