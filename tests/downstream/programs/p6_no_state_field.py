"""P6: cells without a field for the initial state: the hidden size comes from the bias."""

from rnncompat import legacy as CUDNN


class GRUCell:
    def __init__(self, Wi, Wh, b):
        self.Wi, self.Wh, self.b = Wi, Wh, b


class LSTMCell(GRUCell):
    pass


MODES = {GRUCell: CUDNN.CUDNN_GRU, LSTMCell: CUDNN.CUDNN_LSTM}


def desc(cell):
    mode = MODES[type(cell)]
    d = CUDNN.RNNDesc(mode, cell.Wi.shape[1], len(cell.b) // CUDNN.ngates(mode), dtype=cell.Wi.dtype)
    CUDNN.setweights(d, cell.Wi, cell.Wh, cell.b)
    return d


def call(cell, state, x):
    y, *after = CUDNN.forward(desc(cell), x, *state)
    return after, y
