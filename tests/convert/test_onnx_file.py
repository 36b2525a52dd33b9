"""ONNX models in files: ours against onnxruntime, and nodes that ONNX itself writes."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import numpy_onnx
import pytest
import torch
from cases import BIASES, CELLS, descriptors, examples
from compare import assert_bitwise, assert_same
from hypothesis import given
from hypothesis import strategies as st
from onnx_export import WARNINGS
from onnx_files import LENGTHS, SAME, B, H, I, T, arrays, check, run_file, states_of, write

from rnncompat import (
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    __main__,
    rnn_forward,
)
from rnncompat.convert.file_format import Reading
from rnncompat.convert.onnx import from_onnx, to_onnx
from rnncompat.convert.onnx_file import FILE, load_nodes, save_model
from rnncompat.convert.safetensors import load_weights, save_weights

pytestmark = WARNINGS


@pytest.mark.parametrize(
    ("cell", "layers", "bidirectional", "bias"),
    [
        *itertools.product(CELLS, (1, 3), (False, True), ("double",)),
        *itertools.product(CELLS, (2,), (True,), BIASES[1:]),
    ],
)
def test_a_model_of_ours_runs_in_onnxruntime(cell, layers, bidirectional, bias, tmp_path):
    descriptor = RNNDescriptor(cell, I, H, num_layers=layers, bidirectional=bidirectional, bias=bias)
    weights = RNNWeights.init(descriptor)
    done = save_model(tmp_path / "m.onnx", descriptor, weights)
    assert done == to_onnx(descriptor, weights).done
    for steps, lengths in ((T, LENGTHS), (9, torch.tensor([9, 4], dtype=torch.int32))):
        x, states = torch.randn(steps, len(lengths), I), states_of(descriptor, len(lengths))
        found = run_file(tmp_path / "m.onnx", x=x, lengths=lengths, **states)
        given = (states["h"], states.get("c")) if descriptor.has_cell_state else states["h"]
        output, last = rnn_forward(descriptor, weights, x, given, lengths=lengths, backend="reference")
        check([output, *(part for part in last if part is not None)], found)
    nodes = load_nodes(tmp_path / "m.onnx")
    assert [set(node) for node in nodes] == [{"op_type", "W", "R", "B", "attributes"}] * layers
    again, back, _ = from_onnx(nodes)
    assert again.num_layers == layers
    for name, value in weights.named():
        assert_bitwise(value.detach(), back[name].detach())


@given(descriptors(max_layers=3), st.sampled_from([torch.float64, torch.float32, torch.float16]))
@examples(25)
def test_any_network_goes_through_a_file(tmp_path_factory, descriptor, dtype):
    file = tmp_path_factory.mktemp("onnx") / "m.onnx"
    weights = RNNWeights.init(descriptor, dtype=dtype)
    if descriptor.proj_size or descriptor.cell_clip:
        with pytest.raises(UnsupportedError, match="but ONNX has no"):
            save_model(file, descriptor, weights)
        assert not file.exists()
        return
    save_model(file, descriptor, weights)
    direct = from_onnx(to_onnx(descriptor, weights).arrays)
    read = FILE.read(file, Reading())
    assert read.descriptor == direct.descriptor
    assert_bitwise(direct.weights.flat.detach(), read.weights.flat.detach())


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("LSTM", {}),
        ("LSTM", {"activations": ["Sigmoid", "Tanh", "Tanh"], "input_forget": 0}),
        ("GRU", {"linear_before_reset": 1}),
        ("RNN", {}),
        ("RNN", {"activations": ["Relu"]}),
    ],
)
@pytest.mark.parametrize("directions", [1, 2])
def test_a_node_does_what_onnxruntime_makes_of_it(operator, attributes, directions, tmp_path):
    attributes = dict(attributes)
    if directions == 2:
        attributes["direction"] = "bidirectional"
        if "activations" in attributes:
            attributes["activations"] = attributes["activations"] * 2
    stored = arrays(operator, directions)
    node = (operator, ["x", "W", "R", "B"], ["y", "y_h"], {"hidden_size": H, **attributes})
    file = write(tmp_path / "m.onnx", [node], stored, outputs=("y", "y_h"))
    (read,) = load_nodes(file)
    descriptor, weights, _ = from_onnx(read)
    x = torch.randn(T, B, I)
    y, y_h = run_file(file, x=x)
    output, last = rnn_forward(descriptor, weights, x)
    check([output, last.h], [y.transpose(1, 2).flatten(2), y_h])
    plain = {"op_type": operator, **stored, "attributes": attributes}
    assert_same(numpy_onnx.run_nodes([plain], x.numpy())[0].astype(np.float32), output.detach(), SAME)


REFUSED = {
    "test_gru_reverse": "no network here runs backward alone",
    "test_gru": "linear_before_reset of node 1 is 0",
    "test_lstm_with_peepholes": "P of node 1 is not zero",
    "test_lstm_reverse": "no network here runs backward alone",
    "test_simple_rnn_reverse": "no network here runs backward alone",
}


def test_the_cases_of_onnx_itself():
    """Its own arrays and expected outputs: the same numbers, or the reason that is to be expected."""
    import onnx  # noqa: PLC0415

    for name in ("lstm", "gru", "rnn"):
        importlib.import_module(f"onnx.backend.test.case.node.{name}")
    cases = importlib.import_module("onnx.backend.test.case.node")._NodeTestCases
    agreed = []
    for case in cases:
        (node,) = case.model.graph.node
        if node.op_type not in ("LSTM", "GRU", "RNN"):
            continue
        (values, expected), *_ = case.data_sets
        given = dict(zip(filter(None, node.input), map(np.asarray, values), strict=True))
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        plain = {"op_type": node.op_type, "attributes": attributes}
        plain |= {field: given[field] for field in ("W", "R", "B", "P") if field in given}
        reason = next((text for name, text in REFUSED.items() if case.name.startswith(name)), None)
        if reason:
            with pytest.raises(UnsupportedError, match=reason):
                from_onnx(plain)
            continue
        descriptor, weights, _ = from_onnx(plain)
        first = bool(attributes.get("layout"))
        output, last = rnn_forward(
            descriptor,
            weights,
            torch.tensor(given["X"]),
            lengths=given.get("sequence_lens"),
            batch_first=first,
        )
        directions = (*output.shape[:2], descriptor.num_directions, descriptor.hidden_size)
        ours = {
            "Y": output.view(directions) if first else output.view(directions).transpose(1, 2),
            "Y_h": last.h.transpose(0, 1) if first else last.h,
            "Y_c": last.c,
        }
        check([ours[name] for name in node.output if name], [torch.tensor(array) for array in expected])
        agreed.append(case.name)
    assert {"test_lstm_with_initial_bias", "test_lstm_batchwise", "test_rnn_seq_length"} <= set(agreed)


def test_from_the_command_line(tmp_path, capsys, monkeypatch):
    descriptor = RNNDescriptor("lstm", I, H, num_layers=2, bidirectional=True)
    weights = RNNWeights.init(descriptor)
    first, model, last = (str(tmp_path / name) for name in ("a.safetensors", "m.onnx", "b.safetensors"))
    save_weights(first, descriptor, weights)
    assert __main__.main(["convert", first, model]) == 0
    assert "  gates i f g o became i o f g" in capsys.readouterr().out
    assert __main__.main(["convert", model, last, "--prefix", "layer_0"]) == 0
    out = capsys.readouterr().out
    assert "  read the nodes layer_0, layer_1" in out
    assert "  sequence_lens is lengths= of a call" in out
    assert_bitwise(weights.flat.detach(), load_weights(last).flat.detach())
    assert __main__.main(["convert", model, last, "--prefix", "encoder"]) == 2
    assert "name is 'encoder'; expected" in capsys.readouterr().err
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    assert __main__.main(["convert", model, last]) == 2
    missing = "convert: An ONNX file needs onnx, which is not installed: pip install 'rnncompat[onnx]'\n"
    assert capsys.readouterr().err == missing
