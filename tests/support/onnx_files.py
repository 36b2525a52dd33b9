"""Models of ONNX in files: made of nodes, run by onnxruntime, compared."""

from __future__ import annotations

import numpy as np
import torch

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
