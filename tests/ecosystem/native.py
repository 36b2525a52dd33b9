"""The oracle of this folder: parameters of the same names, read anew at each call, and torch's own kernels."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from rnncompat.modules import GRU, LSTM, RNN

F64 = torch.float64
I, H, P = 2, 5, 3

NETWORKS = {
    "tanh": lambda **more: RNN(I, H, 2, dtype=F64, **more),
    "relu": lambda **more: RNN(I, H, nonlinearity="relu", bidirectional=True, dtype=F64, **more),
    "lstm": lambda **more: LSTM(I, H, 2, bidirectional=True, dtype=F64, **more),
    "projected": lambda **more: LSTM(I, H, 2, proj_size=P, dtype=F64, **more),
    "gru": lambda **more: GRU(I, H, 2, bidirectional=True, dtype=F64, **more),
}


class Native(nn.Module):
    """What a module of ours computes, by ``torch.lstm`` and its like: no buffer, no plan, one row at a time.

    ``torch.nn.LSTM`` itself would not do: it keeps a list of its weights, which parametrizations leave stale.
    """

    def __init__(self, module):
        super().__init__()
        for name, value in module.named_parameters():
            self.register_parameter(name, nn.Parameter(value.detach().clone()))
        self.names = list(self._parameters)
        self.kernel = getattr(torch, module.mode.lower())
        self.layers, self.directions = module.num_layers, 2 if module.bidirectional else 1
        self.sizes = [module.proj_size or H] + ([H] if module.mode == "LSTM" else [])
        self.dropout = module.dropout

    def forward(self, x, state=None, *, lengths=None):
        weights = [getattr(self, name) for name in self.names]
        if state is None:
            state = [x.new_zeros(self.layers * self.directions, x.shape[1], size) for size in self.sizes]
        elif torch.is_tensor(state):
            state = [state]
        if lengths is None:
            output, *after = self._run(x, state, weights)
        else:
            rows = [
                self._row(x[:, [b]], n, [s[:, [b]] for s in state], weights) for b, n in enumerate(lengths)
            ]
            output, *after = (torch.cat(parts, dim=1) for parts in zip(*rows, strict=True))
        return output, tuple(after) if len(after) == 2 else after[0]

    def _row(self, x, n, state, weights):
        if n == 0:
            return [x.new_zeros(len(x), 1, self.directions * self.sizes[0]), *state]
        output, *after = self._run(x[:n], state, weights)
        return [F.pad(output, (0, 0, 0, 0, 0, len(x) - n)), *after]

    def _run(self, x, state, weights):
        hx = state if len(state) == 2 else state[0]
        return self.kernel(
            x, hx, weights, True, self.layers, self.dropout, self.training, self.directions == 2, False
        )


class Model(nn.Module):
    """A recurrent network in the middle of a model, as users have it: every output and state counts."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn
        self.head = nn.Linear(rnn_width(rnn), 1, dtype=F64)

    def forward(self, x, **options):
        output, state = self.rnn(x, **options)
        scores = self.head(output).squeeze(-1).tanh()
        rows = torch.linspace(0.5, 1.5, len(scores), dtype=F64) @ scores  # [B]
        for values in state if isinstance(state, tuple) else (state,):
            rows = rows + (values * torch.linspace(1.0, 2.0, values.shape[-1], dtype=F64)).sum((0, 2))
        return rows


def rnn_width(rnn):
    """D * (P or H)"""
    return rnn.directions * rnn.sizes[0] if isinstance(rnn, Native) else rnn.descriptor.output_size


def twins(module):
    """*module* in a :class:`Model`, and the oracle in one of the same weights."""
    ours, expected = Model(module), Model(Native(module))
    expected.head.load_state_dict(ours.head.state_dict())
    return ours, expected


def parameters(model):
    """The parameters by name, detached."""
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def gradients(model):
    """The gradients by name."""
    return {name: value.grad for name, value in model.named_parameters()}
