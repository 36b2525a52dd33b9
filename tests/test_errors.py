"""Bad input is refused before any compute, in our own errors, naming the argument and what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNCompatError,
    RNNDescriptor,
    RNNState,
    RNNWeights,
    SequenceBatch,
    UnsupportedError,
    rnn_forward,
    rnn_step,
)

T, B, I, H = 5, 3, 4, 2
X = torch.zeros(T, B, I)
LSTM = RNNDescriptor("lstm", I, H)
GRU2 = RNNDescriptor("gru", I, H, num_layers=2)
TRUE = torch.ones(T, B, dtype=torch.bool)


def call(descriptor=LSTM, x=X, state=None, **options):
    return rnn_forward(descriptor, RNNWeights.init(descriptor), x, state, **options)


@pytest.mark.parametrize(
    ("lengths", "error", "words"),
    [
        ([7, 5, 1], InvalidValueError, r"lengths\[0\] is 7, but the input has T = 5 steps; .* from 0 to 5"),
        ([5, -1, 1], InvalidValueError, r"lengths\[1\] is -1"),
        ([2.5, 1, 1], InvalidTypeError, "float32; expected whole numbers"),
        ([float("nan"), 1, 1], InvalidTypeError, "whole numbers"),
        ([3, 2], InvalidValueError, r"lengths is of shape \[2\]; expected shape \[3\]"),
        ([5, 5, 5, 5, 5], InvalidValueError, "batch_first=True"),
        ([True, True, False], InvalidTypeError, "bool"),
        (np.array([1.0, 2.0, 3.0]), InvalidTypeError, "float64"),
        ([[1, 2, 3]], InvalidValueError, r"\[1, 3\]"),
        ("abc", InvalidTypeError, "cannot read"),
        ([None, 1, 2], InvalidTypeError, "cannot read"),
        (torch.tensor([1j, 1, 1]), InvalidTypeError, "complex"),
    ],
)
def test_lengths(lengths, error, words):
    with pytest.raises(error, match=words):
        call(lengths=lengths)


def test_lengths_of_the_other_axis_ask_for_batch_first():
    """Axes in the wrong order cannot be seen, but as many lengths as steps can."""
    with pytest.raises(InvalidValueError, match=r"Is the input time-major.*batch_first=False"):
        call(lengths=[5, 5, 5], x=torch.zeros(T, B, I), batch_first=True)
    with pytest.raises(InvalidValueError, match=r"Is the input batch-first.*batch_first=True"):
        call(lengths=[3, 3, 3, 3, 3], x=torch.zeros(T, B, I))


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        # torch makes it without a word, and its modules fail in the middle.
        (pack_padded_sequence(X, [7, 5, 1]), r"beside 11 steps.*add up to 11.*a length above T"),
        (PackedSequence(X[0], torch.tensor([1, 2])), r"\[1, 2\] beside 3 steps.*never grow"),
        (PackedSequence(X[0], torch.tensor([4, -1])), r"\[4, -1\] beside 3 steps"),
        (PackedSequence(X[0, :, 0], torch.tensor([2, 1])), r"x.data is of shape \[3\]"),
    ],
    ids=["length above T", "growing", "negative", "one number a step"],
)
def test_packed_sequences(packed, words):
    for read in (lambda p: call(x=p), SequenceBatch.from_packed):
        with pytest.raises(InvalidValueError, match=words):
            read(packed)


@pytest.mark.parametrize("name", ["mask", "resets"])
@pytest.mark.parametrize(
    ("flags", "error", "words"),
    [
        (TRUE.long(), InvalidTypeError, r"int64; expected torch.bool. Write"),
        (TRUE.t(), InvalidValueError, "It follows batch_first"),
        (TRUE[:4], InvalidValueError, r"\[4, 3\]; expected shape \[5, 3\] \(\[T, B\]\)"),
        ("yes", InvalidTypeError, "cannot read"),
    ],
)
def test_flags(name, flags, error, words):
    with pytest.raises(error, match=f"{name}.*{words}"):
        call(**{name: flags})


@pytest.mark.parametrize(
    ("descriptor", "state", "error", "words"),
    [
        (LSTM, torch.zeros(1, B, H), InvalidTypeError, r"expected \(h, c\). The cell is 'lstm'.*c = 0"),
        (LSTM, (torch.zeros(1, B, H),), InvalidTypeError, r"expected \(h, c\)"),
        (LSTM, (None, torch.zeros(1, B, H)), InvalidTypeError, "state.h is a NoneType"),
        (LSTM, (torch.zeros(1, B, H), 0), InvalidTypeError, "state.c is a int"),
        (LSTM, 0, InvalidTypeError, "state is a int"),
        (GRU2, (torch.zeros(2, B, H), torch.zeros(2, B, H)), InvalidTypeError, "has no cell state"),
        (GRU2, [torch.zeros(2, B, H)], InvalidTypeError, "expected the tensor h"),
        (GRU2, torch.zeros(B, 2, H), InvalidValueError, "never batch-first"),
        (GRU2, torch.zeros(B, H), InvalidValueError, r"\[2, 3, 2\]"),
        (GRU2, torch.zeros(2, B, H + 1), InvalidValueError, "state.h"),
        (GRU2, torch.zeros(2, B + 1, H), InvalidValueError, "state.h"),
        (GRU2, torch.zeros(2, B, H).double(), InvalidTypeError, "torch.float64 on cpu.*torch.float32 on cpu"),
        (LSTM, (torch.zeros(1, B, H), torch.zeros(1, B, H + 1)), InvalidValueError, "state.c"),
    ],
)
def test_states(descriptor, state, error, words):
    with pytest.raises(error, match=words):
        call(descriptor, state=state)


def test_an_unbatched_input_has_an_unbatched_state():
    with pytest.raises(InvalidValueError, match=r"\[2, 2\] beside unbatched input"):
        call(GRU2, x=X[:, 0], state=torch.zeros(2, 1, H))


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (torch.zeros(T, B, I + 1), InvalidValueError, r"x is of shape \[5, 3, 5\]; expected .* 4\]"),
        (torch.zeros(I), InvalidValueError, r"unbatched, \[T, I\]"),
        (torch.zeros(1, T, B, I), InvalidValueError, r"\[T, B, I\]"),
        (X.long(), InvalidTypeError, "int64"),
        (X.double(), InvalidTypeError, "torch.float64 on cpu, but the weights are torch.float32 on cpu"),
        (np.zeros((T, B, I)), InvalidTypeError, "x is a ndarray"),
        (None, InvalidTypeError, "x is a NoneType"),
        ([], InvalidValueError, "sequences is empty"),
        ([X[:, 0], X], InvalidValueError, r"sequences\[1\] is of shape"),
        ([X[:, 0], X[:, 0, :2]], InvalidValueError, r"sequences\[1\]"),
        ([X[:, 0], X[:, 0].double()], InvalidTypeError, "mixes"),
        ([X[:, 0], 1], InvalidTypeError, r"sequences\[1\] is a int"),
    ],
)
def test_inputs(x, error, words):
    with pytest.raises(error, match=words):
        call(x=x)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"lengths": [1] * B, "mask": TRUE}, InvalidValueError, "both given"),
        ({"reset_to": "noise"}, InvalidValueError, "reset_to is 'noise'; expected one of 'zeros', 'initial'"),
        ({"return_states": "first"}, InvalidValueError, "return_states is 'first'"),
        (
            {"backend": "fast"},
            InvalidValueError,
            r"backend is 'fast'; expected 'auto' or one of \['cudnn', 'aten', 'reference'\]",
        ),
        ({"algorithm": "fast"}, InvalidValueError, "algorithm is 'fast'"),
        (
            {"algorithm": "persist_static"},
            UnsupportedError,
            "'aten': it has no algorithm 'persist_static'.*'reference': it has",
        ),
        ({"padding_value": "0"}, InvalidTypeError, "padding_value is a str"),
    ],
)
def test_options(options, error, words):
    with pytest.raises(error, match=words):
        call(**options)


@pytest.mark.parametrize("x", [pack_sequence([X[:, 0]]), [X[:, 0]], SequenceBatch.from_padded(X)])
@pytest.mark.parametrize("option", ["lengths", "mask"])
def test_an_input_that_has_lengths_takes_no_second_ones(x, option):
    with pytest.raises(InvalidValueError, match=f"{option} is given, but a .* has its own"):
        call(x=x, **{option: [1]})


def test_descriptor_and_weights():
    weights = RNNWeights.init(LSTM)
    with pytest.raises(InvalidTypeError, match="descriptor is a str"):
        rnn_forward("lstm", weights, X)
    with pytest.raises(InvalidTypeError, match=r"weights is a Tensor; .*RNNWeights\(descriptor, flat\)"):
        rnn_forward(LSTM, weights.flat, X)
    with pytest.raises(InvalidValueError, match="expected weights of the layout of"):
        rnn_forward(RNNDescriptor("lstm", I, H, bias=False), weights, X)
    clipped = RNNDescriptor("lstm", I, H, cell_clip=(-1, 1))
    assert rnn_forward(clipped, weights, X)[0].shape == (T, B, H)


def test_steps():
    both = RNNDescriptor("gru", I, H, bidirectional=True)
    with pytest.raises(UnsupportedError, match="begins at the end"):
        rnn_step(both, RNNWeights.init(both), X[0])
    with pytest.raises(InvalidValueError, match=r"rnn_forward\(\) takes whole sequences"):
        rnn_step(LSTM, RNNWeights.init(LSTM), X)
    with pytest.raises(InvalidTypeError, match="x_t is a list"):
        rnn_step(LSTM, RNNWeights.init(LSTM), [0.0])
    with pytest.raises(InvalidTypeError, match="descriptor is a str"):
        rnn_step("lstm", RNNWeights.init(LSTM), X[0])


def test_sequence_batches():
    with pytest.raises(UnsupportedError, match=r"rows \[1\] of 3 have no real step"):
        SequenceBatch.from_padded(X, [1, 0, 2]).to_packed()
    with pytest.raises(InvalidValueError, match=r"\[5, 3, ·\]"):
        SequenceBatch.from_padded(X).with_data(X[:4])
    with pytest.raises(InvalidTypeError, match="x is a list"):
        SequenceBatch.from_padded([1.0])
    with pytest.raises(InvalidValueError, match=r"\[B, T, I\]"):
        SequenceBatch.from_padded(X[0], batch_first=True)


def test_nothing_is_computed_before_the_refusal(monkeypatch):
    """A refused call leaves torch's random numbers and the caller's tensors alone."""
    deep = RNNDescriptor("gru", I, H, num_layers=2, dropout=0.5)
    weights = RNNWeights.init(deep)
    before = torch.get_rng_state()
    monkeypatch.setattr(torch.nn.functional, "linear", None)
    with pytest.raises(RNNCompatError):
        rnn_forward(deep, weights, X, RNNState(torch.zeros(1, B, H)), training=True)
    assert torch.equal(before, torch.get_rng_state())
