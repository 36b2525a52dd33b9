"""P9: a program of the newer upstream call, ``cudnnRNNForward(w, x; hx, hiddenSize, inputSize, cellMode, biasMode)``.

That call never lived in rnncompat.legacy: it is ``rnn_forward``. Its weights were one plain matrix ``[Wi Wh b]``
of the shape (H, I+H+1), column after column, which cuDNN reads in an order of its own.
"""

import torch

import rnncompat


def hcat(Wi, Wh, b):
    return torch.cat([Wi, Wh, b[:, None]], 1)


def run(w, xs, state, hidden):
    """Chunks of a sequence (I, B, T), features first; each starts from the last output of the one before."""
    inputs = xs[0].shape[0]
    descriptor = rnncompat.RNNDescriptor("rnn_tanh", inputs, hidden, bias="input")
    weights = rnncompat.RNNWeights(descriptor, w.t().reshape(-1))  # column after column
    ys = []
    for x in xs:
        y, _ = rnncompat.rnn_forward(descriptor, weights, x.permute(2, 1, 0), state.t()[None])
        y = y.permute(2, 1, 0)
        state = y[:, :, -1]
        ys.append(y)
    return ys
