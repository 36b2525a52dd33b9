"""The state after every step, which cuDNN does not give: h is the output of a layer, c follows from it.

Given h before every step, the gates of all steps are one product, and ``c' = f c + i g`` is linear in c: a scan
over log2 T levels (Hillis and Steele, 1986) finds c after every step. The gates f lie in 0..1, so nothing grows.
With a clip it is not linear, and a loop over the steps does it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ...descriptor import RNNDescriptor
from ...weights import LayerWeights
from ..order import Order

__all__ = ["cell_states"]


def cell_states(
    d: RNNDescriptor, weights: LayerWeights, order: Order, x: Tensor, h: Tensor, start: tuple[Tensor, Tensor]
) -> Tensor:
    """The c after every step of one direction of one LSTM layer ``[N, H]``, in packed rows.

    Args:
        d: the layer.
        weights: of the direction.
        order: its walk.
        x: its input ``[N, in]``.
        h: the states after every step ``[N, P or H]``, as cuDNN gave them.
        start: h ``[R, P or H]`` and c ``[R, H]`` that each run starts from.
    """
    keep, add = _factors(weights, x, order.before(h, start[0]))
    keep, add = order.pad(keep, 1.0), order.pad(add)  # [T, R, H]
    if order.reverse:
        keep, add = keep.flip(0), add.flip(0)
    begin = start[1].to(keep.dtype)
    every = _scan(keep, add, begin) if d.cell_clip is None else _loop(keep, add, begin, d.cell_clip)
    every = every.flip(0) if order.reverse else every
    return order.unpad(every).to(h.dtype)


def _factors(weights: LayerWeights, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """What c is multiplied by and what is added to it, f and i g of every step ``[N, H]``, half types in float32, in which cuDNN keeps its sums."""
    gates = F.linear(before, weights.weight_hh, weights.bias_hh)  # [N, 4*H]
    if weights.weight_ih is not None:
        gates = gates + F.linear(x, weights.weight_ih, weights.bias_ih)
    else:
        gates = gates + x.repeat(1, 4) + (0 if weights.bias_ih is None else weights.bias_ih)
    wide = torch.float64 if gates.dtype is torch.float64 else torch.float32
    i, f, g, _ = gates.to(wide).chunk(4, 1)
    return f.sigmoid(), i.sigmoid() * g.tanh()


def _scan(keep: Tensor, add: Tensor, start: Tensor) -> Tensor:
    """``c[t] = keep[t] c[t-1] + add[t]`` for all t, in log2 T levels."""
    c, reach = torch.cat([(keep[0] * start + add[0])[None], add[1:]]), 1
    while reach < len(c):
        c = torch.cat([c[:reach], c[reach:] + keep[reach:] * c[:-reach]])
        keep = torch.cat([keep[:reach], keep[reach:] * keep[:-reach]])
        reach *= 2
    return c


def _loop(keep: Tensor, add: Tensor, start: Tensor, clip: tuple[float, float]) -> Tensor:
    """As :func:`_scan` where the state is clipped when it is used."""
    c, every = start, []
    for f, a in zip(keep.unbind(0), add.unbind(0), strict=True):
        c = f * c.clamp(*clip) + a
        every.append(c)
    return torch.stack(every)
