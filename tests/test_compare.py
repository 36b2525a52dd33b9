"""The comparing helper can fail: an oracle that cannot is none."""

from __future__ import annotations

import pytest
import torch
from compare import assert_bitwise, assert_same

ONE = torch.ones(2, dtype=torch.float64)


@pytest.mark.parametrize(
    "other",
    [ONE + 1e-9, ONE[:1], ONE.float(), ONE * float("nan")],
    ids=["value", "shape", "dtype", "nan"],
)
def test_a_difference_is_an_error(other):
    with pytest.raises(AssertionError):
        assert_same(ONE, other)
    with pytest.raises(AssertionError):
        assert_same((ONE, ONE), (ONE, other))


def test_bitwise_sees_the_last_bit():
    with pytest.raises(AssertionError):
        assert_bitwise(ONE, ONE + 2.3e-16)
    assert_bitwise(ONE, ONE.clone())
