"""K1: a tagger of sentences of any lengths on KnetLayers, with padding, a mask and the final states of both ways."""

import torch

from rnncompat.legacy.knetlayers import LSTM, PadRNNOutput, PadSequenceArray


class Tagger:
    def __init__(self, vocab, embed, hidden, tags):
        self.encoder = LSTM(input=vocab, hidden=hidden, embed=embed, bidirectional=True, dtype=torch.float64)
        self.tags = torch.randn(tags, 2 * hidden, dtype=torch.float64).requires_grad_()

    def __call__(self, sentences):
        """Lists of ids from 1 -> scores (tags, B, Tmax), the mask (B, Tmax), final states (2H, B)."""
        out = self.encoder(sentences, hy=True)
        final = finalstates(out.hidden)
        padded, mask = PadRNNOutput(out)
        if mask is None:
            mask = torch.ones_like(padded.y, dtype=torch.bool)
        return torch.tensordot(self.tags, padded.y, 1), mask[0], final

    def loss(self, sentences, tags):
        """tags: lists of numbers from 1; 0 is what padding holds."""
        scores, mask, _ = self(sentences)
        gold = PadSequenceArray(tags)
        logp = scores.log_softmax(0).gather(0, (gold - 1).clamp(min=0)[None])[0]
        return -logp[mask & (gold > 0)].mean()


def finalstates(hidden):
    return torch.cat([hidden[:, :, -2], hidden[:, :, -1]])
