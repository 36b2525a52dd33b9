"""The newer upstream call, ``cudnnRNNForward(w, x; …)``, keyword by keyword: the guide's table, with numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy_rnn
import pytest
import torch
from compare import assert_same
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import rnncompat

GUIDE = Path(__file__).parents[2] / "docs" / "migrating.md"
I, H, B, T = 3, 5, 4, 6
LENGTHS = [6, 4, 3, 1]


class Keyword(NamedTuple):
    """What a keyword became: words of the guide, options of the descriptor, options of the call."""

    words: str
    network: dict | None = None
    call: dict | None = None


KEYWORDS = {
    "hx": Keyword("state", call={"state": "given"}),
    "cx": Keyword("state", call={"state": "given"}),
    "hy": Keyword("returned"),
    "cy": Keyword("returned"),
    "y": Keyword("returned"),
    "algo": Keyword('algorithm="standard"'),
    "cellMode": Keyword('"gru"', {"cell": "gru"}),
    "biasMode": Keyword('bias="input"', {"bias": "input", "cell": "gru"}),
    "dirMode": Keyword("bidirectional=True", {"bidirectional": True}),
    "inputMode": Keyword('input_mode="skip"', {"input_mode": "skip", "input_size": H}),
    "dataType": Keyword("dtype"),
    "mathPrec": Keyword("torch's own switches"),
    "mathType": Keyword("torch's own switches"),
    "inputSize": Keyword("input_size", {"input_size": 2}),
    "hiddenSize": Keyword("hidden_size", {"hidden_size": 7}),
    "projSize": Keyword("proj_size", {"proj_size": 2}),
    "numLayers": Keyword("num_layers", {"num_layers": 2}),
    "dropout": Keyword("dropout", {"dropout": 0.5, "num_layers": 2}),
    "auxFlags": Keyword("nothing"),
    "layout": Keyword("batch_first=True", call={"batch_first": True}),
    "seqLengthArray": Keyword("lengths", call={"lengths": LENGTHS}),
    "paddingFill": Keyword("padding_value", call={"lengths": LENGTHS, "padding_value": -7.5}),
    "fwdMode": Keyword("training=True", call={"training": True}),
    "reserveSpace": Keyword("nothing"),
    "workspace": Keyword("nothing"),
    "dw": Keyword("autograd"),
    "dx": Keyword("autograd"),
    "dhx": Keyword("autograd"),
    "dcx": Keyword("autograd"),
    "rnnDesc": Keyword("RNNDescriptor"),
}


def rows():
    """The rows of the guide's table, by keyword."""
    section = GUIDE.read_text(encoding="utf-8").split("## The newer upstream call")[1].split("\n## ")[0]
    found = {}
    for line in re.findall(r"^\| (`.+)\|$", section, re.MULTILINE):
        names, _, rest = line.partition(" | ")
        found |= dict.fromkeys(re.findall(r"`(\w+)`", names), rest)
    return found


def test_the_guide_maps_every_keyword_and_no_other():
    assert rows().keys() == KEYWORDS.keys()
    for name, keyword in KEYWORDS.items():
        assert keyword.words in rows()[name], name


@pytest.mark.parametrize("keyword", KEYWORDS.values(), ids=KEYWORDS)
def test_the_new_keyword_gives_the_numbers_of_the_old_one(keyword):
    options = {"cell": "lstm", "input_size": I, "hidden_size": H, **(keyword.network or {})}
    d = rnncompat.RNNDescriptor(**options)
    random = torch.Generator().manual_seed(0)
    w = torch.randn(
        rnncompat.layout_of(d).size, dtype=torch.float64, generator=random
    )  # the old flat w, as it is
    x, hx, cx = (  # features first, as they were: (X, B, T), (H, B, L*D)
        torch.randn(*shape, dtype=torch.float64, generator=random)
        for shape in (
            (d.input_size, B, T),
            (d.state_size, B, d.num_pseudo_layers),
            (d.hidden_size, B, d.num_pseudo_layers),
        )
    )
    call = dict(keyword.call or {})
    given = call.pop("state", None) is not None
    state = (hx.permute(2, 1, 0), cx.permute(2, 1, 0)) if given else None
    axes = (1, 2, 0) if call.get("batch_first") else (2, 1, 0)
    weights = rnncompat.RNNWeights(d, w)
    output, after = rnncompat.rnn_forward(d, weights, x.permute(axes), state, **call)
    expected = by_numpy(d, weights, x, hx * given, cx * given, call)
    y = output.transpose(0, 1) if call.get("batch_first") else output
    assert_same(expected[0], y)
    assert_same(expected[1], after.h)
    assert_same(expected[2] if d.has_cell_state else None, after.c)


def by_numpy(d, weights, x, hx, cx, call):
    net = numpy_rnn.Network(
        cell=d.cell.value,
        hidden=d.hidden_size,
        layers=d.num_layers,
        directions=d.num_directions,
        skip=d.input_mode is rnncompat.InputMode.SKIP,
        clip=None,
        weights={name: view.numpy() for name, view in weights.named()},
    )
    real = np.arange(T)[:, None] < np.array(call.get("lengths", [T] * B))
    x, hx, cx = (t.permute(2, 1, 0).numpy() for t in (x, hx, cx))
    resets = np.zeros((T, B), dtype=bool)
    return numpy_rnn.run(net, x, hx, cx, real, resets, "zeros", call.get("padding_value", 0.0))[:3]


def test_the_packed_layout_is_a_packed_sequence():
    d = rnncompat.RNNDescriptor("rnn_tanh", I, H)
    weights = rnncompat.RNNWeights.init(d, dtype=torch.float64)
    x = torch.randn(T, B, I, dtype=torch.float64)
    packed, state = rnncompat.rnn_forward(d, weights, pack_padded_sequence(x, torch.tensor(LENGTHS)))
    padded, expected = rnncompat.rnn_forward(d, weights, x, lengths=LENGTHS)
    assert_same(padded, pad_packed_sequence(packed)[0])
    assert_same(expected.h, state.h)


def test_t25_defaults_and_ends_of_the_newer_call():
    """It took an LSTM with two biases, gave y alone, left padding undefined, and ended each row at its own step."""
    descriptor = rnncompat.RNNDescriptor("lstm", I, H)
    assert descriptor.bias is rnncompat.Bias.DOUBLE
    longer = torch.randn(rnncompat.layout_of(descriptor).size + 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="flat is of shape"):
        rnncompat.RNNWeights(descriptor, longer)
    weights = rnncompat.RNNWeights(descriptor, longer[:-3])
    x = torch.randn(T, B, I, dtype=torch.float64)
    output, (h, _) = rnncompat.rnn_forward(descriptor, weights, x, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS):
        alone, _ = rnncompat.rnn_forward(descriptor, weights, x[:length, row])
        assert_same(alone, output[:length, row])
        assert_same(alone[-1], h[0, row])
        assert not output[length:, row].any()
