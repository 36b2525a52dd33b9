"""ONNX's nodes: the equations of its operators in NumPy on its own arrays."""

from __future__ import annotations

import itertools

import numpy as np
import numpy_onnx
import pytest
import torch
from cases import BIASES, CELLS, descriptors, examples
from compare import assert_bitwise, assert_same
from hypothesis import given
from hypothesis import strategies as st

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNState,
    RNNWeights,
    UnsupportedError,
    layout_of,
    rnn_forward,
)
from rnncompat.convert.onnx import from_onnx, state_from_onnx, to_onnx

I, H, B, T = 3, 5, 4, 7
OPERATORS = {"rnn_relu": "RNN", "rnn_tanh": "RNN", "lstm": "LSTM", "gru": "GRU"}
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
LENGTHS = [7, 1, 0, 5]


def draw(cell, layers=1, directions=1, bias=True, seed=8):
    rng = np.random.default_rng(seed)
    rows = GATES[cell] * H
    attributes = {"hidden_size": H, "direction": "bidirectional" if directions == 2 else "forward"}
    attributes |= {"linear_before_reset": 1} if cell == "gru" else {}
    attributes |= {"activations": ["Relu"] * directions} if cell == "rnn_relu" else {}
    return [
        {
            "op_type": OPERATORS[cell],
            "W": rng.normal(size=(directions, rows, directions * H if k else I)),
            "R": rng.normal(size=(directions, rows, H)),
            **({"B": rng.normal(size=(directions, 2 * rows))} if bias else {}),
            "attributes": attributes,
        }
        for k in range(layers)
    ]


X = np.random.default_rng(9).normal(size=(T, B, I))


def run(descriptor, weights, x=X, state=None, lengths=None):
    return rnn_forward(descriptor, weights, torch.tensor(x), state, lengths=lengths, backend="reference")


def check(nodes, descriptor, weights, x=X):
    """The same output and last state, all rows of one length or not, from zeros and from a given state."""
    rng = np.random.default_rng(10)
    shape = (descriptor.num_layers, descriptor.num_directions, x.shape[1], descriptor.hidden_size)
    h, c = rng.normal(size=shape), rng.normal(size=shape)
    for lengths, states in itertools.product((None, LENGTHS), (None, list(zip(h, c, strict=True)))):
        y, last_h, last_c = numpy_onnx.run_nodes(nodes, x, lengths, states)
        joined = [torch.tensor(s).flatten(0, 1) for s in (h, c)][: 2 if descriptor.has_cell_state else 1]
        output, last = run(descriptor, weights, x, RNNState(*joined) if states else None, lengths)
        assert_same(y, output)
        assert_same(last_h, last.h)
        if descriptor.has_cell_state:
            assert_same(last_c, last.c)


@pytest.mark.parametrize(
    ("cell", "layers", "directions", "bias"),
    list(itertools.product(CELLS, (1, 2, 3), (1, 2), (True, False))),
)
def test_every_kind_of_node_comes_in_and_goes_out(cell, layers, directions, bias):
    nodes = draw(cell, layers, directions, bias)
    descriptor, weights, done = from_onnx(nodes)
    assert descriptor == RNNDescriptor(
        cell, I, H, num_layers=layers, bidirectional=directions == 2, bias="double" if bias else "none"
    )
    moved = {"lstm": ("gates i o f g became i f g o",), "gru": ("gates z r n became r z n",)}.get(cell, ())
    assert done == moved
    arrays = [node[field] for node in nodes for field in ("W", "R", "B") if field in node]
    assert weights.flat.numel() == layout_of(descriptor).size == sum(array.size for array in arrays)
    check(nodes, descriptor, weights)
    back, _ = to_onnx(descriptor, weights)
    for node, again in zip(nodes, back, strict=True):
        assert again["op_type"] == node["op_type"]
        assert again["attributes"] == node["attributes"]
        assert_bitwise([node["W"], node["R"]], [again["W"], again["R"]])
        assert_bitwise(node.get("B", np.zeros(again["B"].shape)), again["B"])


@pytest.mark.parametrize(("cell", "bias", "skip"), list(itertools.product(CELLS, BIASES, (False, True))))
def test_every_network_that_it_can_say(cell, bias, skip):
    size = H if skip else I
    descriptor = RNNDescriptor(
        cell,
        size,
        H,
        num_layers=2,
        bidirectional=True,
        bias=bias,
        dropout=0.5,
        input_mode="skip" if skip else "linear",
    )
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    nodes, done = to_onnx(descriptor, weights)
    moved = {"lstm": ("gates i f g o became i o f g",), "gru": ("gates r z n became z r n",)}.get(cell, ())
    said = {
        "double": (),
        "input": ("added bias_hh of zeros",),
        "recurrent": ("added bias_ih of zeros",),
        "none": ("added bias_ih and bias_hh of zeros",),
    }
    skipped = ("skip input became unit matrices",) if skip else ()
    assert done == (*moved, *skipped, *said[bias], "left out dropout=0.5, which is not in the arrays")
    plain = [{k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in node.items()} for node in nodes]
    x = np.random.default_rng(9).normal(size=(T, B, size))
    check(plain, descriptor, weights, x)
    again, back, _ = from_onnx(nodes)
    assert (again.bias.value, again.input_mode.value) == ("double", "linear")
    for name, value in weights.named():
        assert_bitwise(value, back[name])


@given(descriptors(max_layers=3), st.integers(0, 99))
@examples(40)
def test_any_network_is_said_exactly_or_refused(descriptor, seed):
    weights = RNNWeights.init(descriptor, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    lacking = [
        text
        for text, used in (
            ("no projection", descriptor.proj_size),
            ("no clipping of c", descriptor.cell_clip is not None),
        )
        if used
    ]
    if lacking:
        with pytest.raises(UnsupportedError, match=f"but ONNX has {lacking[0]}"):
            to_onnx(descriptor, weights)
        return
    nodes, _ = to_onnx(descriptor, weights)
    plain = [{k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in node.items()} for node in nodes]
    x = np.random.default_rng(seed).normal(size=(6, 4, descriptor.input_size))
    assert_same(numpy_onnx.run_nodes(plain, x)[0], run(descriptor, weights, x)[0])


@st.composite
def spellings(draw, cell, directions):
    """Attributes that say the same in other words."""
    named = {"lstm": ["Sigmoid", "Tanh", "Tanh"], "gru": ["Sigmoid", "Tanh"], "rnn_tanh": ["Tanh"]}
    functions = named.get(cell, ["Relu"]) * directions
    case = draw(st.sampled_from([str, str.lower, str.upper, lambda name: name.encode()]))
    needed = cell == "rnn_relu"
    choices = {
        "hidden_size": [None, H],
        "direction": ["bidirectional", b"bidirectional"]
        if directions == 2
        else [None, "forward", b"forward"],
        "activations": [[case(name) for name in functions], *([] if needed else [None, []])],
        "activation_alpha": [None, [], [0.3]],
        "activation_beta": [None, [0.1]],
        "layout": [None, 0],
        "output_sequence": [None, 0, 1],
        "input_forget": [None, 0],
        "linear_before_reset": [1] if cell == "gru" else [None],
        "clip": [None],
    }
    picked = {name: draw(st.sampled_from(values)) for name, values in choices.items()}
    return {name: value for name, value in picked.items() if value is not None or draw(st.booleans())}


@given(st.data(), st.sampled_from(CELLS), st.sampled_from([1, 2]))
@examples(60)
def test_attributes_that_say_the_same(data, cell, directions):
    nodes = draw(cell, 2, directions)
    spelled = [{**node, "attributes": data.draw(spellings(cell, directions))} for node in nodes]
    expected, same = from_onnx(nodes), from_onnx(spelled)
    assert (expected.descriptor, expected.done) == (same.descriptor, same.done)
    assert_bitwise(expected.weights.flat.detach(), same.weights.flat.detach())


def test_a_layer_without_bias_gets_zeros():
    first, second = draw("gru", 2)
    nodes = [{**first, "B": None}, second]
    descriptor, weights, done = from_onnx(nodes)
    assert (descriptor.bias.value, done[1]) == ("double", "added biases of zeros to the layers without B")
    check(nodes, descriptor, weights)


def test_batch_first():
    first, second = ({**n, "attributes": {**n["attributes"], "layout": 1}} for n in draw("lstm", 2, 2))
    h, c = np.random.default_rng(1).normal(size=(2, B, 2, H))
    zeros = np.zeros((B, 2, H))
    _, weights, done = from_onnx([{**first, "initial_h": zeros}, second])
    assert_bitwise(from_onnx(draw("lstm", 2, 2)).weights.flat.detach(), weights.flat.detach())
    assert done[1] == "layout=1 is batch_first=True of a call"
    state = state_from_onnx([{**first, "initial_h": h, "initial_c": c}, second])
    expected = [np.concatenate([part.transpose(1, 0, 2), np.zeros((2, B, H))]) for part in (h, c)]
    assert_bitwise(RNNState(*map(torch.tensor, expected)), state)
    with pytest.raises(InvalidValueError, match=r"initial_h of node 1 .*\[2, 2, 5\], \[B, D, H\]"):
        from_onnx([{**first, "initial_h": h.transpose(1, 0, 2)}, second])


@pytest.mark.parametrize("cell", CELLS)
def test_the_constant_state_is_not_lost(cell):
    nodes = draw(cell, 2, 2)
    h, c = np.random.default_rng(1).normal(size=(2, 2, B, H))
    second = {"initial_h": h} | ({"initial_c": c} if cell == "lstm" else {})
    given = [nodes[0], {**nodes[1], **second}]
    with pytest.raises(InvalidValueError, match=r"initial_h of node 2 is not zero.* state_from_onnx"):
        from_onnx(given)
    descriptor, weights, _ = from_onnx(nodes)
    zeros = np.zeros_like(h)
    y, *_ = numpy_onnx.run_nodes(nodes, X, None, [(zeros, zeros), (h, c)])
    state = state_from_onnx(given)
    assert (state.c is not None) == descriptor.has_cell_state
    assert_same(y, run(descriptor, weights, state=state)[0])
    h[:] = 0
    assert bool(state.h[2:].all())


def test_a_state_for_any_batch():
    first, second = draw("gru", 2)
    one, four = np.ones((1, 1, H)), np.full((1, B, H), 2.0)
    assert state_from_onnx([first, {**second, "initial_h": one}]).h.shape == (2, 1, H)
    assert state_from_onnx([first, second]).h.tolist() == np.zeros((2, 1, H)).tolist()
    both = state_from_onnx([{**first, "initial_h": one}, {**second, "initial_h": four}])
    assert_bitwise(torch.tensor(np.concatenate([np.ones((1, B, H)), four])), both.h)
    with pytest.raises(InvalidValueError, match=r"batch sizes \[3, 4\]"):
        state_from_onnx([{**first, "initial_h": four}, {**second, "initial_h": four[:, :3]}])


def test_the_other_form_of_the_gru_is_another_function():
    """What is refused is not nearly the same: 0.1 and more."""
    (after,) = draw("gru")
    before = {**after, "attributes": {"hidden_size": H}}
    difference = numpy_onnx.run_node(after, X)[0] - numpy_onnx.run_node(before, X)[0]
    assert np.abs(difference).max() > 0.1
    for attributes in ({}, {"linear_before_reset": 0}):
        with pytest.raises(UnsupportedError, match="linear_before_reset of node 1 is 0"):
            from_onnx({**after, "attributes": attributes})


def test_peepholes_of_zeros_are_none():
    (node,) = draw("lstm")
    assert_bitwise(
        from_onnx(node).weights.flat.detach(),
        from_onnx({**node, "P": np.zeros((1, 3 * H))}).weights.flat.detach(),
    )
    for value in (0.1, np.nan):
        with pytest.raises(UnsupportedError, match="P of node 1 is not zero"):
            from_onnx({**node, "P": np.full((1, 3 * H), value)})


def attribute(cell="lstm", **attributes):
    (node,) = draw(cell)
    return [{**node, "attributes": {**node["attributes"], **attributes}}]


def change(cell="gru", **fields):
    return [{**draw(cell)[0], **fields}]


@pytest.mark.parametrize(
    ("nodes", "error", "text"),
    [
        (
            attribute(direction="reverse"),
            UnsupportedError,
            "direction of node 1 is 'reverse': no network here",
        ),
        (attribute(direction=b"reverse"), UnsupportedError, r"x.flip\(0\)"),
        (attribute(direction="up"), InvalidValueError, "direction of node 1 is 'up'; expected one of"),
        (attribute(direction=2), InvalidValueError, "direction of node 1 is 2"),
        (attribute(clip=0.5), UnsupportedError, "clip of node 1 is 0.5: it bounds the inputs of the gates"),
        (attribute("gru", clip=9.0), UnsupportedError, "clip of node 1 is 9.0"),
        (attribute(input_forget=1), UnsupportedError, "input_forget of node 1 is 1"),
        (attribute(activations=["Sigmoid", "Tanh", "Relu"]), UnsupportedError, "the LSTM here has"),
        (attribute(activations=["HardSigmoid", "Tanh", "Tanh"]), UnsupportedError, "activations of node 1"),
        (attribute(activations=["Tanh"]), UnsupportedError, "activations of node 1"),
        (attribute(activations="Tanh"), UnsupportedError, "activations of node 1"),
        (attribute("rnn_tanh", activations=["LeakyRelu"]), UnsupportedError, r"\['Tanh'\] or \['Relu'\]"),
        (
            attribute(hidden_size=4),
            InvalidValueError,
            "hidden_size of node 1 is 4; expected the H of its R, which is 5",
        ),
        (attribute(layout=2), InvalidValueError, r"layout of node 1 is 2; expected one of \[0, 1\]"),
        (attribute(scan=2), UnsupportedError, "node 1 has the attribute 'scan'"),
        (change(attributes=3), InvalidTypeError, "attributes of node 1 is a int"),
        (change(sequence_lens=np.array([3])), InvalidValueError, "sequence_lens of node 1 is constant"),
        (change(op_type="Loop"), InvalidValueError, "op_type of node 1 is 'Loop'"),
        (change(op_type=["GRU"]), InvalidValueError, "op_type of node 1"),
        (change(X=X), InvalidValueError, "X and lengths that are given belong to a call"),
        ([{"op_type": "GRU", "W": X}], InvalidValueError, "expected op_type, W, R"),
        (change(W=X[0]), InvalidValueError, "W of node 1 .* three dimensions"),
        (change(W=np.ones((2, 15, 3))), InvalidValueError, r"W of node 1 .*\[1, 15, 3\], \[D, G\*H, I\]"),
        (change(W=np.ones((1, 20, 3))), InvalidValueError, r"W of node 1 .*\[1, 15, 3\]"),
        (
            change(R=np.ones((1, 5, 15))),
            InvalidValueError,
            "hidden_size of node 1 is 5; expected the H of its R, which is 15",
        ),
        (change(R=np.ones((1, 16, 5))), InvalidValueError, r"R of node 1 .*\[1, 15, 5\]"),
        (change(B=np.ones((1, 15))), InvalidValueError, r"B of node 1 .*\[1, 30\], \[D, 2\*G\*H\]"),
        (change(B=np.ones((1, 30), np.float32)), InvalidTypeError, "B of node 1 is torch.float32"),
        (change(W="no"), InvalidTypeError, "W of node 1 is a str"),
        (change(initial_h=np.zeros((1, B, 4))), InvalidValueError, r"initial_h of node 1 .*\[1, 4, 5\]"),
        (change(initial_h=np.zeros((2, B, 5))), InvalidValueError, r"initial_h of node 1 .*\[1, 4, 5\]"),
        (change(initial_h=np.zeros(5)), InvalidValueError, r"initial_h of node 1 .*\[D, B, H\]"),
        (draw("gru") + draw("lstm", 2)[1:], UnsupportedError, "node 1 is 'gru' .* node 2 is 'lstm'"),
        (draw("gru") + draw("gru", 1, 2), UnsupportedError, "D = 1.* D = 2"),
        (draw("gru") + draw("gru"), InvalidValueError, r"W of node 2 .*\[1, 15, 5\], \[D, G\*H, D\*H\]"),
        ([], InvalidTypeError, "nodes is a list"),
        ([1], InvalidTypeError, "nodes is a list"),
        ("GRU", InvalidTypeError, "nodes is a str"),
    ],
)
def test_what_fits_no_network_is_refused(nodes, error, text):
    with pytest.raises(error, match=text):
        from_onnx(nodes)
