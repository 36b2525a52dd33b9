"""P2: the adjoint written with forwardTrain and the two backward calls, as in the autumn of 2019."""

from rnncompat import legacy as CUDNN


def rnn_adjoint(d, x, h):
    reserve, (y, ho) = CUDNN.forwardTrain(d, x, h)

    def back(dho, dy):
        h_ = CUDNN.hBatch(x, h)
        dx, dh = CUDNN.backwardData(d, y, dy, dho, h_, reserve)
        (dWi, dWh), db = CUDNN.backwardWeights(d, x, h_, y, reserve)
        return {"x": dx, "h": dh, "Wi": dWi.t(), "Wh": dWh.t(), "b": db}

    return (ho, y), back


def lstm_adjoint(d, x, h, c):
    reserve, (y, ho, co) = CUDNN.forwardTrain(d, x, h, c)

    def back(dho, dco, dy):
        h_, c_ = CUDNN.hBatch(x, h), CUDNN.hBatch(x, c)
        dx, dh, dc = CUDNN.backwardData(d, y, dy, dho, dco, h_, c_, reserve)
        (dWi, dWh), db = CUDNN.backwardWeights(d, x, h_, y, reserve)
        return {"x": dx, "h": dh, "c": dc, "Wi": dWi.t(), "Wh": dWh.t(), "b": db}

    return ((ho, co), y), back
