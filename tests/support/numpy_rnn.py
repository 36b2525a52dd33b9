"""An independent oracle: every row alone, one real step at a time, in NumPy, written from the equations.

Nothing of the package is used, nor torch. It is slow and plain on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


@dataclass
class Network:
    """Sizes and options, and the weights under torch's names."""

    cell: str
    hidden: int
    layers: int
    directions: int
    skip: bool
    clip: tuple[float, float] | None
    weights: dict[str, np.ndarray]


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def step(net, suffix, x, h, c, skip):
    """One step of one pseudo-layer for one row: 1-D in, 1-D out."""
    w, n = net.weights, net.hidden
    zeros = np.zeros(GATES[net.cell] * n)
    from_x = np.concatenate([x] * GATES[net.cell]) if skip else w["weight_ih" + suffix] @ x
    a = from_x + w.get("bias_ih" + suffix, zeros)
    b = w["weight_hh" + suffix] @ h + w.get("bias_hh" + suffix, zeros)
    low, high = net.clip or (-np.inf, np.inf)
    if net.cell == "rnn_relu":
        return np.maximum(0, a + b), c
    if net.cell == "rnn_tanh":
        return np.tanh(a + b), c
    if net.cell == "gru":
        r = sigmoid(a[:n] + b[:n])
        z = sigmoid(a[n : 2 * n] + b[n : 2 * n])
        new = np.tanh(a[2 * n :] + r * b[2 * n :])
        return (1 - z) * new + z * h, c
    i, f, g, o = (a + b)[:n], (a + b)[n : 2 * n], (a + b)[2 * n : 3 * n], (a + b)[3 * n :]
    c = sigmoid(f) * np.clip(c, low, high) + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(np.clip(c, low, high))
    if "weight_hr" + suffix in w:
        h = w["weight_hr" + suffix] @ h
    return h, c


def run(net, x, h0, c0, real, resets, reset_to, padding):
    """Whole batch: output ``[T, B, D*P]`` and the states ``[T, L*D, B, ·]`` after every step, and the last ones.

    ``real`` and ``resets`` are ``[T, B]`` booleans; h0 ``[L*D, B, P]``, c0 ``[L*D, B, H]``.
    """
    steps, batch = x.shape[:2]
    out = np.full((steps, batch, net.directions * h0.shape[-1]), padding)
    all_h = np.zeros((steps, *h0.shape))
    all_c = np.zeros((steps, *c0.shape))
    last_h, last_c = h0.copy(), c0.copy()
    for b in range(batch):
        times = [t for t in range(steps) if real[t, b]]
        starts = new_episodes(times, resets[:, b])
        rows = [x[t, b] for t in times]
        for layer in range(net.layers):
            outputs = []
            for d in range(net.directions):
                k = layer * net.directions + d
                suffix = f"_l{layer}" + ("_reverse" if d else "")
                skip = net.skip and layer == 0
                states = run_row(net, suffix, rows, h0[k, b], c0[k, b], starts, reset_to, d, skip)
                outputs.append([h for h, _ in states])
                fill_states(all_h, all_c, k, b, times, states, h0[k, b], c0[k, b], d)
                if states:
                    last_h[k, b], last_c[k, b] = states[0 if d else -1]
            rows = [np.concatenate(parts) for parts in zip(*outputs, strict=True)]
        for t, row in zip(times, rows, strict=True):
            out[t, b] = row
    return out, last_h, last_c, all_h, all_c


def new_episodes(times, resets):
    """For each real step, whether a reset lies after the previous real step and up to this one."""
    previous = [-1, *times][: len(times)]
    return [bool(resets[p + 1 : t + 1].any()) for p, t in zip(previous, times, strict=True)]


def run_row(net, suffix, rows, h0, c0, starts, reset_to, direction, skip):
    """States after each real step of one row, in time order."""
    fresh = (h0, c0) if reset_to == "initial" else (np.zeros_like(h0), np.zeros_like(c0))
    h, c = h0, c0
    states = [None] * len(rows)
    order = range(len(rows) - 1, -1, -1) if direction else range(len(rows))
    for i in order:
        boundary = i + 1 if direction else i
        if boundary < len(rows) and starts[boundary]:
            h, c = fresh
        h, c = step(net, suffix, rows[i], h, c, skip)
        states[i] = (h, c)
    return states


def fill_states(all_h, all_c, k, b, times, states, h0, c0, direction):
    """Writes the state after each step, carried over the steps that are not real."""
    h, c = h0, c0
    by_time = dict(zip(times, states, strict=True))
    order = range(len(all_h) - 1, -1, -1) if direction else range(len(all_h))
    for t in order:
        h, c = by_time.get(t, (h, c))
        all_h[t, k, b], all_c[t, k, b] = h, c
