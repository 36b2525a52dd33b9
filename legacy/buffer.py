"""The views of the old flat parameter buffer."""

from __future__ import annotations

from torch import Tensor

from rnncompat import InvalidValueError

__all__ = ["Views", "split_params"]

Views = tuple[tuple[Tensor, Tensor], Tensor]


def split_params(flat: Tensor, inputs: int, hidden: int, gates: int) -> Views:
    """Views ``((I, G*H), (H, G*H)), (G*H,)`` of a flat buffer, transposed as the old interface showed them."""
    rows = gates * hidden
    if flat.dim() != 1 or len(flat) < rows * (inputs + hidden + 1):
        raise InvalidValueError(
            f"w is of shape {list(flat.shape)}; expected 1-D with at least {rows * (inputs + hidden + 1)} elements."
        )
    wi, wh, bias = flat[: rows * (inputs + hidden + 1)].split([rows * inputs, rows * hidden, rows])  # type: ignore[no-untyped-call]  # torch's own gap
    return (wi.view(rows, inputs).t(), wh.view(rows, hidden).t()), bias
