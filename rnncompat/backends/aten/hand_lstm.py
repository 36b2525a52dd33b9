"""The kernel of the LSTM, with projection and cell clip; it keeps c of every step."""

from __future__ import annotations

import torch
from torch import Tensor

from ...descriptor import Cell
from ..order import Order, enter
from .backsweep import StateGradient, gate_parts, gradients, needed, own, rows_of
from .hand import Arguments, Clip, Gradients, Kernel, Outputs, Record, both_biases, input_gates
from .products import rows_product

__all__ = ["LSTM"]


class _LSTM(Kernel):
    """``c' = f * clip(c) + i * g``, ``h' = W_hr (o * tanh(clip(c')))``; gates i f g o."""

    cell = Cell.LSTM

    def forward(self, a: Arguments, order: Order, clip: Clip) -> tuple[Outputs, Outputs]:
        assert a.c0 is not None
        hidden = a.c0.shape[1]
        gates = input_gates(a.x, a.weight_ih, both_biases(a), 4)  # [N, 4H]
        c_all, m_all = gates.new_empty(len(gates), hidden), gates.new_empty(len(gates), hidden)
        y_all = m_all if a.weight_hr is None else gates.new_empty(len(gates), len(a.weight_hr))
        i_f, i, f, g, o = (
            gates[:, low * hidden : high * hidden] for low, high in ((0, 2), (0, 1), (1, 2), (2, 3), (3, 4))
        )
        recurrent, projection = a.weight_hh.t(), None if a.weight_hr is None else a.weight_hr.t()
        h, c, rows = a.h0, a.c0, len(a.h0)
        walk = zip(
            order.walked(order.sizes),
            *map(order.along, (gates, i_f, i, f, g, o, c_all, m_all, y_all)),
            strict=True,
        )
        for size, gates_t, i_f_t, i_t, f_t, g_t, o_t, c_t, m_t, y_t in walk:
            if size != rows:
                h, c, rows = enter(h, a.h0, size), enter(c, a.c0, size), size
            gates_t.addmm_(h, recurrent)
            i_f_t.sigmoid_()
            g_t.tanh_()
            o_t.sigmoid_()
            c = torch.mul(f_t, _clipped(c, clip), out=c_t).addcmul_(i_t, g_t)
            h = torch.tanh(_clipped(c, clip), out=m_t).mul_(o_t)
            if projection is not None:
                h = torch.mm(h, projection, out=y_t)
        return (y_all, c_all), (gates, m_all)

    def backward(self, a: Arguments, order: Order, clip: Clip, record: Record) -> Gradients:
        (y, c), (gates, m), (dy, dc_outside) = record
        assert a.c0 is not None
        dh = StateGradient(order, own(dy, y), a.h0)
        dc = StateGradient(order, own(dc_outside, c), a.c0)
        c_before = order.before(c, a.c0)
        dgates, weight = torch.empty_like(gates), a.weight_hh
        parts, by_gate = gate_parts(order, dgates, 4)
        dm = dh.total if a.weight_hr is None else torch.empty_like(m)
        dm_parts = dm.split(order.sizes)  # type: ignore[no-untyped-call]  # torch's own gap
        for block in order.blocks_back(6 * m.shape[1]):
            rows = slice(block.low, block.high)
            # The slopes are written where the gradients go and become them, step by step, in place.
            slopes = _slopes(gates[rows], c[rows], c_before[rows], clip, dgates[rows])
            for step, k_c, k_f in rows_of(block, order, *slopes):
                if a.weight_hr is not None:
                    torch.mm(dh.steps[step], a.weight_hr, out=dm_parts[step])
                dm_t, dc_t, dgate = dm_parts[step], dc.steps[step], by_gate[step]
                dc_t.addcmul_(dm_t, k_c)
                dgate[:, :3].mul_(dc_t[:, None])
                dgate[:, 3].mul_(dm_t)
                for (h_place, some), (c_place, _) in zip(dh.flow[step], dc.flow[step], strict=True):
                    if some is None:
                        h_place.addmm_(parts[step], weight)
                        c_place.addcmul_(dc_t, k_f)
                    else:
                        h_place.addmm_(parts[step][some], weight)
                        c_place.addcmul_(dc_t[some], k_f[some])
        result = gradients(a, dgates, order.before(y, a.h0), dh.start)
        dweight_hr = rows_product(dh.total, m) if needed(a.weight_hr) else None
        return result._replace(weight_hr=dweight_hr, c0=dc.start)


def _clipped(c: Tensor, clip: Clip) -> Tensor:
    return c if clip is None else c.clamp(*clip)


def _slopes(gates: Tensor, c: Tensor, c_before: Tensor, clip: Clip, dgates: Tensor) -> tuple[Tensor, Tensor]:
    """Fills *dgates* with the slopes of c' by i f g and of m by o; returns those of m by c' and of c' by c."""
    i, f, g, o = gates.view(len(gates), 4, -1).unbind(1)
    k_i, k_f, k_g, k_o = dgates.view(len(gates), 4, -1).unbind(1)
    tanh_c = torch.tanh(_clipped(c, clip))
    torch.mul(g, i * (1 - i), out=k_i)
    torch.mul(_clipped(c_before, clip), f * (1 - f), out=k_f)
    torch.mul(i, 1 - g * g, out=k_g)
    torch.mul(tanh_c, o * (1 - o), out=k_o)
    by_c, through = o * (1 - tanh_c * tanh_c), f
    if clip is not None:
        # cuDNN's rule: the gradient is 1 inside the closed range and 0 outside.
        by_c, through = (k * ((v >= clip[0]) & (v <= clip[1])) for k, v in ((by_c, c), (through, c_before)))
    return by_c, through


LSTM = _LSTM()
