"""The backends of the property suite, and ``rnn_forward`` where each of them runs.

A test that takes its backend from :data:`BACKENDS` and calls :func:`rnn_forward` from here is a test of the GPU's too:
its tensors stay on the CPU, where the oracles are, and go to the GPU and back inside the call, gradients included.
"""

from __future__ import annotations

import pytest
import torch

import rnncompat
from rnncompat import RNNState, RNNWeights

GPU = " on a GPU"
BACKENDS = [
    "reference",
    "aten",
    pytest.param("cudnn" + GPU, marks=pytest.mark.gpu),
    pytest.param("aten" + GPU, marks=pytest.mark.gpu),
    pytest.param("reference" + GPU, marks=pytest.mark.gpu),
]


def rnn_forward(descriptor, weights, x, state=None, *, backend="auto", **options):
    """``rnncompat.rnn_forward``; tensors in and out are on the CPU."""
    name = backend.removesuffix(GPU)
    if name == backend:
        return rnncompat.rnn_forward(descriptor, weights, x, state, backend=name, **options)
    weights = RNNWeights(descriptor, weights.flat.cuda())
    if isinstance(state, tuple):
        state = tuple(None if s is None else s.cuda() for s in state)
    state = state.cuda() if isinstance(state, torch.Tensor) else state
    output, after = rnncompat.rnn_forward(descriptor, weights, x.cuda(), state, backend=name, **options)
    assert output.is_cuda
    return output.cpu(), RNNState(*(None if s is None else s.cpu() for s in after))
