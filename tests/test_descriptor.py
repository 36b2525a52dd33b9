"""RNNDescriptor: plain, frozen, hashable, and strict about what cannot be."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from cases import descriptors
from hypothesis import given

from rnncompat import (
    Bias,
    Cell,
    InputMode,
    InvalidTypeError,
    InvalidValueError,
    RNNCompatError,
    RNNDescriptor,
    UnsupportedError,
)


def test_strings_and_members_are_the_same():
    assert RNNDescriptor("lstm", 2, 3) == RNNDescriptor(Cell.LSTM, 2, 3, bias=Bias.DOUBLE)
    assert RNNDescriptor("gru", 3, 3, input_mode="skip").input_mode is InputMode.SKIP
    assert RNNDescriptor("gru", 2, 3, bias=False).bias is Bias.NONE
    assert RNNDescriptor("gru", 2, 3, bias=True).bias is Bias.DOUBLE
    assert RNNDescriptor("gru", np.int64(2), np.int32(3)) == RNNDescriptor("gru", 2, 3)


@given(descriptors())
def test_it_is_a_value(descriptor):
    assert descriptor == eval(repr(descriptor), {"RNNDescriptor": RNNDescriptor})  # noqa: S307  # our own repr
    assert descriptor == pickle.loads(pickle.dumps(descriptor))  # noqa: S301  # ours
    assert descriptor == copy.deepcopy(descriptor)
    assert len({descriptor, copy.deepcopy(descriptor)}) == 1
    assert dataclasses.replace(descriptor, num_layers=9).num_layers == 9
    with pytest.raises(dataclasses.FrozenInstanceError):
        descriptor.hidden_size = 4


def test_derived_sizes():
    d = RNNDescriptor("lstm", 7, 5, num_layers=3, bidirectional=True, proj_size=2)
    assert (d.gates, d.num_directions, d.num_pseudo_layers) == (4, 2, 6)
    assert (d.state_size, d.output_size) == (2, 4)
    assert [d.layer_input_size(layer) for layer in range(3)] == [7, 4, 4]
    assert [d.pseudo_layer(layer, way) for layer in range(3) for way in range(2)] == list(range(6))
    assert d.has_cell_state
    assert not RNNDescriptor("gru", 1, 1).has_cell_state
    assert [cell.gates for cell in Cell] == [1, 1, 4, 3]
    with pytest.raises(InvalidValueError, match="layer is 3"):
        d.pseudo_layer(3)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"cell": "elman"}, InvalidValueError, "cell is 'elman'; expected one of 'rnn_relu'"),
        ({"input_size": 0}, InvalidValueError, "input_size is 0"),
        ({"hidden_size": -1}, InvalidValueError, "hidden_size is -1"),
        ({"hidden_size": 2.0}, InvalidTypeError, "hidden_size is a float"),
        ({"num_layers": 0}, InvalidValueError, "num_layers is 0"),
        ({"num_layers": True}, InvalidTypeError, "num_layers is a bool"),
        ({"bidirectional": 0.5}, InvalidTypeError, "bidirectional is a float"),
        ({"bias": "both"}, InvalidValueError, "bias is 'both'"),
        ({"input_mode": "copy"}, InvalidValueError, "input_mode is 'copy'"),
        ({"input_mode": "skip"}, InvalidValueError, "input_size = 2 and hidden_size = 3"),
        ({"proj_size": 3}, InvalidValueError, "below hidden_size = 3"),
        ({"proj_size": 1, "cell": "gru"}, UnsupportedError, "only the LSTM"),
        ({"cell_clip": (-1, 1), "cell": "rnn_tanh"}, UnsupportedError, "only the LSTM"),
        ({"cell_clip": (1, -1)}, InvalidValueError, "low <= high"),
        ({"cell_clip": (0, float("nan"))}, InvalidValueError, "low <= high"),
        ({"cell_clip": 5}, InvalidValueError, "cell_clip is 5"),
        ({"cell_clip": ("a", "b")}, InvalidValueError, "cell_clip"),
        ({"dropout": 1.5, "num_layers": 2}, InvalidValueError, "dropout is 1.5"),
        ({"dropout": "half", "num_layers": 2}, InvalidTypeError, "dropout is a str"),
        ({"dropout": float("nan"), "num_layers": 2}, InvalidValueError, "dropout is nan"),
    ],
)
def test_what_cannot_be_is_refused_in_words(arguments, error, words):
    with pytest.raises(error, match=words) as caught:
        RNNDescriptor(**{"cell": "lstm", "input_size": 2, "hidden_size": 3, **arguments})
    assert isinstance(caught.value, RNNCompatError)
    assert isinstance(caught.value, (ValueError, TypeError))


def test_dropout_with_one_layer_warns_as_torch_does_at_the_callers_line():
    with pytest.warns(UserWarning, match="between layers only") as caught:
        RNNDescriptor("lstm", 2, 3, dropout=0.5)
    assert caught[0].filename == __file__
