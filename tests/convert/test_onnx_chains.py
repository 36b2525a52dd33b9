"""What may stand between two recurrent nodes of ONNX for them to be layers of one network."""

from __future__ import annotations

import numpy as np
import numpy_onnx
import pytest
import torch
from compare import assert_bitwise, assert_same
from onnx_export import WARNINGS
from onnx_files import ONE, B, H, I, T, arrays, check, run_file, two, value, write

from rnncompat import (
    InvalidValueError,
    RNNDescriptor,
    rnn_forward,
)
from rnncompat.convert.onnx import from_onnx, state_from_onnx
from rnncompat.convert.onnx_file import load_nodes

pytestmark = WARNINGS


def test_gates_that_are_gathered(tmp_path):
    """Weights of a size where rows times places would be far more than what comes out."""
    rng, rows = np.random.default_rng(2), np.random.default_rng(2).permutation(400)
    stored = {"W": rng.normal(size=(1, 400, 300)), "R": rng.normal(size=(1, 400, 100)), "rows": rows}
    stored |= {name: stored[name].astype(np.float32) for name in "WR"}
    nodes = [
        ("Gather", ["W", "rows"], ["w"], {"axis": 1}),
        ("LSTM", ["x", "w", "R"], ["y"], {"hidden_size": 100}),
    ]
    (node,) = load_nodes(write(tmp_path / "m.onnx", nodes, stored, {"x": ["T", "B", 300]}))
    assert_bitwise(stored["W"][:, rows], torch.tensor(node["W"]))


LINKED = {
    "squeeze": two([("Squeeze", ["a", "one"], ["b"], {})], one=ONE),
    "squeeze of old": two([("Squeeze", ["a"], ["b"], {"axes": [1]})], opset=11),
    "reshape": two([("Reshape", ["a", "s"], ["b"], {})], s=np.array([0, -1, H])),
    "identity": two([("Squeeze", ["a", "one"], ["i"], {}), ("Identity", ["i"], ["b"], {})], one=ONE),
    "dropout": two([("Squeeze", ["a", "one"], ["i"], {}), ("Dropout", ["i"], ["b"], {})], one=ONE),
    "shapes": two(
        [
            ("Transpose", ["a"], ["m"], {"perm": [0, 2, 1, 3]}),
            ("Shape", ["m"], ["all"], {}),
            ("Slice", ["all", "zero", "two"], ["front"], {}),
            ("Concat", ["front", "rest"], ["s"], {"axis": 0}),
            ("Reshape", ["m", "s"], ["b"], {}),
        ],
        zero=np.array([0]),
        two=np.array([2]),
        rest=np.array([-1]),
    ),
    "twice turned round": two(
        [
            ("Squeeze", ["a", "one"], ["i"], {}),
            ("Transpose", ["i"], ["j"], {"perm": [1, 0, 2]}),
            ("Transpose", ["j"], ["b"], {"perm": [1, 0, 2]}),
        ],
        one=ONE,
    ),
}
TURNED = [
    ("Shape", ["x"], ["all"], {}),
    ("Gather", ["all", "swap"], ["front"], {}),
    ("Concat", ["front", "rest"], ["s"], {"axis": 0}),
    ("Reshape", ["a", "s"], ["b"], {}),
]
UNLINKED = {
    "relu": two([("Squeeze", ["a", "one"], ["i"], {}), ("Relu", ["i"], ["b"], {})], one=ONE),
    "residual": two(
        [("Squeeze", ["a", "one"], ["i"], {}), ("Add", ["i", "k"], ["b"], {})], one=ONE, k=np.float32(1)
    ),
    "batch and time turned": two(
        [("Squeeze", ["a", "one"], ["i"], {}), ("Transpose", ["i"], ["b"], {"perm": [1, 0, 2]})], one=ONE
    ),
    "batch and time mixed by a reshape": two(TURNED, swap=np.array([1, 0]), rest=np.array([-1])),
    "one long sequence": two([("Reshape", ["a", "s"], ["b"], {})], s=np.array([-1, 1, H])),
    "the state of one into the other": two([("Squeeze", ["a", "one"], ["b"], {})], one=ONE, last=True),
    "lengths for one alone": two(
        [("Squeeze", ["a", "one"], ["b"], {})], one=ONE, lengths=np.array([3, 3, 3, 3], np.int32)
    ),
    "rounded": two(
        [
            ("Squeeze", ["a", "one"], ["i"], {}),
            ("Cast", ["i"], ["f"], {"to": 10}),
            ("Cast", ["f"], ["b"], {"to": 1}),
        ],
        one=ONE,
    ),
}


@pytest.mark.parametrize("case", LINKED)
def test_nodes_that_are_layers_of_one_network(case, tmp_path):
    file = write(tmp_path / "m.onnx", **LINKED[case])
    descriptor, weights, _ = from_onnx(load_nodes(file))
    assert descriptor == RNNDescriptor("gru", I, H, num_layers=2)
    x = torch.randn(T, B, I)
    check([rnn_forward(descriptor, weights, x)[0]], [run_file(file, x=x)[0].squeeze(1)])


@pytest.mark.parametrize("case", UNLINKED)
def test_nodes_with_more_between_are_two_networks(case, tmp_path):
    file = write(tmp_path / "m.onnx", **UNLINKED[case])
    with pytest.raises(InvalidValueError, match="in this model of 'n0', 'n"):
        load_nodes(file)
    (node,) = load_nodes(file, name="n0")
    assert ("sequence_lens" in node) == (case == "lengths for one alone")
    node.pop("sequence_lens", None)
    assert from_onnx(node).descriptor == RNNDescriptor("gru", I, H)


def test_a_node_with_two_followers_is_a_network_of_its_own(tmp_path):
    case = two([("Squeeze", ["a", "one"], ["b"], {})], one=ONE)
    again = ("GRU", ["b", "W2", "R2", "B2"], ["z"], {"hidden_size": H, "linear_before_reset": 1})
    file = write(tmp_path / "m.onnx", [*case["nodes"], again], case["stored"], outputs=("y", "z"))
    with pytest.raises(InvalidValueError, match="in this model of 'n0', 'n2', 'n3'"):
        load_nodes(file)


def test_layout_1_has_the_batch_first(tmp_path):
    stored = {**arrays("GRU", 2), **arrays("GRU", 2, 2 * H, "2"), "s": np.array([0, 0, 2 * H])}
    attributes = {"hidden_size": H, "linear_before_reset": 1, "layout": 1, "direction": "bidirectional"}
    half = [("Shape", ["x"], ["t"], {}), ("Slice", ["t", "zero", "one"], ["batch"], {})]
    fill = [
        ("Concat", ["batch", "rest"], ["all"], {"axis": 0}),
        ("ConstantOfShape", ["all"], ["h"], {"value": value("", np.float32([0.5]))}),
    ]
    nodes = [
        *half,
        *fill,
        ("GRU", ["x", "W", "R", "B", "", "h"], ["a"], attributes),
        ("Reshape", ["a", "s"], ["b"], {}),
        ("GRU", ["b", "W2", "R2", "B2"], ["y"], attributes),
    ]
    stored |= {"zero": np.array([0]), "one": ONE, "rest": np.array([2, H])}
    read = load_nodes(write(tmp_path / "m.onnx", nodes, stored))
    state = state_from_onnx(read)
    assert_bitwise(torch.cat([torch.full((2, 1, H), 0.5), torch.zeros(2, 1, H)]), state.h)
    descriptor, weights, done = from_onnx(
        [{k: v for k, v in node.items() if k != "initial_h"} for node in read]
    )
    assert done[1] == "layout=1 is batch_first=True of a call"
    x = np.random.default_rng(0).normal(size=(T, B, I))
    plain = [
        {"op_type": "GRU", **{f: stored[f + end] for f in "WRB"}, "attributes": attributes}
        for end in ("", "2")
    ]
    y, *_ = numpy_onnx.run_nodes(plain, x, None, [(np.full((2, B, H), 0.5), None), (None, None)])
    single = weights.to(dtype=torch.float64)
    output, _ = rnn_forward(
        descriptor, single, torch.tensor(x).transpose(0, 1), state.to(dtype=torch.float64), batch_first=True
    )
    assert_same(y.transpose(1, 0, 2), output)
