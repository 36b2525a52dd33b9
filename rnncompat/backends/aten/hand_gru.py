"""The kernel of the GRU: six small operations a step forward, three backward."""

from __future__ import annotations

import torch
from torch import Tensor

from ...descriptor import Cell
from ..order import Order, enter
from .backsweep import StateGradient, gate_parts, gradients, own, recurrent_gradients, rows_of
from .hand import Arguments, Clip, Gradients, Kernel, Outputs, Record, input_gates

__all__ = ["GRU"]


class _GRU(Kernel):
    """``n = tanh(x_n + r * (R_n h + bR_n))``, ``h' = (1 - z) n + z h``; gates r z n.

    The gates r and z lie side by side, apart from n, so that one product and one activation serve both.
    """

    cell = Cell.GRU

    def forward(self, a: Arguments, order: Order, clip: Clip) -> tuple[Outputs, Outputs]:
        hidden = a.weight_hh.shape[1]
        rz, n = _input_gates(a, hidden)  # [N, 2H], [N, H]
        recurrent_n, y = torch.empty_like(n), torch.empty_like(n)
        weight_rz, weight_n = a.weight_hh[: 2 * hidden].t(), a.weight_hh[2 * hidden :].t()
        bias_n = None if a.bias_hh is None else a.bias_hh[2 * hidden :]
        h, rows = a.h0, len(a.h0)
        walk = zip(
            order.walked(order.sizes),
            *map(order.along, (rz, rz[:, :hidden], rz[:, hidden:], n, recurrent_n, y)),
            strict=True,
        )
        for size, rz_t, r, z, n_t, q, y_t in walk:
            if size != rows:
                h, rows = enter(h, a.h0, size), size
            rz_t.addmm_(h, weight_rz).sigmoid_()
            if bias_n is None:
                torch.mm(h, weight_n, out=q)
            else:
                torch.addmm(bias_n, h, weight_n, out=q)
            n_t.addcmul_(r, q).tanh_()
            h = torch.lerp(n_t, h, z, out=y_t)
        return (y,), (rz, n, recurrent_n)

    def backward(self, a: Arguments, order: Order, clip: Clip, record: Record) -> Gradients:
        (y,), (rz, n, recurrent_n), (dy,) = record
        dh, h_before, hidden = StateGradient(order, own(dy, y), a.h0), order.before(y, a.h0), y.shape[1]
        dgates, weight = y.new_empty(len(y), 3 * hidden), a.weight_hh
        parts, by_gate = gate_parts(order, dgates, 3)
        slope_n = torch.empty_like(n)  # of h' with respect to the argument of n's tanh
        for block in order.blocks_back(3 * hidden):
            rows = slice(block.low, block.high)
            # The slopes are written where the gradients go and become them, step by step, in place.
            _slopes(h_before[rows], rz[rows], n[rows], recurrent_n[rows], slope_n[rows], dgates[rows])
            for step, z in rows_of(block, order, rz[rows, hidden:]):
                d, dgate = dh.steps[step], parts[step]
                by_gate[step].mul_(d[:, None])
                for place, some in dh.flow[step]:
                    if some is None:
                        place.addcmul_(d, z).addmm_(dgate, weight)
                    else:
                        place.addcmul_(d[some], z[some]).addmm_(dgate[some], weight)
        return _all_gradients(a, dgates, dh.total, slope_n, h_before, dh.start)


def _input_gates(a: Arguments, hidden: int) -> tuple[Tensor, Tensor]:
    """``x_r, x_z`` with both biases ``[N, 2H]``, and ``x_n`` with the input bias ``[N, H]``."""
    cut = 2 * hidden

    def part(rows: slice, bias: Tensor | None, copies: int) -> Tensor:
        weight = None if a.weight_ih is None else a.weight_ih[rows]
        return input_gates(a.x, weight, bias, copies)

    biases = [b for b in (a.bias_ih, a.bias_hh) if b is not None]
    rz_bias = sum(b[:cut] for b in biases) if biases else None
    n_bias = None if a.bias_ih is None else a.bias_ih[cut:]
    return part(slice(None, cut), rz_bias, 2), part(slice(cut, None), n_bias, 1)  # type: ignore[arg-type]  # sum's 0


def _slopes(
    h_before: Tensor, rz: Tensor, n: Tensor, recurrent_n: Tensor, slope_n: Tensor, dgates: Tensor
) -> None:
    """Fills *dgates* with ``dh'/d(gates)`` as the recurrent side sees them, and *slope_n* as the input side does."""
    hidden = n.shape[1]
    r, z = rz[:, :hidden], rz[:, hidden:]
    k_r, k_z, k_n = dgates.view(len(n), 3, hidden).unbind(1)
    torch.mul(1 - z, 1 - n * n, out=slope_n)
    torch.mul(slope_n, r, out=k_n)
    torch.mul(k_n * recurrent_n, 1 - r, out=k_r)
    torch.mul(h_before - n, z * (1 - z), out=k_z)


def _all_gradients(
    a: Arguments, dgates: Tensor, dh: Tensor, slope_n: Tensor, h_before: Tensor, dh0: Tensor
) -> Gradients:
    """The products; the input side sees n's gradient without the reset gate."""
    recurrent = recurrent_gradients(a, dgates, h_before)
    torch.mul(dh, slope_n, out=dgates[:, 2 * dh.shape[1] :])
    return gradients(a, dgates, h_before, dh0, recurrent)


GRU = _GRU()
