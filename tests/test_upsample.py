"""Upsampling: every entry where the index map puts it, and the gradient as the sum of each block, on every way."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from cases import examples
from compare import assert_bitwise, assert_same
from hypothesis import given
from hypothesis import strategies as st

from rnncompat import InvalidTypeError, InvalidValueError, Upsample, block_sum, upsample_nearest

F64 = torch.float64
LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
WHOLE = [torch.int64, torch.int16, torch.uint8, torch.bool]

SHAPES = [  # one for each way that values or sums take
    ((2, 3, 5), (2,)),
    ((2, 3, 5), (7,)),
    ((2, 3, 5), (41,)),
    ((1, 2, 70), (4,)),
    ((1, 2, 70), (3,)),
    ((2, 3, 4, 5), (1, 1)),
    ((2, 3, 4, 5), (3, 2)),
    ((2, 3, 4, 5), (1, 4)),
    ((2, 3, 4, 5), (5, 1)),
    ((2, 3, 4, 70), (2, 2)),
    ((2, 35, 4, 5), (2, 2)),
    ((2, 35, 4, 5), (8, 9)),
    ((2, 3, 4, 5, 7), (2, 3, 1)),
    ((1, 35, 2, 3, 5), (1, 2, 2)),
    ((1, 2, 3, 4, 5), (9, 2, 11)),
]
case = pytest.mark.parametrize(("shape", "factors"), SHAPES, ids=str)


def by_index(x, factors):
    """``y[n, c, i, ...] = x[n, c, i div f, ...]``."""
    sources = np.meshgrid(
        *(np.arange(n * f) // f for n, f in zip(x.shape[2:], factors, strict=True)), indexing="ij"
    )
    return x[(slice(None), slice(None), *sources)]


def gradient_by_index(dy, factors):
    """Every entry of dy adds to the one that its y was read from."""
    dx = np.zeros((*dy.shape[:2], *(n // f for n, f in zip(dy.shape[2:], factors, strict=True))), dy.dtype)
    for index in np.ndindex(*dy.shape[2:]):
        dx[(..., *(i // f for i, f in zip(index, factors, strict=True)))] += dy[(..., *index)]
    return dx


def laid_out(tensor, memory):
    """The same values, contiguous, channels_last, or in an order of axes that no layout has."""
    if memory == "channels last" and tensor.dim() in LAYOUTS:
        return tensor.contiguous(memory_format=LAYOUTS[tensor.dim()])
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if memory == "reversed" else tensor


MEMORY = ["contiguous", "channels last", "reversed"]


@case
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("dtype", FLOATS + WHOLE)
def test_every_entry_comes_from_where_the_index_map_says(shape, factors, memory, dtype):
    x = laid_out((torch.randn(shape) * 9).to(dtype), memory)
    y = upsample_nearest(x, factors)
    numbers = x.to(F64).numpy()  # NumPy has no bfloat16; float64 holds every value of all of these
    assert y.dtype is dtype
    assert_bitwise(torch.from_numpy(by_index(numbers, factors)), y.to(F64))


@case
@pytest.mark.parametrize("memory", MEMORY)
def test_the_gradient_is_the_sum_of_each_block(shape, factors, memory):
    x = laid_out(torch.randn(shape, dtype=F64), memory).requires_grad_()
    y = upsample_nearest(x, factors)
    dy = laid_out(torch.randn(y.shape, dtype=F64), memory)
    expected = torch.from_numpy(gradient_by_index(dy.numpy(), factors))
    assert_same(expected, torch.autograd.grad(y, x, dy)[0])
    assert_same(expected, block_sum(dy, factors))


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=3),
    st.integers(0, 3),
    st.integers(0, 3),
)
@examples(80)
def test_any_sizes_and_factors(axes, batch, channels):
    sizes, factors = zip(*axes, strict=True)
    x = torch.randn(batch, channels, *sizes, dtype=F64)
    y = upsample_nearest(x, factors)
    assert_bitwise(torch.from_numpy(by_index(x.numpy(), factors)), y)
    dy = torch.randn(y.shape, dtype=F64)
    dx = block_sum(dy, factors)
    assert_same(torch.from_numpy(gradient_by_index(dy.numpy(), factors)), dx)
    assert_same((y * dy).sum(), (x * dx).sum())  # the two are adjoint


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("factor", [41, 47, 55, 61, 97])
def test_factors_that_interpolate_gets_wrong(dtype, factor):
    x = torch.arange(300, dtype=dtype)
    assert_bitwise(x.repeat_interleave(factor), upsample_nearest(x[None, None], factor)[0, 0])


def test_it_is_a_transposed_convolution_with_ones():
    x = torch.randn(2, 4, 5, 7, dtype=F64, requires_grad=True)
    ones = torch.ones(4, 1, 3, 2, dtype=F64)
    expected = torch.conv_transpose2d(x, ones, stride=(3, 2), groups=4)
    y = upsample_nearest(x, (3, 2))
    dy = torch.randn(y.shape, dtype=F64)
    assert_bitwise(expected, y)
    assert_same(torch.autograd.grad(expected, x, dy), torch.autograd.grad(y, x, dy))


@pytest.mark.parametrize("factors", [(2, 3), (1, 8), (1, 1)])
def test_derivatives_of_first_and_second_order(factors):
    x = torch.randn(2, 1, 3, 4, dtype=F64, requires_grad=True)
    y = torch.randn(1, 2, 6, 24, dtype=F64, requires_grad=True)
    for function, leaf in ((upsample_nearest, x), (block_sum, y)):
        assert torch.autograd.gradcheck(lambda t, f=function: f(t, factors), leaf)
        assert torch.autograd.gradgradcheck(lambda t, f=function: f(t, factors) ** 3, leaf)


def test_func_transforms_take_plain_operations():
    func = torch.func
    x, tangent = torch.randn(2, 5, 2, 3, 4, 5, dtype=F64).unbind()

    def energy(x):
        return (upsample_nearest(x, (2, 3, 1)) ** 3).sum()

    leaf = x[0, None].clone().requires_grad_()
    expected = torch.autograd.grad(energy(leaf), leaf)[0]
    assert_same(expected, func.grad(energy)(leaf.detach()))
    each = func.vmap(func.grad(lambda x: energy(x[None])))(x)
    assert_same(expected[0], each[0])
    value, slope = func.jvp(lambda x: upsample_nearest(x, 2), (x,), (tangent,))
    assert_bitwise(upsample_nearest(x, 2), value)
    assert_bitwise(upsample_nearest(tangent, 2), slope)
    small = x[:1, :1, :1, :2, :1]
    assert_same(torch.autograd.functional.hessian(energy, small), func.hessian(energy)(small))
    sums = func.vmap(lambda t: block_sum(t[None], (3, 4, 5))[0])(tangent)
    assert_same(block_sum(tangent, (3, 4, 5)), sums)


def test_batched_backward():
    x = torch.randn(2, 3, 4, dtype=F64, requires_grad=True)
    y = upsample_nearest(x, 3)
    directions = torch.randn(5, *y.shape, dtype=F64)
    one_by_one = [torch.autograd.grad(y, x, d, retain_graph=True)[0] for d in directions]
    (together,) = torch.autograd.grad(y, x, directions, is_grads_batched=True)
    assert_same(torch.stack(one_by_one), together)


@pytest.mark.filterwarnings("default")  # torch's compilers warn of themselves
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_whole(backend, dynamic):
    torch._dynamo.reset()
    module = Upsample((2, 3))

    def run(x):
        return module(x.tanh()) * 2 + upsample_nearest(x, (2, 3))

    compiled = torch.compile(run, fullgraph=True, backend=backend, dynamic=dynamic)
    for shape in ((2, 3, 4, 5), (3, 2, 6, 7)):
        x = torch.randn(shape, dtype=F64, requires_grad=True)
        expected, found = run(x), compiled(x)
        dy = torch.randn_like(expected)
        assert_same(expected, found)
        assert_same(torch.autograd.grad(expected, x, dy), torch.autograd.grad(found, x, dy))
    sums = torch.compile(lambda y: block_sum(y, 3), fullgraph=True, backend=backend, dynamic=dynamic)
    y = torch.randn(2, 3, 6, 9, dtype=F64)
    assert_same(block_sum(y, 3), sums(y))


@case
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_same_bits_each_time(shape, factors, dtype):
    def gradient():
        x = torch.zeros(shape, dtype=dtype, requires_grad=True)
        y = upsample_nearest(x, factors)
        dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        return torch.autograd.grad(y, x, dy)[0]

    assert_bitwise(gradient(), gradient())


def test_pieces_do_not_change_a_sum(monkeypatch):
    y = torch.randn(4, 5, 12, 18)
    whole = block_sum(y, (3, 2))
    monkeypatch.setattr("rnncompat.backends.blocks._PIECE", 100)
    assert_bitwise(whole, block_sum(y, (3, 2)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("factors", [(16, 16), (2, 2), (3, 5), (1, 2), (40, 1)])
def test_half_types_are_rounded_once(dtype, memory, factors):
    y = (torch.randint(64, (2, 35, factors[0] * 3, factors[1] * 4)) / 64).to(dtype)  # float32 sums are exact
    exact = torch.from_numpy(gradient_by_index(y.double().numpy(), factors))
    found = block_sum(laid_out(y, memory), factors)
    assert found.dtype is dtype
    assert_bitwise(exact.float().to(dtype), found)


def test_whole_numbers_are_summed_as_such():
    y = torch.arange(24, dtype=torch.int32).reshape(1, 2, 12)
    for factor in (2, 3, 12):
        expected = y.reshape(1, 2, -1, factor).sum(-1).to(torch.int32)
        assert_bitwise(expected, block_sum(y, factor))


def test_memory_is_new_and_its_format_kept():
    for shape, factors in SHAPES:
        x = torch.randn(shape)
        for call in (upsample_nearest, block_sum):
            given_ = x if call is upsample_nearest else upsample_nearest(x, factors)
            before = given_.clone()
            call(given_, factors).fill_(7)
            assert_bitwise(before, given_)
        layout = LAYOUTS.get(len(shape))
        if layout is not None:
            last = x.contiguous(memory_format=layout)
            assert upsample_nearest(last, factors).is_contiguous(memory_format=layout)
            assert block_sum(upsample_nearest(last, factors), factors).is_contiguous(memory_format=layout)
        assert upsample_nearest(laid_out(x, "reversed"), factors).is_contiguous()


@case
@pytest.mark.parametrize("memory", MEMORY)
def test_other_devices_get_the_same_shapes_and_memory(shape, factors, memory):
    """The meta device takes the way of every device that is no CPU."""
    x = laid_out(torch.zeros(shape), memory)
    there = upsample_nearest(x.to("meta"), factors)
    assert there.is_meta
    assert (there.shape, there.stride()) == ((y := upsample_nearest(x, factors)).shape, y.stride())
    assert block_sum(there, factors).shape == shape


def test_an_expanded_gradient():
    x = torch.randn(2, 3, 4, 5, requires_grad=True)
    upsample_nearest(x, (2, 3)).sum().backward()
    assert_bitwise(torch.full((2, 3, 4, 5), 6.0), x.grad)


@pytest.mark.parametrize(
    "shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 40, 4, 70), (2, 3, 0, 5), (2, 3, 4, 0, 5)]
)
@pytest.mark.parametrize("memory", MEMORY)
def test_empty(shape, memory):
    x = laid_out(torch.zeros(shape), memory).requires_grad_()
    y = upsample_nearest(x, 2)
    assert y.shape == (*shape[:2], *(2 * n for n in shape[2:]))
    assert torch.autograd.grad(y, x, torch.ones_like(y))[0].shape == shape


@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.float16])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4, 70)])
def test_autocast_changes_no_dtype(dtype, shape):
    x = torch.randn(shape).to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = upsample_nearest(x, 2)
        dx = torch.autograd.grad(y, x, torch.ones_like(y))[0]
        summed = block_sum(y, 2)
    assert (y.dtype, dx.dtype, summed.dtype) == (dtype, dtype, dtype)


def test_complex_numbers():
    x = torch.randn(2, 3, 4, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: upsample_nearest(x.conj(), 3), x)


def test_the_module():
    module = Upsample(scale_factor=[2, 3])
    x = torch.randn(1, 2, 3, 4)
    assert repr(module) == "Upsample(scale_factor=(2, 3))"
    assert not module.state_dict()
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):  # noqa: S301  # our own bytes
        assert_bitwise(upsample_nearest(x, (2, 3)), twin(x))
    assert Upsample(2)(torch.zeros(2, 3, 4)).shape == (2, 3, 8)
    assert Upsample(np.int64(2))(torch.zeros(2, 3, 4, 5, 6)).shape == (2, 3, 8, 10, 12)


@pytest.mark.parametrize("call", [upsample_nearest, block_sum], ids=["upsample", "sum"])
@pytest.mark.parametrize(
    ("x", "factor", "error", "words"),
    [
        (np.zeros((1, 1, 4)), 2, InvalidTypeError, "is a ndarray; expected a tensor"),
        (
            torch.zeros(2, 4),
            2,
            InvalidValueError,
            r"expected shape \[N, C, L\], .*Add the batch: [xy]\[None\]",
        ),
        (torch.zeros(1, 1, 2, 2, 2, 2), 2, InvalidValueError, r"of shape \[1, 1, 2, 2, 2, 2\]"),
        (torch.zeros(4), 2, InvalidValueError, r"of shape \[4\]"),
        (
            torch.zeros(1, 1, 4),
            2.0,
            InvalidTypeError,
            "scale_factor is a float; expected a whole number >= 1",
        ),
        (torch.zeros(1, 1, 4), True, InvalidTypeError, "scale_factor is a bool"),
        (torch.zeros(1, 1, 4), "2", InvalidTypeError, "scale_factor is a str"),
        (torch.zeros(1, 1, 4), None, InvalidTypeError, "scale_factor is a NoneType"),
        (torch.zeros(1, 1, 4), 0, InvalidValueError, "scale_factor is 0"),
        (torch.zeros(1, 1, 4), -2, InvalidValueError, "scale_factor is -2"),
        (torch.zeros(1, 1, 4, 4), (2, 0), InvalidValueError, r"scale_factor\[1\] is 0"),
        (torch.zeros(1, 1, 4, 4), (2, 2.5), InvalidTypeError, r"scale_factor\[1\] is a float"),
        (torch.zeros(1, 1, 4, 4), (2,), InvalidValueError, "a whole number or 2 of them, one for each axis"),
        (torch.zeros(1, 1, 4), (1, 1, 2), InvalidValueError, "or 1 of them"),
    ],
)
def test_refusals(call, x, factor, error, words):
    with pytest.raises(error, match=words):
        call(x, factor)


def test_refusals_of_sums_and_of_the_module():
    with pytest.raises(InvalidValueError, match=r"\[1, 1, 4, 5\]; .* axis 3 divisible by its factor 2"):
        block_sum(torch.zeros(1, 1, 4, 5), 2)
    with pytest.raises(InvalidTypeError, match=r"y has dtype torch.bool; .*y.long\(\)"):
        block_sum(torch.ones(1, 1, 4, dtype=torch.bool), 2)
    for wrong, error in ((0, ValueError), (1.5, TypeError), ((), ValueError), ((1, 1, 1, 1), ValueError)):
        with pytest.raises(error, match="scale_factor"):
            Upsample(wrong)
