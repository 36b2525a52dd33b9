"""``RNNDesc``: its buffer put together by the published order, its step in NumPy, and the old interface itself."""

from __future__ import annotations

import numpy as np
import numpy_step
import pytest
import torch
from cases import BIASES, CELLS
from compare import assert_bitwise, assert_same

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    legacy,
    rnn_step,
)
from rnncompat.convert.rnndesc import from_rnndesc, to_rnndesc
from rnncompat.state import RNNState

I, H, B = 3, 5, 4
MODES = {"rnn_relu": "relu", "rnn_tanh": "tanh", "lstm": "lstm", "gru": "gru"}
SIZES = {"rnn_relu": 50, "rnn_tanh": 50, "lstm": 200, "gru": 150}


class Old:
    """Random weights as ``setweights!`` took them, and one step of them."""

    def __init__(self, cell):
        rng = np.random.default_rng(1)
        rows = {"lstm": 4, "gru": 3}.get(cell, 1) * H
        self.cell, self.mode = cell, MODES[cell]
        self.wi, self.wh, self.b = (
            rng.normal(size=(rows, I)),
            rng.normal(size=(rows, H)),
            rng.normal(size=rows),
        )
        self.x, self.h = rng.normal(size=(I, B)), rng.normal(size=(H, B))
        self.c = rng.normal(size=(H, B)) if cell == "lstm" else None

    @property
    def params(self):
        return np.concatenate([self.wi.ravel(), self.wh.ravel(), self.b, np.zeros_like(self.b)])

    @property
    def sizes(self):
        return {"cell": self.cell, "input_size": I, "hidden_size": H}

    def numpy(self):
        y, c = numpy_step.forward(self.mode, self.wi, self.wh, self.b, self.x, self.h, self.c)
        return y, c

    def ours(self, descriptor, weights):
        state = RNNState(*(None if s is None else torch.tensor(s.T[None]) for s in (self.h, self.c)))
        y, state = rnn_step(descriptor, weights, torch.tensor(self.x.T), state)
        return y.T, None if state.c is None else state.c[0].T


@pytest.fixture(params=CELLS)
def old(request):
    return Old(request.param)


def test_the_step_is_the_old_one(old):
    descriptor, weights, done = from_rnndesc(old.params, **old.sizes)
    assert (descriptor, done) == (RNNDescriptor(**old.sizes), ())
    assert_same(old.numpy(), old.ours(descriptor, weights))
    assert_bitwise(old.params, to_rnndesc(descriptor, weights).arrays)


def test_the_buffer_of_the_old_interface_itself(old):
    with legacy.legacy_warnings("quiet"):
        name = {"relu": "RNN_RELU", "tanh": "RNN_TANH"}.get(old.mode, old.mode.upper())
        mode = getattr(legacy, f"CUDNN_{name}")
        desc = legacy.RNNDesc[torch.float64](mode, I, H)
        legacy.setweights(desc, *(torch.tensor(array) for array in (old.wi, old.wh, old.b)))
        given = [torch.tensor(array) for array in (old.x, old.h, old.c) if array is not None]
        y, _, *c = legacy.forward(desc, *given)
    descriptor, weights, _ = from_rnndesc(desc.params, **old.sizes)
    assert_same((y, c[0] if c else None), old.ours(descriptor, weights))
    assert_bitwise(desc.params, to_rnndesc(descriptor, weights).arrays)


def test_a_program_that_wrote_the_second_bias_is_read_too(old):
    params = old.params
    params[-len(old.b) :] = np.arange(len(old.b)) / 7
    weights = from_rnndesc(params, **old.sizes).weights
    assert_bitwise(params[-len(old.b) :], weights["bias_hh_l0"])


@pytest.mark.parametrize("bias", BIASES)
def test_every_bias_mode_goes_out(old, bias):
    descriptor = RNNDescriptor(**old.sizes, bias=bias)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    arrays, done = to_rnndesc(descriptor, weights)
    added = {"double": (), "input": ("bias_hh",), "recurrent": ("bias_ih",), "none": ("bias_ih", "bias_hh")}
    assert done == tuple([f"added {' and '.join(added[bias])} of zeros"] if added[bias] else [])
    assert arrays.numel() == SIZES[old.cell]
    again = from_rnndesc(arrays, **old.sizes)
    assert_same(old.ours(descriptor, weights), old.ours(again.descriptor, again.weights))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_layers": 2}, "num_layers is 2, but an RNNDesc has only one layer"),
        ({"bidirectional": True}, "bidirectional is True, but an RNNDesc has only one direction"),
        ({"input_size": H, "input_mode": "skip"}, "input_mode is 'skip', but an RNNDesc has no skip input"),
        ({"proj_size": 2}, "proj_size is 2, but an RNNDesc has no projection"),
        ({"cell_clip": (-1, 1)}, "cell_clip is .*, but an RNNDesc has no clipping of c"),
    ],
)
def test_what_it_lacks_is_refused(options, text):
    descriptor = RNNDescriptor(**{"cell": "lstm", "input_size": I, "hidden_size": H, **options})
    with pytest.raises(UnsupportedError, match=text):
        to_rnndesc(descriptor, RNNWeights.init(descriptor))


def test_another_size_or_kind_is_refused():
    with pytest.raises(
        InvalidValueError, match=r"params is of shape \[41\]; expected shape \[42\], G\*H\*\(I \+ H"
    ):
        from_rnndesc(torch.zeros(41), cell="gru", input_size=3, hidden_size=2)
    with pytest.raises(InvalidTypeError, match="params has dtype"):
        from_rnndesc([1] * 42, cell="gru", input_size=3, hidden_size=2)


def test_dropout_is_not_in_the_buffer():
    with pytest.warns(UserWarning, match="num_layers is 1"):
        descriptor = RNNDescriptor("gru", I, H, dropout=0.5)
    _, done = to_rnndesc(descriptor, RNNWeights.init(descriptor))
    assert done == ("left out dropout=0.5, which is not in the arrays",)
