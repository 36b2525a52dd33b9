"""P3: weights written straight into the descriptor's views, results taken by position."""

from rnncompat import legacy as CUDNN


def copyparams(d, Wi, Wh, b):
    d.weights[0].copy_(Wi.t())
    d.weights[1].copy_(Wh.t())
    d.bias.copy_(b)


def desc(mode, Wi, Wh, b):
    d = CUDNN.RNNDesc[Wi.dtype](mode, Wi.shape[1], Wh.shape[1])
    copyparams(d, Wi, Wh, b)
    return d


def step(d, x, h, c=None):
    """``(h[, c], y)``: the first result is y, the second h, the third c."""
    result = CUDNN.forward(d, x, h) if c is None else CUDNN.forward(d, x, h, c)
    y, h = result[0], result[1]
    return (h, y) if c is None else (h, result[2], y)


def step_train(d, x, h):
    reserve, result = CUDNN.forwardTrain(d, x, h)
    return reserve, result[0], result[1]


def gradients(d, x, h, y, reserve, dy, dho):
    dx, dh = CUDNN.backwardData(d, y, dy, dho, CUDNN.hBatch(x, h), reserve)
    (dWi, dWh), db = CUDNN.backwardWeights(d, x, CUDNN.hBatch(x, h), y, reserve)
    return dx, dh, dWi, dWh, db
