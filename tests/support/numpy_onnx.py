"""ONNX's LSTM, GRU and RNN in NumPy, from the equations of its operators, on its own arrays.

A node is plain data: ``op_type``, ``W`` ``[D, G*H, I]``, ``R`` ``[D, G*H, H]``, ``B`` ``[D, 2*G*H]`` or None, and the
``attributes`` by name. Nothing of the package is used, nor torch.
"""

from __future__ import annotations

import numpy as np


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


ACTIVATIONS = {"Sigmoid": sigmoid, "Tanh": np.tanh, "Relu": lambda v: np.maximum(0, v)}
DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def lstm(functions, attributes, w, r, wb, rb, x, h, c):
    f, g, last = functions
    (wi, wo, wf, wc), (ri, ro, rf, rc) = np.split(w, 4), np.split(r, 4)
    (wbi, wbo, wbf, wbc), (rbi, rbo, rbf, rbc) = np.split(wb, 4), np.split(rb, 4)
    it = f(x @ wi.T + h @ ri.T + wbi + rbi)
    ft = f(x @ wf.T + h @ rf.T + wbf + rbf)
    ct = g(x @ wc.T + h @ rc.T + wbc + rbc)
    ct = ft * c + it * ct
    ot = f(x @ wo.T + h @ ro.T + wbo + rbo)
    return ot * last(ct), ct


def gru(functions, attributes, w, r, wb, rb, x, h, c):
    f, g = functions
    (wz, wr, wh), (rz, rr, rh) = np.split(w, 3), np.split(r, 3)
    (wbz, wbr, wbh), (rbz, rbr, rbh) = np.split(wb, 3), np.split(rb, 3)
    zt = f(x @ wz.T + h @ rz.T + wbz + rbz)
    rt = f(x @ wr.T + h @ rr.T + wbr + rbr)
    if attributes.get("linear_before_reset", 0):
        ht = g(x @ wh.T + rt * (h @ rh.T + rbh) + wbh)
    else:
        ht = g(x @ wh.T + (rt * h) @ rh.T + rbh + wbh)
    return (1 - zt) * ht + zt * h, c


def rnn(functions, attributes, w, r, wb, rb, x, h, c):
    (f,) = functions
    return f(x @ w.T + h @ r.T + wb + rb), c


STEPS = {"LSTM": lstm, "GRU": gru, "RNN": rnn}


def run_node(node, x, lengths=None, initial_h=None, initial_c=None):
    """Y ``[T, D, B, H]``, Y_h and Y_c ``[D, B, H]`` for X ``[T, B, I]``; zeros in Y past a row's length."""
    attributes, (directions, _, hidden) = node.get("attributes", {}), node["R"].shape
    steps, batch = x.shape[:2]
    named = attributes.get("activations", DEFAULTS[node["op_type"]] * directions)
    each = len(named) // directions
    y = np.zeros((steps, directions, batch, hidden), x.dtype)
    last_h, last_c = (
        np.zeros((directions, batch, hidden), x.dtype) if given is None else np.array(given)
        for given in (initial_h, initial_c)
    )
    for d in range(directions):
        functions = [ACTIVATIONS[name] for name in named[d * each : (d + 1) * each]]
        w, r = node["W"][d], node["R"][d]
        wb, rb = np.split(np.zeros(2 * len(w)) if node.get("B") is None else node["B"][d], 2)
        for row in range(batch):
            real = range(steps if lengths is None else lengths[row])
            h, c = last_h[d, row], last_c[d, row]
            for t in real if d == 0 else reversed(real):
                h, c = STEPS[node["op_type"]](functions, attributes, w, r, wb, rb, x[t, row], h, c)
                y[t, d, row] = h
            last_h[d, row], last_c[d, row] = h, c
    return y, last_h, last_c


def run_nodes(nodes, x, lengths=None, states=None):
    """Output ``[T, B, D*H]`` of nodes that follow each other, and their last h and c along the first axis."""
    finals = []
    for number, node in enumerate(nodes):
        y, *final = run_node(node, x, lengths, *(states[number] if states else ()))
        x = y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
        finals.append(final)
    return x, *(np.concatenate(parts) for parts in zip(*finals, strict=True))
