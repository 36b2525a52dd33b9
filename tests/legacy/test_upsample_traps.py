"""Traps around upsampling, and what replaces the functions beside it that were never part of the old interface.

Old arrays are column-major ``(w, h, c, n)`` or ``(h, w, c, n)``; torch's are ``[N, C, ...]``. The order of all axes is
reversed, and nothing else.
"""

from __future__ import annotations

import pytest
import torch
from compare import assert_same
from torch.nn import functional as F

from rnncompat import legacy

F64 = torch.float64


def reversed_axes(x):
    """What a column-major array is in torch, and back."""
    return x.permute(*reversed(range(x.dim())))


def column_major(numbers, *shape):
    """The array of this shape that Julia's ``reshape`` makes of *numbers*."""
    return reversed_axes(torch.as_tensor(numbers, dtype=F64).reshape(*reversed(shape)))


def test_t33_stride_enlarges_and_scale_multiplies():
    dy = column_major(range(1, 17), 4, 4, 1, 1)
    right = column_major([14, 22, 46, 54], 2, 2, 1, 1)  # columns first
    assert torch.equal(right, legacy.upsample_gradient(dy, (2, 2)))
    assert torch.equal(3 * right, legacy.upsample_gradient(dy, (2, 2), 3))
    ones = legacy.upsample_gradient(torch.ones_like(dy), (2, 2), 3)
    assert torch.equal(torch.full_like(right, 12), ones)
    x = column_major(range(1, 5), 2, 2, 1, 1)
    y = legacy.upsample(x, (3, 2), 10)
    assert y.shape == (6, 4, 1, 1)
    assert y[:, 0, 0, 0].tolist() == [10, 10, 10, 20, 20, 20]


@pytest.mark.parametrize(
    ("align", "expected"),
    [(True, [1, 1.4, 1.8, 2.4, 3.2, 4]), (False, [1, 1.25, 1.75, 2.5, 3.5, 4])],
)
def test_t34_bilinear_upsampling_aligned_corners_and_torchs_does_not(align, expected):
    x = torch.tensor([[[1, 2, 4.0]]])
    assert_same(torch.tensor(expected), F.interpolate(x, 6, mode="linear", align_corners=align)[0, 0], 1e-6)


def test_t34_the_table_of_the_old_tests():
    x = reversed_axes(torch.tensor([[1, 2], [3, 4.0]], dtype=F64)[..., None, None])  # (2, 2, 1, 1)
    y = reversed_axes(F.interpolate(x, scale_factor=(2, 3), mode="bilinear", align_corners=True))
    assert y.shape == (
        6,
        4,
        1,
        1,
    )  # 3 along the first axis, 2 along the second: torch names them the other way
    assert_same(torch.tensor([1, 4 / 3, 5 / 3, 2], dtype=F64), y[0, :, 0, 0])
    assert_same(torch.tensor([7 / 5, 26 / 15, 31 / 15, 12 / 5], dtype=F64), y[1, :, 0, 0])
    assert_same(torch.tensor([3, 10 / 3, 11 / 3, 4], dtype=F64), y[5, :, 0, 0])
    leaf = x.clone().requires_grad_()
    F.interpolate(leaf, scale_factor=(2, 3), mode="bilinear", align_corners=True).sum().backward()
    assert_same(torch.full_like(x, 6), leaf.grad)


def test_t35_one_output_is_the_first_entry_and_one_input_is_constant():
    x = torch.tensor([[[3, 5, 7.0]]])
    assert F.interpolate(x, 1, mode="linear", align_corners=True).tolist() == [[[3]]]
    assert F.interpolate(x[..., :1], 4, mode="linear", align_corners=True).tolist() == [[[3] * 4]]


def test_t36_pixel_shuffle_is_torchs_with_every_axis_reversed():
    x = column_major(range(1, 17), 2, 2, 4, 1)
    y = reversed_axes(F.pixel_shuffle(reversed_axes(x), 2))[..., 0, 0]
    assert y.tolist() == [[1, 9, 3, 11], [5, 13, 7, 15], [2, 10, 4, 12], [6, 14, 8, 16]]
    rows_for_columns = F.pixel_shuffle(x.permute(3, 2, 0, 1), 2)[0, 0]  # the mistake: (h, w) kept in order
    assert rows_for_columns.tolist() == [[1, 5, 3, 7], [9, 13, 11, 15], [2, 6, 4, 8], [10, 14, 12, 16]]


def test_t37_the_same_size_is_a_copy_and_whole_numbers_are_refused():
    x = torch.tensor([[[1, 2, 4.0]]])
    same = F.interpolate(x, 3, mode="linear", align_corners=True)
    assert torch.equal(x, same)
    whole = torch.tensor([[[[1, 3], [3, 5]]]])
    with pytest.raises((RuntimeError, NotImplementedError)):
        F.interpolate(whole, 3, mode="bilinear", align_corners=True)
    rounded = F.interpolate(whole.double(), 3, mode="bilinear", align_corners=True).round().long()
    assert rounded[0, 0].tolist() == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]
    y = legacy.upsample(x[..., None], (1, 1))
    assert torch.equal(x[..., None], y)
    assert y.data_ptr() != x.data_ptr()
