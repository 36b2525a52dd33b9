"""The layers of KnetLayers: four kinds of input, ragged batches in the caller's order, padding, and views."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cases import examples
from compare import assert_bitwise, assert_same
from hypothesis import given
from hypothesis import strategies as st
from old_layers import B, H, Layer, T

from rnncompat import InvalidTypeError, InvalidValueError, UnsupportedError
from rnncompat.legacy import knetlayers
from rnncompat.legacy.knetlayers.ragged import pack

V = 11
"""Number of ids."""
EXAMPLE = [[1, 2, 3, 4], [7, 6], [8, 5], [9, 10]]
CLASSES = {
    "relu": knetlayers.SRNN,
    "tanh": lambda **o: knetlayers.SRNN(activation="tanh", **o),
    "lstm": knetlayers.LSTM,
    "gru": knetlayers.GRU,
}


@pytest.fixture(params=CLASSES)
def kind(request):
    return request.param


def build(kind, embed=True, **options):
    """A layer, its oracle, and the table ``(V, X)`` that its embedding holds."""
    oracle = Layer(kind, **options)
    table = torch.tensor(np.random.default_rng(6).normal(size=(V, oracle.inputs)))
    made = {"input": V, "embed": oracle.inputs} if embed else {"input": oracle.inputs}
    layer = CLASSES[kind](**made, hidden=H, **oracle.options)
    with torch.no_grad():
        layer.params.copy_(torch.tensor(oracle.flat)[None, None])
        if embed:
            layer.embedding.weight.copy_(table)
    return layer, oracle, table.numpy()


def alone(oracle, table, ids, h=None, c=None):
    """y ``(H*D, T)`` and the final states ``(H, 1, L*D)`` of one instance by itself."""
    x = table[np.asarray(ids) - 1].T[:, None]  # [X, 1, T]
    y, *after = oracle.numpy(x, h, c)
    return y[:, 0], *after


def test_features_run_as_they_are(kind):
    layer, oracle, _ = build(kind, embed=False, layers=2, bidirectional=True)
    x = oracle.data(B, T)
    h, c = oracle.states(B)
    y, *after = oracle.numpy(x, h, c)
    out = layer(torch.tensor(x), torch.tensor(h), None if c is None else torch.tensor(c))
    assert isinstance(out, knetlayers.RNNOutput)
    assert_same([y, *after, None], list(out))
    sizes = [7, 5, 2]
    packed = layer(torch.tensor(oracle.data(sum(sizes))), batchSizes=sizes)
    assert packed.y.shape == (2 * H, sum(sizes))
    assert packed[1:] == (None, None, None)


def test_one_hot_features_go_through_the_embedding(kind):
    layer, *_ = build(kind)
    ids = torch.tensor([[3, 1, 11, 4], [2, 2, 5, 9]])
    one_hot = torch.nn.functional.one_hot(ids - 1, V).double().permute(2, 0, 1)  # [V, B, T]
    assert_same(layer(ids).y, layer(one_hot).y)
    assert layer(one_hot[:, :, 0]).y.shape == (H, 2)
    assert layer(one_hot[:, 0, 0]).y.shape == (H,)
    with pytest.raises(InvalidValueError, match=r"expected \(11"):
        layer(one_hot[1:])


@pytest.mark.parametrize("given_as", [list, torch.tensor])
def test_a_vector_of_ids_is_one_instance(kind, given_as):
    layer, oracle, table = build(kind)
    out = layer(given_as([3, 1, 11, 4]), hy=True, cy=True)
    y, h, c = alone(oracle, table, [3, 1, 11, 4])
    assert_same([y[:, None], h, c, None], list(out))


def test_a_vector_beside_batch_sizes_is_packed_tokens(kind):
    layer, oracle, table = build(kind)
    out = layer(torch.tensor([3, 1, 11, 4]), batchSizes=[2, 1, 1])
    assert out.indices is None
    assert_same(alone(oracle, table, [3, 11, 4])[0], out.y[:, [0, 2, 3]])
    assert_same(alone(oracle, table, [1])[0], out.y[:, [1]])


def test_a_matrix_of_ids_has_instances_as_rows(kind):
    """Two instances of four steps; four of two would pass every check but this."""
    layer, oracle, table = build(kind)
    rows = [[3, 1, 11, 4], [2, 2, 5, 9]]
    out = layer(torch.tensor(rows), hy=True)
    assert out.y.shape == (H, 2, 4)
    for b, ids in enumerate(rows):
        y, h, _ = alone(oracle, table, ids)
        assert_same((y, h[:, 0]), (out.y[:, b], out.hidden[:, b]))
    assert out.indices is None
    assert_bitwise(list(out), list(layer(rows, hy=True)))


def test_the_published_example():
    batch = [torch.tensor(ids) for ids in EXAMPLE]
    packed = pack(batch)
    assert packed.tokens.tolist() == [1, 7, 8, 9, 2, 6, 5, 10, 3, 4]
    assert packed.batch_sizes == [4, 4, 1, 1]
    counted_from_one = [[1, 5, 9, 10], [2, 6], [3, 7], [4, 8]]
    assert [(index + 1).tolist() for index in packed.indices] == counted_from_one
    layer, *_ = build("lstm")
    assert [(index + 1).tolist() for index in layer(EXAMPLE).indices] == counted_from_one


batches = st.lists(st.lists(st.integers(1, V), min_size=1, max_size=5), min_size=1, max_size=6)


@examples(120)
@given(batches, st.sampled_from(list(CLASSES)), st.booleans(), st.booleans())
def test_each_instance_of_a_ragged_batch_is_as_if_alone(batch, kind, both, started):
    layer, oracle, table = build(kind, layers=2, bidirectional=both)
    h, c = oracle.states(len(batch)) if started else (None, None)
    start = [None if s is None else torch.tensor(s) for s in (h, c)]
    out = layer(batch, *start, hy=True, cy=True)
    padded, mask = knetlayers.PadRNNOutput(out)
    for b, ids in enumerate(batch):
        own = [None if s is None else s[:, b : b + 1] for s in (h, c)]
        y, *after = alone(oracle, table, ids, *own)
        got = out.y[:, b] if out.indices is None else out.y[:, out.indices[b]]
        assert_same(y, got)
        assert_same(after[0], out.hidden[:, b : b + 1])
        assert_same(after[1], None if out.memory is None else out.memory[:, b : b + 1])
        assert_same(y, padded.y[:, b, : len(ids)])
        assert not padded.y[:, b, len(ids) :].any()
        if mask is not None:
            assert mask[:, b].sum(1).tolist() == [len(ids)] * len(y)
            assert mask[:, b, : len(ids)].all()
    if out.indices is not None:
        assert sorted(torch.cat(out.indices).tolist()) == list(range(out.y.shape[1]))


def test_gradients_of_a_ragged_batch_are_the_sums_over_its_instances(kind):
    layer, *_ = build(kind, layers=2, bidirectional=True)
    batch = [[1, 2], [3, 4, 5, 6], [7], [8, 9, 10, 11]]
    knetlayers.PadRNNOutput(layer(batch))[0].y.sin().sum().backward()
    together = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    for ids in batch:
        layer(ids).y.sin().sum().backward()
    assert_same([p.grad for p in layer.parameters()], together)
    assert len(together) == 2


def test_the_initial_state_of_a_ragged_batch_gets_its_gradient_in_the_callers_order():
    layer, *_ = build("lstm")
    h, c = (torch.zeros(H, 3, 1, dtype=torch.float64, requires_grad=True) for _ in range(2))
    out = layer([[1], [2, 3], [4, 5, 6]], h, c)
    out.hidden[:, 2].sum().backward()
    assert not h.grad[:, :2].any()
    assert h.grad[:, 2].all()
    out = layer([[1], [2, 3], [4, 5, 6]], h[:, :, 0], c[:, :, 0])
    assert out.memory.shape == (H, 3, 1)


def test_states_are_returned_when_asked_for_or_given(kind):
    layer, oracle, _ = build(kind)
    h, c = (None if s is None else torch.tensor(s) for s in oracle.states(4))
    for x in (EXAMPLE, torch.tensor([[1, 2]] * 4)):
        assert layer(x)[1:3] == (None, None)
        assert layer(x, hx=h).hidden.shape == (H, 4, 1)
        assert layer(x, h, hy=False).hidden is None
        assert layer(x, hy=True).memory is None
        assert (layer(x, cy=True).memory is None) == (kind != "lstm")
        if c is not None:
            assert layer(x, None, c).memory.shape == (H, 4, 1)
            assert layer(x, cx=c).hidden is None


def test_sorted_is_a_promise_that_is_checked():
    layer, *_ = build("gru")
    assert_bitwise(list(layer(EXAMPLE, sorted=True)), list(layer(EXAMPLE)))
    with pytest.raises(InvalidValueError, match=r"sorted is True, but the lengths are \[2, 4\]"):
        layer([[1, 2], [1, 2, 3, 4]], sorted=True)


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        ([0, 1], InvalidValueError, "x holds ids from 0 to 1; expected 1 to 11: ids count from 1"),
        ([[1, 12], [3]], InvalidValueError, r"x\[0\] holds ids from 1 to 12"),
        ([[1], []], InvalidValueError, r"lengths \[1, 0\]; expected vectors of at least one id"),
        ([[[1]], [[2, 3]]], InvalidTypeError, r"x\[0\] is"),
        ([[1.0], [2]], InvalidTypeError, r"x\[0\] is"),
        ([[True], [2, 3]], InvalidTypeError, r"x\[0\] is"),
        (torch.ones(2, dtype=torch.bool), InvalidTypeError, "x is torch.bool"),
        (torch.ones(2, 2, 2).long(), InvalidValueError, r"expected ids \(T,\) or \(B, T\)"),
        (torch.tensor(3), InvalidValueError, r"expected ids \(T,\) or \(B, T\)"),
        ({1}, InvalidTypeError, "x is a set"),
        ([], InvalidValueError, "x is an empty list"),
    ],
)
def test_wrong_ids_are_refused(x, error, words):
    with pytest.raises(error, match=words):
        build("gru")[0](x)


def test_wrong_calls_are_refused():
    layer, *_ = build("gru")
    with pytest.raises(InvalidValueError, match="batchSizes is given beside a list of instances"):
        layer(EXAMPLE, batchSizes=[4, 4, 1, 1])
    with pytest.raises(InvalidValueError, match=r"hx is of shape \[5, 3, 1\]; .*\(5, 4, 1\)"):
        layer(EXAMPLE, torch.zeros(H, 3, 1).double())
    with pytest.raises(InvalidTypeError, match="hx is a int"):
        layer(EXAMPLE, 0)
    with pytest.raises(UnsupportedError, match="no cell state"):
        layer(EXAMPLE, None, torch.zeros(H, 4, 1).double())
    with pytest.raises(UnsupportedError, match="x holds ids, but the layer has no embedding"):
        build("gru", embed=False)[0](EXAMPLE)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"h": 0}, UnsupportedError, "h is given"),
        ({"rnnType": "gru"}, UnsupportedError, "rnnType is given"),
        ({"activation": "tanh"}, UnsupportedError, "only SRNN has one"),
        ({"embed": 0}, InvalidTypeError, "embed is 0"),
        ({"embed": "big"}, InvalidTypeError, "embed is 'big'"),
        ({"embed": torch.nn.Embedding(4, 2)}, InvalidValueError, "embed has 4 ids; expected 3"),
        ({"usegpu": False}, UnsupportedError, "usegpu is False"),
        ({"nonsense": 1}, TypeError, "nonsense"),
    ],
)
def test_wrong_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        knetlayers.LSTM(input=3, hidden=2, **options)
    with pytest.raises(InvalidValueError, match="rnnType is 'sigm'"):
        knetlayers.SRNN(input=3, hidden=2, activation="sigm")


def test_embeddings_given_and_made():
    table = torch.nn.Embedding(V, 3)
    layer = knetlayers.LSTM(input=V, hidden=2, embed=table)
    assert layer.embedding is table
    assert layer.specs.inputSize == 3
    made = knetlayers.LSTM(input=V, hidden=2, embed=3, dtype=torch.float64).embedding
    assert made.weight.shape == (V, 3)
    assert made.weight.dtype == torch.float64
    assert 0.5 * (6 / 14) ** 0.5 < made.weight.abs().max() <= (6 / 14) ** 0.5
    assert [name for name, _ in layer.named_parameters()] == ["embedding.weight", "specs.w"]
    assert knetlayers.LSTM(input=3, hidden=2).embedding is None
    assert knetlayers.SRNN(input=3, hidden=2).specs.mode.name == "CUDNN_RNN_RELU"


GATES = {"relu": "h", "tanh": "h", "lstm": "ifno", "gru": "run"}


@pytest.mark.parametrize("both", [False, True])
def test_gatesview_names_each_gate_of_torchs_matrices(kind, both):
    """i f n o for torch's i f g o, r u n for its r z n; layers count from 1, directions from 0."""
    layer, oracle, _ = build(kind, layers=2, bidirectional=both)
    expected = {}
    for symbol, word in (("w", "weight"), ("b", "bias")):
        for side in "ih":
            for k in (1, 2):
                for d in range(1 + both):
                    whole = oracle.named[f"{word}_{side}h_l{k - 1}{'_reverse' if d else ''}"]
                    for gate, part in zip(GATES[kind], np.split(whole, len(GATES[kind])), strict=True):
                        expected[f"{symbol}{side}{gate}{k}{d}"] = part.T
    views = layer.gatesview
    assert set(views) == set(expected)
    for name, part in expected.items():
        assert_same(part, views[name])
    with torch.no_grad():
        views[f"bh{GATES[kind][0]}20"].fill_(3.0)
    assert (layer.params == 3).sum() == H


def test_gatesview_of_skip_input_has_no_input_matrix():
    layer = knetlayers.GRU(input=2, hidden=2, skipInput=True)
    assert layer.gatesview["wir10"] is None
    assert layer.gatesview["bir10"].shape == (2,)


def test_pad_sequence_array():
    batch = [[1, 2, 3], [1, 2], [1]]
    assert knetlayers.PadSequenceArray(batch).tolist() == [[1, 2, 3], [1, 2, 0], [1, 0, 0]]
    left = knetlayers.PadSequenceArray(batch, direction="Left", pad=9)
    assert left.tolist() == [[1, 2, 3], [9, 1, 2], [9, 9, 1]]
    assert left.dtype == torch.int64
    with pytest.raises(InvalidValueError, match="direction is 'left'; expected 'Right' or 'Left'"):
        knetlayers.PadSequenceArray(batch, direction="left")
    with pytest.raises(InvalidValueError, match="batch is empty"):
        knetlayers.PadSequenceArray([])
    with pytest.raises(InvalidTypeError, match="batch"):
        knetlayers.PadSequenceArray([[1.5]])


def test_padding_reads_nothing_of_others():
    """Columns that fill the gaps are selected away, so a NaN in one instance stays there."""
    layer, *_ = build("gru")
    with torch.no_grad():
        layer.embedding.weight[0] = float("nan")
    padded, mask = knetlayers.PadRNNOutput(layer([[1, 1, 1], [2]]))
    assert padded.y[:, 0].isnan().all()
    assert not padded.y[:, 1].isnan().any()
    assert padded.indices is None
    assert mask.dtype == torch.bool
    assert mask.shape == padded.y.shape
    with pytest.raises(InvalidTypeError, match="out is a Tensor"):
        knetlayers.PadRNNOutput(padded.y)


def test_without_indices_there_is_nothing_to_pad():
    layer, *_ = build("gru")
    out = layer(torch.tensor([[1, 2], [3, 4]]))
    assert knetlayers.PadRNNOutput(out) == (out, None)


def test_the_successor_takes_the_embedded_ids_features_last(capsys):
    layer, *_ = build("lstm", bidirectional=True)
    new = layer.to_new()
    assert capsys.readouterr().out == (
        "layer = rnncompat.LSTM(3, 5, bidirectional=True, dtype=torch.float64)\n"
    )
    out, (h, c) = layer(EXAMPLE, hy=True, cy=True), (None, None)
    lists = [layer.embedding(torch.tensor(ids) - 1) for ids in EXAMPLE]
    outputs, (h, c) = new(lists)
    for index, output in zip(out.indices, outputs, strict=True):
        assert_same(out.y[:, index], output.t())
    assert_same((out.hidden, out.memory), (h.permute(2, 1, 0), c.permute(2, 1, 0)))
