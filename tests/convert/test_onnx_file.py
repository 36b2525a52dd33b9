"""ONNX models in files: against onnxruntime, and what torch's two exporters write."""

from __future__ import annotations

import importlib
import itertools
import warnings

import numpy as np
import numpy_onnx
import pytest
import torch
from cases import BIASES, CELLS, descriptors, examples
from compare import assert_bitwise, assert_same
from hypothesis import given
from hypothesis import strategies as st
from onnx_export import EXPORTERS, WARNINGS

import rnncompat
from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNCompatError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    __main__,
    rnn_forward,
)
from rnncompat.convert import onnx_file
from rnncompat.convert.file_format import Reading
from rnncompat.convert.onnx import from_onnx, state_from_onnx, to_onnx
from rnncompat.convert.onnx_file import FILE, load_nodes, save_model
from rnncompat.convert.safetensors import load_weights, save_weights

pytestmark = WARNINGS

I, H, B, T = 3, 5, 4, 7
SAME = 1e-6  # float32, outputs below 1: a few units in the last place
LENGTHS = torch.tensor([7, 1, 0, 5], dtype=torch.int32)


def run_file(file, **arguments):
    """The outputs of onnxruntime."""
    import onnxruntime  # noqa: PLC0415  # the tests of this file are skipped where it is missing

    session = onnxruntime.InferenceSession(str(file))
    wanted = [one.name for one in session.get_inputs()]
    return [torch.from_numpy(a) for a in session.run(None, {n: arguments[n].numpy() for n in wanted})]


def states_of(descriptor, batch=B):
    shape = (descriptor.num_pseudo_layers, batch, descriptor.hidden_size)
    return {name: torch.randn(shape) for name in ("h", "c")[: 2 if descriptor.has_cell_state else 1]}


def check(expected, found):
    assert len(expected) == len(found)
    for ours, theirs in zip(expected, found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=SAME, atol=SAME)


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


# Nodes that onnx itself writes, run by onnxruntime.


def value(name, array):
    import onnx  # noqa: PLC0415

    return onnx.numpy_helper.from_array(np.asarray(array), name)


def write(file, nodes, stored, inputs=None, outputs=("y",), opset=14):
    """A model of nodes, each ``(op_type, inputs, outputs, attributes)``."""
    import onnx  # noqa: PLC0415

    make, info = onnx.helper, onnx.helper.make_tensor_value_info
    graph = make.make_graph(
        [
            make.make_node(op, ins, outs, name=f"n{k}", **atts)
            for k, (op, ins, outs, atts) in enumerate(nodes)
        ],
        "g",
        [info(n, onnx.TensorProto.FLOAT, shape) for n, shape in (inputs or {"x": ["T", "B", I]}).items()],
        [info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [value(name, array) for name, array in stored.items()],
    )
    opsets = [make.make_opsetid("", opset)]
    onnx.save(make.make_model(graph, ir_version=8, opset_imports=opsets), file)
    return file


def arrays(operator="LSTM", directions=1, size=I, end=""):
    rng = np.random.default_rng(3)
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator] * H
    shapes = {"W": (directions, rows, size), "R": (directions, rows, H), "B": (directions, 2 * rows)}
    return {
        name + end: rng.normal(size=shape, scale=0.3).astype(np.float32) for name, shape in shapes.items()
    }


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


# What torch's exporters write.


class Call(torch.nn.Module):
    """A network, perhaps with a state that is given or learnt."""

    def __init__(self, rnn, learnt=None):
        super().__init__()
        self.rnn, self.learnt = rnn, learnt
        self.start = torch.nn.Parameter(torch.randn(rnn.num_layers, 1, H))

    def forward(self, x, h=None, c=None):
        if self.learnt == "expand":
            h = self.start.expand(-1, x.shape[1], -1).contiguous()
        if self.learnt == "repeat":
            h = self.start.repeat(1, x.shape[1], 1)
        if self.learnt == "full":
            h = torch.full((self.rnn.num_layers, x.shape[1], H), 0.5)
        output, last = self.rnn(x, h if c is None else (h, c))
        return (output, *last) if isinstance(last, tuple) else (output, last)


class Padded(torch.nn.Module):
    """One of our modules, with lengths."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x, lengths):
        output, last = self.rnn(x, lengths=lengths)
        return (output, *last) if isinstance(last, tuple) else (output, last)


class Packed(Padded):
    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0])[0]


@pytest.fixture(params=EXPORTERS)
def export(request, tmp_path):
    def exported(module, arguments, axes):
        file = str(tmp_path / "model.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says much of its own modules when it exports them
            EXPORTERS[request.param](module.eval(), arguments, axes, file)
        return file

    exported.name = request.param
    return exported


def run_exported(file, *values):
    import onnxruntime  # noqa: PLC0415

    session = onnxruntime.InferenceSession(file)
    names = [one.name for one in session.get_inputs()]
    return [
        torch.from_numpy(a)
        for a in session.run(None, {n: v.numpy() for n, v in zip(names, values, strict=True)})
    ]


TIME_FIRST, BATCH_FIRST = {0: "T", 1: "B"}, {0: "B", 1: "T"}


@pytest.mark.parametrize(
    ("kind", "layers", "options"),
    [
        ("LSTM", 1, {}),
        ("LSTM", 2, {"bidirectional": True}),
        ("LSTM", 3, {"batch_first": True, "dropout": 0.5}),
        ("LSTM", 2, {"bias": False}),
        ("GRU", 2, {"bidirectional": True, "batch_first": True}),
        ("GRU", 3, {"bias": False}),
        ("RNN", 2, {"bidirectional": True}),
        ("RNN", 2, {"nonlinearity": "relu"}),
    ],
)
def test_networks_of_torch(export, kind, layers, options):
    rnn = getattr(torch.nn, kind)(I, H, layers, **options)
    batch_first = options.get("batch_first", False)
    example = torch.randn(6, T, I) if batch_first else torch.randn(T, 6, I)
    file = export(Call(rnn), (example,), (BATCH_FIRST if batch_first else TIME_FIRST,))
    if kind == "RNN" and export.name == "dynamo":
        with pytest.raises(InvalidValueError, match=r"writes the steps of torch.nn.RNN out .* dynamo=False"):
            load_nodes(file)
        return
    descriptor, weights, _ = from_onnx(load_nodes(file))
    assert (descriptor.num_layers, descriptor.bidirectional) == (layers, "bidirectional" in options)
    assert descriptor.bias.value == ("none" if "bias" in options else "double")
    for name, tensor in rnn.state_dict().items():
        assert_bitwise(tensor, weights[name].detach())
    output, last = rnn_forward(descriptor, weights, example, batch_first=batch_first)
    check([output, *(part for part in last if part is not None)], run_exported(file, example))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_state_that_is_given(export, kind):
    states = [torch.randn(2, 6, H) for _ in range(2 if kind == "LSTM" else 1)]
    axes, x = (TIME_FIRST, *({1: "B"} for _ in states)), torch.randn(T, 6, I)
    file = export(Call(getattr(torch.nn, kind)(I, H, 2)), (x, *states), axes)
    nodes = load_nodes(file)
    assert not any("initial_h" in node or "initial_c" in node for node in nodes)
    descriptor, weights, done = FILE.read(file, Reading())
    assert "initial_h is state= of a call" in done
    assert ("initial_c is state= of a call, beside h" in done) == (kind == "LSTM")
    output, _ = rnn_forward(descriptor, weights, x, tuple(states) if len(states) == 2 else states[0])
    check([output], run_exported(file, x, *states)[:1])


@pytest.mark.parametrize("learnt", ["expand", "repeat", "full"])
def test_a_state_that_is_learnt(export, learnt):
    """It is a constant of the model, and comes back as one."""
    module, x = Call(torch.nn.GRU(I, H, 2), learnt), torch.randn(T, 6, I)
    file = export(module, (x,), (TIME_FIRST,))
    nodes = load_nodes(file)
    with pytest.raises(InvalidValueError, match="initial_h of node 1 is not zero"):
        from_onnx(nodes)
    state = state_from_onnx(nodes)
    assert_bitwise(torch.full((2, 1, H), 0.5) if learnt == "full" else module.start.detach(), state.h)
    weights_only = [{k: v for k, v in node.items() if k != "initial_h"} for node in nodes]
    descriptor, weights, _ = from_onnx(weights_only)
    output, last = rnn_forward(descriptor, weights, x, state)
    check([output, last.h], run_exported(file, x))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (rnncompat.LSTM, {"bidirectional": True}),
        (rnncompat.GRU, {"bias": "input"}),
        (rnncompat.RNN, {"nonlinearity": "relu"}),
    ],
)
def test_networks_of_ours_with_lengths(export, kind, options):
    module = Padded(kind(I, H, 2, **options))
    example = torch.randn(T, 6, I), torch.tensor([7, 2, 3, 1, 1, 4])
    file = export(module, example, (TIME_FIRST, {0: "B"}))
    descriptor, weights, done = FILE.read(file, Reading())
    assert "sequence_lens is lengths= of a call" in done
    x, lengths = torch.randn(9, 4, I), torch.tensor([9, 1, 0, 5])
    output, last = rnn_forward(descriptor, weights, x, lengths=lengths)
    check([output, *(part for part in last if part is not None)], run_exported(file, x, lengths))


@pytest.mark.parametrize("export", ["torchscript"], indirect=True)
def test_a_packed_sequence(export):
    module = Packed(torch.nn.GRU(I, H, 2, bidirectional=True))
    file = export(module, (torch.randn(T, 3, I), torch.tensor([7, 2, 3])), (TIME_FIRST, {0: "B"}))
    descriptor, weights, done = FILE.read(file, Reading())
    assert "sequence_lens is lengths= of a call" in done
    for name, tensor in module.rnn.state_dict().items():
        assert_bitwise(tensor, weights[name].detach())
    x, lengths = torch.randn(9, 4, I), torch.tensor([9, 1, 2, 5])
    check([rnn_forward(descriptor, weights, x, lengths=lengths)[0]], run_exported(file, x, lengths))


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.LSTM(I, H, 2)
        self.decoder = torch.nn.GRU(H, H)

    def forward(self, x):
        return self.decoder(torch.relu(self.encoder(x)[0]))[0]


@pytest.mark.parametrize("export", ["torchscript"], indirect=True)
def test_one_of_several_networks_is_told_by_name(export):
    model = Two()
    file = export(model, (torch.randn(T, 6, I),), (TIME_FIRST,))
    for name, rnn in (("/encoder", model.encoder), ("/decoder/GRU", model.decoder)):
        descriptor, weights, _ = from_onnx(load_nodes(file, name=name))
        assert descriptor.num_layers == rnn.num_layers
        for key, tensor in rnn.state_dict().items():
            assert_bitwise(tensor, weights[key].detach())
    for name in ("", "/", "/head"):
        with pytest.raises(InvalidValueError, match=f"name is '{name}'; .* '/encoder/LSTM', '/decoder/GRU'"):
            load_nodes(file, name=name)


def test_constants_that_were_not_folded(tmp_path):
    file = str(tmp_path / "m.onnx")
    rnn = torch.nn.LSTM(I, H, 2, bidirectional=True)
    options = {} if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5) else {"dynamo": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Call(rnn).eval(), (torch.randn(T, B, I),), file, do_constant_folding=False, **options
        )
    descriptor, weights, _ = from_onnx(load_nodes(file))
    assert descriptor == RNNDescriptor("lstm", I, H, num_layers=2, bidirectional=True)
    for name, tensor in rnn.state_dict().items():
        assert_bitwise(tensor, weights[name].detach())


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


# Between the nodes.


def two(between, opset=14, last=False, **more):
    """Two GRU nodes with something between, and what it needs."""
    stored = {**arrays("GRU"), **arrays("GRU", size=H, end="2"), **more}
    attributes = {"hidden_size": H, "linear_before_reset": 1}
    lengths = "lengths" if "lengths" in more else ""
    nodes = [
        ("GRU", ["x", "W", "R", "B", lengths], ["a", "a_h"], attributes),
        *between,
        ("GRU", ["b", "W2", "R2", "B2", "", *(["a_h"] if last else [])], ["y"], attributes),
    ]
    return {"nodes": nodes, "stored": stored, "opset": opset}


ONE = np.array([1])
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
    assert from_onnx(load_nodes(file, name="n0")).descriptor == RNNDescriptor("gru", I, H)


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


# What cannot be read.


def test_damaged_files(tmp_path):
    descriptor = RNNDescriptor("lstm", I, H, num_layers=2)
    whole, broken = tmp_path / "m.onnx", tmp_path / "broken.onnx"
    save_model(whole, descriptor, RNNWeights.init(descriptor))
    content = whole.read_bytes()
    for cut in (*range(40), *range(40, len(content), 97), len(content) - 1):
        broken.write_bytes(content[:cut])
        with pytest.raises(RNNCompatError, match=r"broken\.onnx"):
            load_nodes(broken)
    for junk in (b"", b"junk", b"\x00" * 100, b"PK\x03\x04" * 9):
        broken.write_bytes(junk)
        with pytest.raises(InvalidValueError, match=r"broken\.onnx is no whole ONNX model"):
            load_nodes(broken)
    with pytest.raises(FileNotFoundError):
        load_nodes(tmp_path / "none.onnx")
    with pytest.raises(OSError, match="No such file"):
        save_model(tmp_path / "no" / "such.onnx", descriptor, RNNWeights.init(descriptor))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
@examples(80)
def test_changed_bytes_are_read_or_refused_in_words(tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("onnx")
    descriptor = RNNDescriptor("gru", 1, 2)
    save_model(folder / "m.onnx", descriptor, RNNWeights.init(descriptor))
    content = bytearray((folder / "m.onnx").read_bytes())
    for place, byte in changes:
        content[place % len(content)] = byte
    (folder / "m.onnx").write_bytes(content)
    try:
        read = FILE.read(folder / "m.onnx", Reading())
    except RNNCompatError:
        return
    assert read.weights.flat.numel() <= len(content)


def bomb(nodes, stored):
    return {
        "nodes": [*nodes, ("LSTM", ["x", "big", "R", "B"], ["y"], {"hidden_size": H})],
        "stored": {**arrays(), **stored},
    }


HOSTILE = {
    "a fill": bomb([("ConstantOfShape", ["s"], ["big"], {})], {"s": np.array([1, 20, 10**15])}),
    "copies": bomb([("Expand", ["W", "s"], ["big"], {})], {"s": np.array([10**12, 20, I])}),
    "tiles": bomb([("Tile", ["W", "s"], ["big"], {})], {"s": np.array([10**12, 1, 1])}),
    "doubling": bomb(
        [
            (
                "Concat",
                [f"d{k}" if k else "W", f"d{k}" if k else "W"],
                [f"d{k + 1}" if k < 60 else "big"],
                {"axis": 2},
            )
            for k in range(61)
        ],
        {},
    ),
    "broadcasts": bomb(
        [("Add", ["column", "row"], ["big"], {})],
        {"column": np.zeros((1, 10**5, 1), np.float32), "row": np.zeros((1, 1, 10**5), np.float32)},
    ),
    "gathered again and again": bomb([("Gather", ["W", "s"], ["big"], {})], {"s": np.zeros(10**5, np.int64)}),
    "a wrong slice": bomb([("Slice", ["W", "s", "s", "s", "s"], ["big"], {})], {"s": np.array([7, 7])}),
    "an operator of another kind": bomb([("Sin", ["W"], ["big"], {})], {}),
    "an input": {"nodes": [("LSTM", ["x", "x", "R", "B"], ["y"], {"hidden_size": H})], "stored": arrays()},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_models(case, tmp_path):
    file = write(tmp_path / "m.onnx", **HOSTILE[case])
    with pytest.raises(
        UnsupportedError, match=r"W of n[0-9]+ comes out of .* and is no constant that can be read"
    ):
        load_nodes(file)


def test_a_model_without_such_nodes(tmp_path):
    file = write(tmp_path / "m.onnx", [("Relu", ["x"], ["y"], {})], {})
    with pytest.raises(InvalidValueError, match="has no node LSTM, GRU, RNN in its main graph"):
        load_nodes(file)


def test_data_outside_the_folder_is_not_read(tmp_path):
    import onnx  # noqa: PLC0415

    (tmp_path / "inner").mkdir()
    (tmp_path / "secret").write_bytes(b"\0" * 4096)
    file = tmp_path / "inner" / "m.onnx"
    write(file, [("LSTM", ["x", "W", "R", "B"], ["y"], {"hidden_size": H})], arrays())
    model = onnx.load(file)
    outside = model.graph.initializer[0]
    outside.ClearField("raw_data")
    outside.data_location = onnx.TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="../secret")
    file.write_bytes(model.SerializeToString())
    with pytest.raises(InvalidValueError, match=r"is no whole ONNX model"):
        load_nodes(file)


def test_data_beside_the_model(tmp_path, monkeypatch):
    import onnx  # noqa: PLC0415

    file = write(tmp_path / "m.onnx", [("LSTM", ["x", "W", "R", "B"], ["y"], {"hidden_size": H})], arrays())
    expected = from_onnx(load_nodes(file)).weights.flat.detach()
    monkeypatch.chdir(tmp_path)  # onnx looks there whether the data are new
    onnx.save(onnx.load(file), file, save_as_external_data=True, location="m.data", size_threshold=0)
    assert_bitwise(expected, from_onnx(load_nodes(file)).weights.flat.detach())
    (tmp_path / "m.data").unlink()
    with pytest.raises((InvalidValueError, OSError), match=r"m\.data"):
        load_nodes(file)


def test_what_no_file_can_hold(tmp_path, monkeypatch):
    descriptor = RNNDescriptor("gru", I, H)
    with pytest.raises(InvalidTypeError, match=r"weights have dtype torch.bfloat16; expected one of"):
        save_model(tmp_path / "m.onnx", descriptor, RNNWeights.init(descriptor, dtype=torch.bfloat16))
    monkeypatch.setattr(onnx_file, "_MOST", 599)
    with pytest.raises(UnsupportedError, match=r"weights are 600 bytes; an ONNX file"):
        save_model(tmp_path / "m.onnx", descriptor, RNNWeights.init(descriptor))
    assert not (tmp_path / "m.onnx").exists()


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
