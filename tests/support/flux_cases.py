"""Cells of the cell style with random weights and data, and what NumPy says of them."""

from __future__ import annotations

import numpy as np
import numpy_step
import torch

from rnncompat import legacy

MODES = ["relu", "tanh", "lstm", "gru"]
I, H, B, T = 3, 5, 4, 7


def make_cell(mode):
    with legacy.legacy_warnings("quiet"):
        made = {
            "relu": lambda: legacy.RNNCell(I, H, torch.relu),
            "tanh": lambda: legacy.RNNCell(I, H),
            "lstm": lambda: legacy.LSTMCell(I, H),
            "gru": lambda: legacy.GRUCell(I, H),
        }[mode]()
    return made.double()


class Case:
    """A cell with random weights and initial state, data for it, and both as NumPy arrays."""

    def __init__(self, mode, seed=0):
        rng = np.random.default_rng(seed)
        self.mode, self.cell = mode, make_cell(mode)
        with torch.no_grad():
            for parameter in self.cell.parameters():
                parameter.copy_(torch.tensor(rng.normal(size=parameter.shape)))
        self.weights = [w.detach().numpy() for w in (self.cell.Wi, self.cell.Wh, self.cell.b)]
        self.h = self.cell.h.detach().numpy()
        self.c = self.cell.c.detach().numpy() if mode == "lstm" else None
        self.xs, self.dys = rng.normal(size=(T, I, B)), rng.normal(size=(T, H, B))

    @property
    def names(self):
        return ["Wi", "Wh", "b", "h", "c"][: 5 if self.mode == "lstm" else 4]

    def numpy(self):
        ys, c, dweights, dh, dc, dxs = numpy_step.through_time(
            self.mode, *self.weights, self.xs, self.h, self.c, self.dys
        )
        gradients = [*dweights.values(), dh, dc][: len(self.names)]
        return ys, ys[-1] if c is None else (ys[-1], c), gradients, dxs

    def recur(self):
        with legacy.legacy_warnings("quiet"):
            return legacy.Recur(self.cell)

    def gradients(self, ys, xs):
        """Of the outputs times dys, for the parameters and for the inputs."""
        wanted = [getattr(self.cell, name) for name in self.names]
        cotangents = [torch.tensor(dy) for dy in self.dys]
        result = torch.autograd.grad(list(ys), [*wanted, *xs], cotangents)
        return list(result[: len(wanted)]), list(result[len(wanted) :])
