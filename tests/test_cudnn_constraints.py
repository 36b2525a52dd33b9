"""Refusals of backend ``cudnn`` in words, on any machine; tests/test_cudnn_setters.py compares them with cuDNN."""

from __future__ import annotations

import pytest
import torch

from rnncompat import RNNDescriptor
from rnncompat.backends import Algorithm
from rnncompat.backends.cudnn import constraints


@pytest.mark.parametrize(
    ("version", "reason"), [(91200, "cuDNN 9.12 has no bfloat16, which came with 9.13"), (91300, None)]
)
def test_a_dtype_that_came_later(monkeypatch, version, reason):
    monkeypatch.setattr(constraints, "version", lambda: version)
    d = RNNDescriptor("gru", 3, 5)
    assert constraints.why_not(d, torch.bfloat16, Algorithm.STANDARD, dense=True) == reason
    assert constraints.why_not(d, torch.float16, Algorithm.STANDARD, dense=True) is None


def test_bounds_beyond_float32_are_refused_in_words():
    d = RNNDescriptor("lstm", 3, 5, cell_clip=(-1e300, 1e300))
    reason = constraints.why_not(d, torch.float64, Algorithm.STANDARD, dense=True)
    assert reason == "cuDNN keeps the bounds of a clip in float32, where (-1e+300, 1e+300) would be rounded"


@pytest.mark.parametrize(
    ("made", "dtype", "reason"),
    [
        ({"bias": "input"}, torch.float32, "cuDNN's 'persist_dynamic' has double bias only"),
        ({"proj_size": 2}, torch.float64, "cuDNN's 'persist_dynamic' has no projection"),
        ({}, torch.float64, "'persist_dynamic' is not built here yet"),
    ],
)
def test_what_cudnn_lacks_is_said_before_what_we_lack(made, dtype, reason):
    d = RNNDescriptor("lstm", 3, 5, **made)
    assert constraints.why_not(d, dtype, Algorithm.PERSIST_DYNAMIC, dense=True) == reason


def test_more_features_than_an_int_counts():
    reason = constraints.why_not(
        RNNDescriptor("rnn_tanh", 2**31, 1), torch.float16, Algorithm.STANDARD, dense=True
    )
    assert reason == "cuDNN takes up to 2147483647 features, and input_size is 2147483648"
