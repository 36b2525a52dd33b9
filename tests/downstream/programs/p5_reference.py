"""P5: the early check of a descriptor against a plain recursion over its own views."""

import torch

from rnncompat import legacy as CUDNN
from rnncompat.legacy import flux09 as CUDA


def gate(v, n, hidden):
    return v[n * hidden : (n + 1) * hidden]


def reference(r, x, h, c=None):
    Wx, Wh = r.weights
    v = Wx.t() @ x + Wh.t() @ h + r.bias
    if r.mode == CUDNN.CUDNN_RNN_RELU:
        return v.clamp(min=0)
    if r.mode == CUDNN.CUDNN_RNN_TANH:
        return v.tanh()
    if r.mode == CUDNN.CUDNN_LSTM:
        i, f, g, o = (gate(v, n, r.hidden) for n in range(4))
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh()
    vx, vh = Wx.t() @ x + r.bias, Wh.t() @ h
    reset, z = (gate(vx + vh, n, r.hidden).sigmoid() for n in range(2))
    new = (gate(vx, 2, r.hidden) + reset * gate(vh, 2, r.hidden)).tanh()
    return (1 - z) * new + z * h


def check(mode):
    r = CUDNN.RNNDesc[torch.float32](mode, 10, 5)
    r.weights[0].uniform_(-0.5, 0.5)
    r.weights[1].uniform_(-0.5, 0.5)
    r.bias.uniform_(-0.5, 0.5)
    x, h, c = torch.rand(10), torch.rand(5), torch.rand(5)
    state = (h, c) if mode == CUDNN.CUDNN_LSTM else (h,)
    return reference(r, x, *state), CUDNN.forward(r, x, *state)[0], r


def check_as_of_2018():
    """The same in the spelling of that year."""
    r = CUDA.RNNDesc[torch.float32](CUDA.RNN_RELU, 10, 5)
    for weights in (*r.weights, r.bias):
        weights.uniform_(-0.5, 0.5)
    x, h = torch.rand(10, 3), torch.zeros(5)
    Wx, _ = r.weights
    return (Wx.t() @ x + r.bias[:, None]).clamp(min=0), CUDA.forwardInference(r, x, h)[0]
