"""One old step in NumPy, forward and backward by hand: features first, ``Wi`` (G*H, I), one input-side bias.

Written from the formulas of the old interface; nothing of the package, nor torch, is used.
"""

from __future__ import annotations

import numpy as np


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def forward(mode, wi, wh, b, x, h, c=None):
    """``(y, co)`` for x ``(I, B)``, h and c ``(H, B)``; mode is "relu", "tanh", "lstm" or "gru"."""
    return _forward(mode, wi, wh, b, x, h, c)[:2]


def _forward(mode, wi, wh, b, x, h, c):
    n = h.shape[0]
    a, r = wi @ x + b[:, None], wh @ h
    if mode == "relu":
        return np.maximum(0, a + r), None, None
    if mode == "tanh":
        return np.tanh(a + r), None, None
    if mode == "gru":
        reset, z = sigmoid(a[:n] + r[:n]), sigmoid(a[n : 2 * n] + r[n : 2 * n])
        new = np.tanh(a[2 * n :] + reset * r[2 * n :])
        return (1 - z) * new + z * h, None, (reset, z, new, r[2 * n :])
    gates = a + r
    i, f, o = sigmoid(gates[:n]), sigmoid(gates[n : 2 * n]), sigmoid(gates[3 * n :])
    g = np.tanh(gates[2 * n : 3 * n])
    old = np.zeros_like(h) if c is None else c
    co = f * old + i * g
    return o * np.tanh(co), co, (i, f, g, o, old)


def backward(mode, wi, wh, b, x, h, c, dy, dho, dco=0.0):
    """Gradients ``x, h, c, Wi, Wh, b``: of the expanded state, and of the weights as ``(I, G*H)``, ``(H, G*H)``."""
    y, co, kept = _forward(mode, wi, wh, b, x, h, c)
    dh_out, n = dy + dho, h.shape[0]
    dh, dc = np.zeros_like(h), None
    if mode in ("relu", "tanh"):
        da = dh_out * ((y > 0) if mode == "relu" else 1 - y * y)
        dr = da
    elif mode == "gru":
        reset, z, new, recurrent = kept
        dn = dh_out * (1 - z) * (1 - new * new)
        dz = dh_out * (h - new) * z * (1 - z)
        d_reset = dn * recurrent * reset * (1 - reset)
        da = np.concatenate([d_reset, dz, dn])
        dr = np.concatenate([d_reset, dz, dn * reset])
        dh = dh_out * z
    else:
        i, f, g, o, old = kept
        t = np.tanh(co)
        dct = dco + dh_out * o * (1 - t * t)
        da = np.concatenate(
            [dct * g * i * (1 - i), dct * old * f * (1 - f), dct * i * (1 - g * g), dh_out * t * o * (1 - o)]
        )
        dr, dc = da, dct * f
    assert da.shape[0] == len(wi) == dr.shape[0]
    assert n == dh.shape[0]
    return {
        "x": wi.T @ da,
        "h": dh + wh.T @ dr,
        "c": dc,
        "Wi": x @ da.T,
        "Wh": h @ dr.T,
        "b": da.sum(1),
    }


def through_time(mode, wi, wh, b, xs, h, c, dys):
    """A sequence of steps from a vector state that the batch shares, and its gradients.

    Args:
        xs: T steps ``(I, B)``.
        h, c: ``(H,)``; c None but for an LSTM.
        dys: T gradients ``(H, B)`` of the outputs.

    Returns:
        Outputs; last c; gradients ``Wi, Wh, b`` in the shapes of the weights; dh ``(H,)``; dc; dxs.
    """
    batch = xs[0].shape[1]
    hs, cs = ([None if s is None else np.repeat(s[:, None], batch, 1)] for s in (h, c))
    for x in xs:
        h_new, c_new = forward(mode, wi, wh, b, x, hs[-1], cs[-1])
        hs.append(h_new)
        cs.append(c_new)
    total = {"Wi": 0, "Wh": 0, "b": 0}
    dh, dc, dxs = 0.0, 0.0, []
    for t in reversed(range(len(xs))):
        g = backward(mode, wi, wh, b, xs[t], hs[t], cs[t], dys[t], dh, dc)
        dh, dc = g["h"], 0.0 if c is None else g["c"]
        dxs.insert(0, g["x"])
        total = {"Wi": total["Wi"] + g["Wi"].T, "Wh": total["Wh"] + g["Wh"].T, "b": total["b"] + g["b"]}
    return hs[1:], cs[-1], total, dh.sum(1), None if c is None else dc.sum(1), dxs
