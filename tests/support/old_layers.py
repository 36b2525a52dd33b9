"""Oracles for the old layer style: random weights under torch's names, NumPy's recursion, ``torch.nn``.

The flat ``w`` is put together here by the published order, not by the package's own layout.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import numpy_rnn
import torch

from rnncompat import legacy

CELLS = {"relu": "rnn_relu", "tanh": "rnn_tanh", "lstm": "lstm", "gru": "gru"}
X, H, B, T = 3, 5, 7, 6
"""With 1, 2 and 4 pseudo-layers and 1, 3 and 4 gates pairwise different; skip input alone needs X == H."""


@dataclass(frozen=True)
class Layer:
    """Options of an old layer, with weights and states drawn for it."""

    kind: str
    layers: int = 1
    bidirectional: bool = False
    skip: bool = False
    named: dict = field(default_factory=dict, compare=False)

    def __post_init__(self):
        rng = np.random.default_rng(3)
        for k, suffix in enumerate(self.suffixes):
            first = k < self.directions
            rows = numpy_rnn.GATES[CELLS[self.kind]] * H
            inputs = self.inputs if first else self.directions * H
            if not (first and self.skip):
                self.named[f"weight_ih{suffix}"] = rng.normal(size=(rows, inputs)) / 2
            self.named[f"weight_hh{suffix}"] = rng.normal(size=(rows, H)) / 2
            self.named[f"bias_ih{suffix}"] = rng.normal(size=rows)
            self.named[f"bias_hh{suffix}"] = rng.normal(size=rows)

    def __str__(self):
        flags = ("bi" * self.bidirectional, "skip" * self.skip)
        return "-".join([self.kind, str(self.layers), *filter(None, flags)])

    @property
    def directions(self):
        return 1 + self.bidirectional

    @property
    def inputs(self):
        return H if self.skip else X

    @property
    def suffixes(self):
        return [f"_l{k}{d}" for k in range(self.layers) for d in ("", "_reverse")[: self.directions]]

    @property
    def flat(self):
        """All matrices by pseudo-layer, row-major, then all biases: section 4.2 of the specification."""
        order = [
            f"{kind}_{side}{suffix}"
            for kind in ("weight", "bias")
            for suffix in self.suffixes
            for side in ("ih", "hh")
        ]
        return np.concatenate([self.named[name].ravel() for name in order if name in self.named])

    @property
    def options(self):
        return {
            "bidirectional": self.bidirectional,
            "skipInput": self.skip,
            "numLayers": self.layers,
            "dtype": torch.float64,
        }

    def old(self, **options):
        """The old layer with these weights."""
        r = legacy.RNN(self.inputs, H, rnnType=self.kind, **self.options, **options)
        with torch.no_grad():
            r.w.copy_(torch.tensor(self.flat)[None, None])
        return r

    def data(self, *shape):
        """A random input ``(X, *shape)``."""
        return np.random.default_rng(4).normal(size=(self.inputs, *shape))

    def states(self, batch):
        """Random hx and cx ``(H, B, L*D)``; cx is None unless LSTM."""
        rng = np.random.default_rng(5)
        h, c = rng.normal(size=(2, H, batch, len(self.suffixes)))
        return h, c if self.kind == "lstm" else None

    def numpy(self, x, h=None, c=None, lengths=None):
        """y ``(H*D, B, T)``, h and c ``(H, B, L*D)`` of x ``(X, B, T)``, row by row."""
        net = numpy_rnn.Network(
            CELLS[self.kind], H, self.layers, self.directions, self.skip, None, self.named
        )
        steps = x.transpose(2, 1, 0)
        zeros = np.zeros((len(self.suffixes), steps.shape[1], H))
        h, c = (zeros if s is None else s.transpose(2, 1, 0) for s in (h, c))
        real = np.ones(steps.shape[:2], bool)
        if lengths is not None:
            real = np.arange(len(steps))[:, None] < np.asarray(lengths)
        y, h, c, *_ = numpy_rnn.run(net, steps, h, c, real, np.zeros_like(real), "zeros", 0.0)
        turned = [v.transpose(2, 1, 0) for v in (y, h, c)]
        return (*turned[:2], turned[2] if self.kind == "lstm" else None)

    def torch(self):
        """The ``torch.nn`` layer of these weights; skip input is an identity for each gate."""
        made = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(self.kind, torch.nn.RNN)
        extra = {"nonlinearity": self.kind} if made is torch.nn.RNN else {}
        module = made(self.inputs, H, self.layers, bidirectional=self.bidirectional, **extra).double()
        gates = numpy_rnn.GATES[CELLS[self.kind]]
        identity = np.concatenate([np.eye(H)] * gates)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(torch.tensor(self.named.get(name, identity)))
        return module

    def flat_gradient(self, module):
        """The gradients of a ``torch.nn`` layer in the order of :attr:`flat`."""
        gradients = {name: p.grad.numpy() for name, p in module.named_parameters() if name in self.named}
        return torch.tensor(Layer.flat.fget(_Named(self.suffixes, gradients)))


@dataclass
class _Named:
    suffixes: list
    named: dict


LAYERS = [
    Layer(kind, layers, both, skip)
    for kind, layers, both, skip in itertools.product(CELLS, (1, 2), (False, True), (False, True))
]


def columns(packed, sizes):
    """Packed columns ``(F, S)`` as a padded ``(F, B, T)``, by counting."""
    padded = np.zeros((packed.shape[0], sizes[0], len(sizes)))
    at = 0
    for t, size in enumerate(sizes):
        padded[:, :size, t] = packed[:, at : at + size]
        at += size
    return padded


def lengths_of(sizes):
    """The length of each row of a packed batch."""
    return [sum(size > b for size in sizes) for b in range(sizes[0])]
