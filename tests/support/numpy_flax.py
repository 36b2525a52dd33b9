"""The cells of ``flax.linen`` in NumPy, on their own parameters, batch first."""

from __future__ import annotations

import numpy as np

LETTERS = {"lstm": "ifgo", "gru": "rzn", "rnn_tanh": "", "rnn_relu": ""}
BIASED = {"lstm": "hi hf hg ho", "gru": "ir iz in hn", "rnn_tanh": "i", "rnn_relu": "i"}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def dense(params, x):
    return x @ params["kernel"] + params.get("bias", 0)


def lstm(p, x, h, c):
    i = sigmoid(dense(p["ii"], x) + dense(p["hi"], h))
    f = sigmoid(dense(p["if"], x) + dense(p["hf"], h))
    g = np.tanh(dense(p["ig"], x) + dense(p["hg"], h))
    o = sigmoid(dense(p["io"], x) + dense(p["ho"], h))
    c = f * c + i * g
    return o * np.tanh(c), c


def gru(p, x, h, c):
    r = sigmoid(dense(p["ir"], x) + dense(p["hr"], h))
    z = sigmoid(dense(p["iz"], x) + dense(p["hz"], h))
    n = np.tanh(dense(p["in"], x) + r * dense(p["hn"], h))
    return (1 - z) * n + z * h, c


def simple(activation):
    return lambda p, x, h, c: (activation(dense(p["i"], x) + dense(p["h"], h)), c)


CELLS = {
    "lstm": lstm,
    "gru": gru,
    "rnn_tanh": simple(np.tanh),
    "rnn_relu": simple(lambda v: np.maximum(v, 0)),
}


def run(cell, params, x):
    """Outputs ``(B, T, H)``."""
    h = c = np.zeros(
        (len(x), params["hn" if cell == "gru" else "hi" if cell == "lstm" else "h"]["kernel"].shape[1])
    )
    ys = []
    for t in range(x.shape[1]):
        h, c = CELLS[cell](params, x[:, t], h, c)
        ys.append(h)
    return np.stack(ys, 1)


def chain(cell, layers, x):
    for one in layers:
        if isinstance(one, tuple):
            back = run(cell, one[1], x[:, ::-1])[:, ::-1]
            x = np.concatenate([run(cell, one[0], x), back], 2)
        else:
            x = run(cell, one, x)
    return x


def draw(cell, layers=1, *, both=False, inputs=3, units=5, seed=7):
    rng = np.random.default_rng(seed)

    def one(rows):
        found = {}
        for side, size in (("i", rows), ("h", units)):
            for gate in LETTERS[cell] or [""]:
                found[side + gate] = {"kernel": rng.normal(size=(size, units)) * 0.5}
                if side + gate in BIASED[cell].split():
                    found[side + gate]["bias"] = rng.normal(size=units)
        return found

    sizes = [inputs] + [units * (1 + both)] * (layers - 1)
    return [(one(rows), one(rows)) if both else one(rows) for rows in sizes]
