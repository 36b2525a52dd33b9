"""The old upsampling: its index map written out in NumPy, and every defect of the kernels before."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cases import examples
from compare import assert_bitwise, assert_same
from hypothesis import given
from hypothesis import strategies as st

from rnncompat import InvalidTypeError, InvalidValueError, legacy

F64 = torch.float64


def normal(*shape):
    return torch.randn(*shape, dtype=F64)


def by_index(x, stride, scale):
    """``y[yh, yw] = scale * x[yh div s1, yw div s2]``, pixel by pixel."""
    h, w, c, n = x.shape
    y = np.empty((h * stride[0], w * stride[1], c, n))
    for yh in range(y.shape[0]):
        for yw in range(y.shape[1]):
            y[yh, yw] = scale * x[yh // stride[0], yw // stride[1]]
    return y


def gradient_by_index(dy, stride, scale):
    """Every dy adds to the pixel that its y was read from."""
    h, w, c, n = dy.shape
    dx = np.zeros((h // stride[0], w // stride[1], c, n))
    for yh in range(h):
        for yw in range(w):
            dx[yh // stride[0], yw // stride[1]] += scale * dy[yh, yw]
    return dx


def square(values):
    """Numbers in the order of a column-major matrix, as an image ``(4, 4, 1, 1)``."""
    return torch.tensor(values, dtype=F64).reshape(4, 4).t().reshape(4, 4, 1, 1)


def test_the_golden_numbers():
    """With dy's sizes taken for dx's, the second defect, it would be 22 38; 30 46."""
    dx = legacy.upsample_gradient(square(range(1, 17)), (2, 2))
    assert_bitwise(torch.tensor([[14.0, 46.0], [22.0, 54.0]], dtype=F64), dx[:, :, 0, 0])


def test_scale_multiplies_the_gradient():
    """The old kernel divided by it (4/3), the thread's forgot it (4)."""
    dx = legacy.upsample_gradient(torch.ones(4, 4, 1, 1), (2, 2), 3)
    assert_bitwise(torch.full((2, 2, 1, 1), 12.0), dx)
    y = legacy.upsample(torch.ones(2, 2, 1, 1), (2, 2), 3)
    assert_bitwise(torch.full((4, 4, 1, 1), 3.0), y)


images = st.tuples(*(st.integers(1, 4) for _ in range(4)))
strides = st.tuples(st.integers(1, 5), st.integers(1, 5))


@given(images, strides, st.sampled_from([1, 3, -0.5]))
@examples(60)
def test_values_and_gradient_are_the_index_map(shape, stride, scale):
    x = normal(*shape).requires_grad_()
    y = legacy.upsample(x, stride, scale)
    dy = normal(*y.shape)
    assert_bitwise(torch.from_numpy(by_index(x.detach().numpy(), stride, scale)), y.detach())
    expected = torch.from_numpy(gradient_by_index(dy.numpy(), stride, scale))
    assert_same(expected, legacy.upsample_gradient(dy, stride, scale))
    assert_same(expected, torch.autograd.grad(y, x, dy)[0])


def test_both_are_a_convolution_with_ones():
    """Transposed forward, plain backward; h, w, c, n and the strides pairwise different."""
    x, stride = normal(2, 6, 4, 7), (3, 5)
    h, w, c, n = x.shape
    ones = torch.ones(c, 1, *stride, dtype=F64)
    there = torch.conv_transpose2d(x.permute(3, 2, 0, 1), ones, stride=stride, groups=c)
    assert_bitwise(there.permute(2, 3, 1, 0).contiguous(), legacy.upsample(x, stride).contiguous())
    dy = normal(h * 3, w * 5, c, n)
    back = torch.conv2d(dy.permute(3, 2, 0, 1), ones, stride=stride, groups=c)
    assert_same(back.permute(2, 3, 1, 0), legacy.upsample_gradient(dy, stride))


def test_column_major_memory_gives_the_same():
    x = normal(2, 3, 4, 5)
    old = x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)  # as Julia lays it out
    assert old.stride() == (1, 2, 6, 24)
    assert_bitwise(legacy.upsample(x, (3, 2)), legacy.upsample(old, (3, 2)))
    assert_bitwise(legacy.upsample_gradient(x, (2, 3)), legacy.upsample_gradient(old, (2, 3)))


def test_odd_strides_divide_odd_sizes():
    """9 by 9 with stride 3 was refused by the thread's check of ``% 2``."""
    dy = normal(9, 15, 2, 3)
    assert legacy.upsample_gradient(dy, (3, 5)).shape == (3, 3, 2, 3)


@pytest.mark.parametrize(("shape", "axis"), [((8, 9, 1, 1), 0), ((9, 8, 1, 1), 1)])
def test_a_stride_that_does_not_divide_is_refused(shape, axis):
    """The thread's check let 8 through for a stride of 3."""
    with pytest.raises(InvalidValueError, match=rf"dy is of shape .* axis {axis} divisible by stride"):
        legacy.upsample_gradient(torch.zeros(shape), (3, 3))


def test_second_derivatives():
    x = normal(2, 3, 4, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: legacy.upsample(x, (3, 2), 3), x)
    assert torch.autograd.gradgradcheck(lambda x: legacy.upsample(x, (3, 2), 3) ** 3, x)
    assert torch.autograd.gradgradcheck(lambda x: legacy.upsample_gradient(x, (2, 3), 3) ** 3, x)


def test_the_gradient_has_the_same_bits_each_time_and_starts_from_nothing():
    dy = torch.randn(12, 30, 5, 7)
    first = legacy.upsample_gradient(dy, (3, 5), 0.3)
    for _ in range(3):
        assert_bitwise(first, legacy.upsample_gradient(dy, (3, 5), 0.3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int16])
def test_dtypes_are_kept(dtype):
    x = torch.arange(12).reshape(1, 3, 2, 2).to(dtype)
    assert legacy.upsample(x, (2, 3), 3).dtype is dtype
    assert legacy.upsample_gradient(x, (1, 3), 3).dtype is dtype


@pytest.mark.parametrize("shape", [(0, 3, 1, 2), (2, 3, 0, 2), (2, 3, 1, 0)])
def test_empty(shape):
    h, w, *rest = shape
    y = legacy.upsample(torch.zeros(shape), (2, 3))
    assert y.shape == (h * 2, w * 3, *rest)
    assert legacy.upsample_gradient(y, (2, 3)).shape == shape


X = torch.zeros(2, 2, 1, 1)


@pytest.mark.parametrize("call", [legacy.upsample, legacy.upsample_gradient])
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((np.zeros((2, 2, 1, 1)), (2, 2)), InvalidTypeError, "is a ndarray; expected a tensor"),
        ((torch.zeros(2, 2, 1), (2, 2)), InvalidValueError, r"expected four axes, \(h, w, c, n\)"),
        ((X.bool(), (2, 2)), InvalidTypeError, "torch.bool; expected numbers"),
        ((X, 2), InvalidValueError, r"stride is 2; expected two whole numbers, such as \(2, 2\)"),
        ((X, (2, 2, 1, 1)), InvalidValueError, "expected two whole numbers"),
        ((X, (2, 2.0)), InvalidTypeError, r"stride\[1\] is a float"),
        ((X, (True, 2)), InvalidTypeError, r"stride\[0\] is a bool"),
        ((X, (2, 0)), InvalidValueError, r"stride\[1\] is 0"),
        ((X, (-1, 2)), InvalidValueError, r"stride\[0\] is -1"),
        ((X, (2, 2), True), InvalidTypeError, "scale is a bool"),
        ((X, (2, 2), (2, 2)), InvalidTypeError, "scale is a tuple; expected a plain number"),
        ((X, (2, 2), torch.tensor(2.0)), InvalidTypeError, "scale is a Tensor"),
        ((X.int(), (2, 2), 0.5), InvalidTypeError, "torch.int32, which cannot hold its values times 0.5"),
    ],
)
def test_refusals(call, arguments, error, words):
    with pytest.raises(error, match=words):
        call(*arguments)


def test_numbers_of_numpy_are_numbers():
    y = legacy.upsample(X + 1, (np.int64(2), np.int32(1)), np.float32(0.5))
    assert_bitwise(torch.full((4, 2, 1, 1), 0.5), y)
