"""P7: a user's training script: ``Chain(LSTM(…), Dense(…))``, ``m.(xs)``, ``reset!``."""

import torch

from rnncompat.legacy.flux import GRU, LSTM, Chain, RNNDesc, reset


class Dense(torch.nn.Module):
    """``W * x .+ b``, features first."""

    def __init__(self, in_, out, f=lambda v: v):
        super().__init__()
        self.W = torch.nn.Parameter(torch.randn(out, in_) * 0.3)
        self.b = torch.nn.Parameter(torch.zeros(out))
        self.f = f

    def forward(self, x):
        return self.f(torch.tensordot(self.W, x, 1) + self.b.view(-1, *[1] * (x.dim() - 1)))


def model():
    return Chain(LSTM(16, 8), GRU(8, 6), Dense(6, 2), lambda y: y)


def sizes_of_the_state(m, x):
    before = m[0].state[0].shape
    m(x)
    after = m[0].state[0].shape
    reset(m)
    return before, after, m[0].state[0].shape


def loss(m, xs, ys):
    reset(m)
    outputs = [m(x) for x in xs]
    return sum(((o - y) ** 2).mean() for o, y in zip(outputs, ys))


def train(m, xs, ys, steps=30):
    optimizer = torch.optim.Adam(m.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(m, xs, ys)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def desc_of_a_recur():
    return RNNDesc(LSTM(16, 8))
