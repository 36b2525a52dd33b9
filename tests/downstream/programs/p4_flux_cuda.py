"""P4: the recurrent layers of 2018 and 2019, which held the old interface themselves.

Constants without a prefix, modes as whole numbers, ``copyparams!`` before each call, the two backward halves.
"""

import torch

from rnncompat.legacy import flux09 as CUDA

MODES = {"relu": CUDA.RNN_RELU, "tanh": CUDA.RNN_TANH, "lstm": CUDA.LSTM, "gru": CUDA.GRU}


class Cell:
    def __init__(self, Wi, Wh, b):
        self.Wi, self.Wh, self.b = Wi, Wh, b


def desc(mode, cell):
    hidden = cell.b.shape[0] // CUDA.ngates(mode)
    d = CUDA.RNNDesc[cell.Wi.dtype](int(mode), cell.Wi.shape[1], hidden)
    CUDA.copyparams_b(cell, d)
    return d


def call(mode, cell, x, h, c=None):
    """One step and the function that gives its gradients."""
    d = desc(MODES[mode], cell)
    state = (h,) if c is None else (h, c)
    reserve, result = CUDA.forwardTrain(d, x, *state)
    y, ho = result[0], result[1]

    def back(dy, dho, dco=None):
        h_ = CUDA.hBatch(x, h)
        if c is None:
            dx, dh = CUDA.backwardData(d, y, dy, dho, h_, reserve)
            (dWi, dWh), db = CUDA.backwardWeights(d, x, h_, y, reserve)
            rest = {}
        else:
            dx, dh, dc = CUDA.backwardData(d, y, dy, dho, dco, h_, CUDA.hBatch(x, c), reserve)
            (dWi, dWh), db = CUDA.backwardWeights(d, x, h_, y, reserve)
            rest = {"c": dc}
        return {"x": dx, "h": dh, "Wi": dWi, "Wh": dWh, "b": db, **rest}

    assert torch.equal(y, ho)
    return result, CUDA.forwardInference(d, x, *state), back
