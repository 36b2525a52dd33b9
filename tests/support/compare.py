"""The one helper that compares: a test proves that it can fail."""

from __future__ import annotations

import torch

EXACT = 1e-10
"""Tolerance in float64 for two ways to compute the same."""


def assert_same(expected, actual, tolerance=EXACT):
    """Same structure, shapes, dtypes and values (NaN equals NaN) within *tolerance*, absolute and relative."""
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(actual)
        for e, a in zip(expected, actual, strict=True):
            assert_same(e, a, tolerance)
        return
    if expected is None:
        assert actual is None
        return
    torch.testing.assert_close(
        actual, torch.as_tensor(expected), rtol=tolerance, atol=tolerance, equal_nan=True
    )


def assert_bitwise(expected, actual):
    """Same structure and the very same bits."""
    assert_same(expected, actual, tolerance=0.0)
