"""The large products of the kernels, whoever makes them, and the calls that need them."""

from __future__ import annotations

import pytest
import torch
from compare import assert_same

from rnncompat import RNNDescriptor, RNNWeights, rnn_forward
from rnncompat.backends.aten.products import large_products, linear, rows_product
from rnncompat.versions import ONEDNN_LINEAR

N, K, M = 300, 5, 7


@pytest.mark.parametrize("rows", [N, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_products(rows, bias):
    x, weight, b = torch.randn(rows, K), torch.randn(M, K), torch.randn(M) if bias else None
    expected = x.double() @ weight.double().t() + (0 if b is None else b.double())
    y, by_rows = expected.float(), (expected.t() @ x.double()).float()
    with torch.no_grad():
        assert_same(y, linear(x, weight, b), 1e-5)
        assert_same(by_rows, rows_product(y, x), 1e-4)
    assert_same(y, linear(x.requires_grad_(), weight, b), 1e-5)
    assert large_products(rows, x) is (ONEDNN_LINEAR and rows == N and torch.backends.mkldnn.is_available())


@pytest.mark.parametrize("cell", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize("extras", [{}, {"resets": True}, {"lengths": True}], ids=str)
def test_a_float32_batch_of_many_rows(cell, extras):
    descriptor = RNNDescriptor(cell, 3, 4, num_layers=2)
    weights = RNNWeights.init(descriptor)
    x = torch.randn(20, 30, 3, requires_grad=True)  # 600 rows
    options = {}
    if "resets" in extras:
        options["resets"] = torch.rand(20, 30) < 0.1
    if "lengths" in extras:
        options["lengths"] = torch.randint(0, 21, (30,))

    def call(backend):
        output, state = rnn_forward(descriptor, weights, x, backend=backend, **options)
        results = [output, *(s for s in state if s is not None)]
        return [*results, *torch.autograd.grad(sum((r * r).sum() for r in results), [x, weights.flat])]

    assert_same(call("reference"), call("aten"), 1e-3)
