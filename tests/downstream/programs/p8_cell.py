"""P8: the module that makes the cells whose descriptors are looked up."""

from rnncompat.legacy import GRUCell, LSTMCell, RNNCell


def make(kind):
    if kind == "RNNCell":
        return RNNCell(10, 5)
    return LSTMCell(10, 5) if kind == "LSTMCell" else GRUCell(10, 5)
