"""K1: a character model in the layer style, as tutorials of 2019 and 2020 had it.

The text is read in chunks; the layer carries its state from one to the next, cut from the graph in
between; weights are looked at gate by gate; a pass without gradients leaves dropout out.
"""

import torch

from rnncompat.legacy.knet import RNN, rnnparam, rnnparams


class CharLM:
    def __init__(self, vocab, embed, hidden, **options):
        self.input = torch.randn(embed, vocab, dtype=torch.float64).requires_grad_()
        self.rnn = RNN(embed, hidden, dtype=torch.float64, **options)
        self.output = torch.randn(vocab, hidden, dtype=torch.float64).requires_grad_()

    def __call__(self, ids):
        """ids (B, T), from 0 -> scores (V, B, T)."""
        hidden = self.rnn(self.input[:, ids])  # (H, B, T)
        return torch.tensordot(self.output, hidden, 1)

    def loss(self, ids, next_ids):
        return torch.nn.functional.cross_entropy(self(ids).transpose(0, 1), next_ids)

    def params(self):
        return [self.input, self.rnn.w, self.output]


def train(model, chunks, lr):
    """Truncated backpropagation over chunks [(ids, next_ids)]; returns the losses."""
    model.rnn.h = model.rnn.c = 0
    losses = []
    for ids, next_ids in chunks:
        loss = model.loss(ids, next_ids)
        grads = torch.autograd.grad(loss, model.params())
        with torch.no_grad():
            for p, g in zip(model.params(), grads):
                p.sub_(lr * g)
        losses.append(loss.item())
        model.rnn.h = model.rnn.h.detach()
        if model.rnn.mode == 2:
            model.rnn.c = model.rnn.c.detach()
    return losses


def evaluate(model, chunks):
    model.rnn.h = model.rnn.c = 0
    with torch.no_grad():
        return [model.loss(*chunk).item() for chunk in chunks]


def forget_biases(rnn):
    return [rnnparam(rnn, 1, i, 2) for i in (2, 6)]


def matrix_norm(rnn):
    """What weight decay adds: biases are left alone."""
    return sum((w**2).sum() for w in rnnparams(rnn) if w is not None and w.dim() == 2)
