"""RNNDesc as an object: sizes, copies, subclasses, and the names around it."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from compare import assert_bitwise, assert_same

import rnncompat
from rnncompat import Cell, InvalidValueError, UnsupportedError, legacy

SIZES = {0: 14, 1: 14, 2: 56, 3: 42}


@pytest.mark.parametrize("mode", range(4))
def test_modes_sizes_and_gates(mode):
    rnn = legacy.RNNDesc(mode, 3, 2)
    assert rnn.mode is legacy.cudnnRNNMode_t(mode)
    assert (rnn.input, rnn.hidden) == (3, 2)
    assert not rnn.params.any()
    assert len(rnn.params) == SIZES[mode] == legacy.rnnParamSize(torch.float32, rnn, 3)
    assert legacy.rnnParamSize(torch.float32, rnn, 4) == SIZES[mode] + 2 * legacy.ngates(mode)
    assert legacy.ngates(rnn) == legacy.ngates(mode) == [1, 1, 4, 3][mode]
    assert legacy.cudnnRNNMode_t(mode).cell.value == ["rnn_relu", "rnn_tanh", "lstm", "gru"][mode]
    assert rnn.descriptor.cell is list(Cell)[mode]


def test_wrong_modes_and_sizes():
    for bad in (4, -1, "LSTM"):
        with pytest.raises(InvalidValueError, match="mode is"):
            legacy.RNNDesc(bad, 3, 2)
    with pytest.raises(InvalidValueError, match="mode is 9"):
        legacy.ngates(9)
    with pytest.raises(InvalidValueError, match="hidden_size is 0"):
        legacy.RNNDesc(0, 3, 0)
    with pytest.raises(UnsupportedError, match="no raw cuDNN descriptor"):
        _ = legacy.RNNDesc(0, 3, 2).ptr


def test_params_views_any_flat_buffer():
    flat = torch.arange(13.0)
    (wi, wh), b = legacy.params(flat, 3, 2, 1)
    assert wi.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert wh.tolist() == [[6, 8], [7, 9]]
    assert b.tolist() == [10, 11]
    b.fill_(-1.0)
    assert flat[10:].tolist() == [-1, -1, 12]
    with pytest.raises(InvalidValueError, match="at least 12 elements"):
        legacy.params(flat[:11], 3, 2)


def test_setweights_b_is_setweights():
    one, two = legacy.RNNDesc(3, 3, 2), legacy.RNNDesc(3, 3, 2)
    weights = torch.randn(6, 3), torch.randn(6, 2), torch.randn(6)
    legacy.setweights(one, *weights)
    assert legacy.setweights_b(two, *weights) is None
    assert_bitwise(one.params, two.params)


class CellDesc(legacy.RNNDesc):
    """A downstream descriptor with a constructor of its own."""

    def __init__(self, cell):
        super().__init__(legacy.CUDNN_GRU, *cell)
        self.note = "mine"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])  # noqa: S301  # ours
@pytest.mark.parametrize(
    "make",
    [
        lambda: legacy.RNNDesc[torch.float64](2, 3, 2),
        lambda: legacy.RNNDesc(1, 3, 2),
        lambda: CellDesc((3, 2)),
    ],
)
def test_copies_and_pickles_keep_everything_but_share_nothing(make, copied):
    rnn = make()
    rnn.params.normal_()
    weights = [
        torch.randn(s, dtype=rnn.dtype, requires_grad=True) for s in [t.t().shape for t in rnn.weights]
    ]
    legacy.setweights(rnn, *weights, rnn.bias.clone())
    other = copied(rnn)
    assert type(other) is type(rnn)
    assert repr(other) == repr(rnn)
    assert_bitwise(rnn.params, other.params)
    other.weights[0].zero_()
    assert rnn.params.any()
    assert getattr(other, "note", None) == getattr(rnn, "note", None)
    x, h = torch.ones(3, dtype=rnn.dtype), torch.zeros(2, dtype=rnn.dtype)
    assert legacy.forward(other, x, h)[0].dtype == rnn.dtype


@pytest.mark.parametrize("recurrent_bias", [False, True])
@pytest.mark.parametrize("mode", range(4))
def test_to_new_gives_a_module_with_the_weights_and_prints_what_builds_it(mode, recurrent_bias, capsys):
    rnn = legacy.RNNDesc[torch.float64](mode, 3, 2)
    rnn.params[: len(rnn.params) - rnn.bias.numel()] = torch.randn(
        len(rnn.params) - rnn.bias.numel(), dtype=torch.float64
    )
    if recurrent_bias:
        rnn.params[-1] = 0.5
    module = rnn.to_new()
    x, h, c = (torch.randn(n, 4, dtype=torch.float64) for n in (3, 2, 2))
    lstm = mode == legacy.CUDNN_LSTM
    output, _ = module(x.t()[None], (h.t()[None], c.t()[None]) if lstm else h.t()[None])
    expected = legacy.forward(rnn, x, h, *([c] if lstm else []))[0]
    assert_same(expected, output[0].t().detach())
    scope = {"rnncompat": rnncompat, "torch": torch}
    exec(capsys.readouterr().out, scope)  # noqa: S102  # what it printed
    built = scope["rnn"]
    assert built.descriptor == module.descriptor
    assert built.bias == (True if recurrent_bias else "input")
    built.load_state_dict(module.state_dict())
    assert built.weight_ih_l0.dtype == torch.float64
