"""The large matrix products of the hand-written kernels: by oneDNN where torch has it, else by its own BLAS.

The BLAS in torch's wheels (MKL) takes a slower kernel on processors that are not Intel's. oneDNN's takes what
the processor has: 1.6 to 2.3 times as fast on an AMD EPYC with AVX-512, float32, from a few hundred rows on.
It has no gradient, so it serves inside kernels only, where autograd is off.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...versions import ONEDNN_LINEAR

__all__ = ["large_products", "linear", "rows_product"]

_ROWS = 256  # below it, oneDNN's setup outweighs what it saves
_ONEDNN = torch.ops.mkldnn._linear_pointwise if ONEDNN_LINEAR else None


def large_products(rows: int, like: Tensor) -> bool:
    """Whether oneDNN serves products over so many rows of this dtype."""
    return (
        _ONEDNN is not None
        and rows >= _ROWS
        and like.dtype is torch.float32
        and like.is_cpu
        and torch._C._get_mkldnn_enabled()
    )


def _by_onednn(like: Tensor) -> bool:
    return not torch.is_grad_enabled() and large_products(len(like), like)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias``: x ``[N, K]``, weight ``[M, K]``, bias ``[M]``."""
    if _ONEDNN is not None and _by_onednn(x):
        result: Tensor = _ONEDNN(x, weight, bias, "none", [], "")
        return result
    return torch.mm(x, weight.t()) if bias is None else torch.addmm(bias, x, weight.t())


def rows_product(a: Tensor, b: Tensor) -> Tensor:
    """``a.T @ b``, a sum over rows: a ``[N, M]``, b ``[N, K]``."""
    if _ONEDNN is not None and _by_onednn(a):
        result: Tensor = _ONEDNN(a.t(), b.t(), None, "none", [], "")
        return result
    return a.t() @ b
