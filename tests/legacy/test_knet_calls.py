"""The old layer as an object: what it refuses, its dropout, copies, and its successor."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from compare import assert_bitwise, assert_same
from old_layers import LAYERS, B, T

from rnncompat import InvalidTypeError, InvalidValueError, UnsupportedError, legacy


@pytest.fixture(params=LAYERS, ids=str)
def layer(request):
    return request.param


@pytest.fixture(params=["relu", "tanh", "lstm", "gru"])
def kind(request):
    return request.param


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rnnType": "LSTM"}, InvalidValueError, "rnnType is 'LSTM'; expected one of"),
        ({"algo": 7}, InvalidValueError, "algo is 7"),
        ({"algo": []}, InvalidValueError, "algo is"),
        ({"dropout": 1.5}, InvalidValueError, "dropout is 1.5"),
        ({"dropout": True}, InvalidValueError, "dropout is True"),
        ({"seed": -1}, InvalidValueError, "seed is -1"),
        ({"numLayers": 0}, InvalidValueError, "num_layers is 0"),
        ({"skipInput": True}, InvalidValueError, "skip"),
        ({"usegpu": True}, UnsupportedError, "usegpu is True; leave it out: device="),
        ({"dataType": torch.float64}, UnsupportedError, "leave it out: dtype="),
        ({"handle": 0}, UnsupportedError, "handle"),
        ({"atype": list}, UnsupportedError, "dtype= and device="),
    ],
)
def test_wrong_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        legacy.RNN(3, 2, **options)


def test_an_algorithm_that_nothing_here_has_is_refused():
    with pytest.raises(UnsupportedError, match="persist_static"):
        legacy.RNN(3, 2, algo=1)(torch.ones(3))


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (torch.ones(4, 5), InvalidValueError, r"\[4, 5\]; expected .* with X = 3: features first"),
        (torch.ones(()), InvalidValueError, "features first"),
        (torch.ones(3, 1, 1, 1), InvalidValueError, "features first"),
        ([1.0, 2.0, 3.0], InvalidTypeError, "x is a list"),
        (torch.ones(3).double(), InvalidTypeError, "float64"),
        (torch.ones(3).long(), InvalidTypeError, "int64"),
    ],
)
def test_wrong_inputs_are_refused(x, error, words):
    with pytest.raises(error, match=words):
        legacy.RNN(3, 2)(x)


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ([3, 4], InvalidValueError),
        ([4, 4], InvalidValueError),
        ([7, 0], InvalidValueError),
        ([], InvalidValueError),
        ([4.0, 3.0], InvalidTypeError),
        (7, InvalidTypeError),
        ("43", InvalidTypeError),
    ],
)
def test_wrong_batch_sizes_are_refused(sizes, error):
    with pytest.raises(error, match="batchSizes is"):
        legacy.RNN(3, 2)(torch.ones(3, 7), batchSizes=sizes)


def test_wrong_states_are_refused_and_the_one_held_is_kept():
    r = legacy.RNN(3, 2, bidirectional=True)
    x = torch.ones(3, 5, 4)
    held = torch.zeros(2, 5, 2)
    r.h, r.c = held, torch.zeros(2, 2, 5)
    with pytest.raises(InvalidValueError, match=r"c is of shape \[2, 2, 5\]; expected .*\(2, 5, 2\)"):
        r(x)
    assert r.h is held
    r.c = None
    for wrong in (1, 0.5, "0", [0], np.zeros(2)):
        r.h = wrong
        with pytest.raises(InvalidTypeError, match="h is"):
            r(x)
    r.h = held.double()
    with pytest.raises(InvalidTypeError, match="float64"):
        r(x)
    with pytest.raises(InvalidTypeError, match=r"h is a int"):
        legacy.rnnforw(r, r.w, x, 0)


def test_dropout_is_seeded_reproducible_and_leaves_torchs_numbers_alone():
    x = torch.ones(3, 5, 4)

    def calls(seed):
        r = legacy.RNN(3, 2, numLayers=2, dropout=0.5, seed=seed, winit=lambda t, s: torch.ones(s, dtype=t))
        return r(x), r(x)

    torch.manual_seed(1)
    one = calls(11)
    before = torch.get_rng_state()
    two = calls(11)
    assert_bitwise(one, two)
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(one[0], one[1])
    assert not torch.equal(one[0], calls(12)[0])
    torch.manual_seed(1)
    free = calls(0)
    torch.manual_seed(1)
    assert_bitwise(free, calls(0))
    assert not torch.equal(before, torch.get_rng_state())


def test_dropout_may_be_set_later():
    r = legacy.RNN(3, 2, numLayers=2, dropout=0.5)
    assert r.descriptor.dropout == 0.5
    r.dropout = 0
    assert r.descriptor.dropout == 0
    x = torch.ones(3, 5, 4)
    assert_bitwise(r(x), r(x))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])  # noqa: S301  # ours
def test_copies_hold_the_state_without_its_graph(copied):
    r = legacy.RNN(3, 2, h=0, c=0, numLayers=2, dropout=0.25, seed=3)
    x = torch.ones(3, 5, 4)
    r(x)
    other = copied(r)
    assert not other.h.requires_grad
    assert other.h.data_ptr() != r.h.data_ptr()
    assert_bitwise(r.h.detach(), other.h)
    with torch.no_grad():
        assert_bitwise(r(x), other(x))
    assert_bitwise(r(x), other(x))
    assert (other.seed, other.dropout) == (3, 0.25)


def test_moving_takes_the_state_along():
    r = legacy.RNN(3, 2, h=0)
    x = torch.ones(3, 5, 4)
    r(x)
    r.double()
    assert r.h.dtype == r.w.dtype == torch.float64
    assert r(x.double()).dtype == torch.float64
    assert list(r.state_dict()) == ["w"]


def test_autocast_was_unknown():
    r, x = legacy.RNN(3, 2), torch.randn(3, 5, 4)
    expected = r(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_bitwise(expected, r(x))


def test_the_successor_computes_the_same_and_its_code_is_printed(layer, capsys):
    r = layer.old()
    new = r.to_new()
    (line,) = capsys.readouterr().out.splitlines()
    scope = {}
    exec(f"import torch, rnncompat\n{line}", scope)  # noqa: S102  # the point is that it runs
    scope["layer"].load_state_dict(new.state_dict())
    x = torch.tensor(layer.data(B, T))
    for module in (new, scope["layer"]):
        output, _ = module(x.permute(2, 1, 0))
        assert_same(r(x), output.permute(2, 1, 0))
    assert new.weight_hh_l0.data_ptr() != r.w.data_ptr()


def test_the_successor_says_what_it_leaves_out(capsys):
    new = legacy.RNN(3, 2, numLayers=2, dropout=0.5, bidirectional=True).to_new()
    assert capsys.readouterr().out.splitlines() == [
        "# The old call also dropped its input: torch.nn.Dropout(0.5).",
        "layer = rnncompat.LSTM(3, 2, num_layers=2, dropout=0.5, bidirectional=True)",
    ]
    assert new.dropout == 0.5
    assert new.training
    assert not legacy.RNN(3, 2).eval().to_new().training


def test_empty_batches_and_sequences_work(kind):
    r = legacy.RNN(3, 2, rnnType=kind, h=0)
    assert r(torch.ones(3, 0, 4)).shape == (2, 0, 4)
    r.h = 0
    assert r(torch.ones(3, 5, 0)).shape == (2, 5, 0)
    assert not r.h.any()
