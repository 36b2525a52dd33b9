"""The kernel of the LSTM, with projection and cell clip; it keeps c of every step."""

from __future__ import annotations

import torch
from torch import Tensor

from ...descriptor import Cell
from .backsweep import StateGradient, gradients, needed, own, rows_of
from .hand import Arguments, Clip, Gradients, Kernel, Outputs, input_gates
from .hand_gru import order_parts
from .hand_rnn import both_biases
from .order import Order, enter
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

    def backward(
        self,
        a: Arguments,
        order: Order,
        clip: Clip,
        outputs: Outputs,
        kept: Outputs,
        grads: tuple[Tensor | None, ...],
    ) -> Gradients:
        (y, c), (dy, dc_outside), (gates, m) = outputs, grads, kept
        assert a.c0 is not None
        dh = StateGradient(order, own(dy, y), a.h0)
        dc = StateGradient(order, own(dc_outside, c), a.c0)
        c_before = order.before(c, a.c0)
        dgates = torch.empty_like(gates)
        parts, by_gate = order_parts(order, dgates, 4)
        dm = dh.total if a.weight_hr is None else torch.empty_like(m)
        dm_parts = dm.split(order.sizes)  # type: ignore[no-untyped-call]  # torch's own gap
        for block in order.blocks_back(6 * m.shape[1]):
            rows = slice(block.low, block.high)
            for step, k, k_o, k_c, k_f in rows_of(
                block, order, *_slopes(gates[rows], c[rows], c_before[rows], clip)
            ):
                if a.weight_hr is not None:
                    torch.mm(dh.steps[step], a.weight_hr, out=dm_parts[step])
                dm_t, dc_t, dgates_t = dm_parts[step], dc.steps[step], by_gate[step]
                dc_t.addcmul_(dm_t, k_c)
                torch.mul(dc_t[:, None], k, out=dgates_t[:, :3])
                torch.mul(dm_t, k_o, out=dgates_t[:, 3])
                for (h_place, part), (c_place, _) in zip(dh.flow[step], dc.flow[step], strict=True):
                    _flow(h_place, c_place, part, parts[step], dc_t, k_f, a.weight_hh)
        result = gradients(a, dgates, order.before(y, a.h0), dh.start)
        dweight_hr = rows_product(dh.total, m) if needed(a.weight_hr) else None
        return result._replace(weight_hr=dweight_hr, c0=dc.start)


def _clipped(c: Tensor, clip: Clip) -> Tensor:
    return c if clip is None else c.clamp(*clip)


def _slopes(gates: Tensor, c: Tensor, c_before: Tensor, clip: Clip) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of c' by i f g ``[rows, 3, H]``; of m by o; of m by c'; of c' by c: ``[rows, H]`` each."""
    i, f, g, o = gates.view(len(gates), 4, -1).unbind(1)
    tanh_c = torch.tanh(_clipped(c, clip))
    k = gates.new_empty(len(gates), 3, c.shape[1])
    torch.mul(g, i * (1 - i), out=k[:, 0])
    torch.mul(_clipped(c_before, clip), f * (1 - f), out=k[:, 1])
    torch.mul(i, 1 - g * g, out=k[:, 2])
    k_o, k_c, k_f = tanh_c * o * (1 - o), o * (1 - tanh_c * tanh_c), f
    if clip is not None:
        # cuDNN's rule: the gradient is 1 inside the closed range and 0 outside.
        k_c, k_f = (k * ((v >= clip[0]) & (v <= clip[1])) for k, v in ((k_c, c), (k_f, c_before)))
    return k, k_o, k_c, k_f


def _flow(
    h_place: Tensor,
    c_place: Tensor,
    rows: slice | None,
    dgates: Tensor,
    dc: Tensor,
    k_f: Tensor,
    weight: Tensor,
) -> None:
    if rows is not None:
        dgates, dc, k_f = dgates[rows], dc[rows], k_f[rows]
    h_place.addmm_(dgates, weight)
    c_place.addcmul_(dc, k_f)


LSTM = _LSTM()
