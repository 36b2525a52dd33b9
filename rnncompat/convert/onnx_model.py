"""A whole ONNX model of one network: any number of steps and rows, lengths and state given to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from ..descriptor import RNNDescriptor

__all__ = ["build_model"]

_OPSET, _IR = 14, 8  # what runtimes of 2021 read


def build_model(onnx: ModuleType, descriptor: RNNDescriptor, nodes: Sequence[Mapping[str, Any]]) -> Any:
    """A model of *nodes*, as :func:`~rnncompat.convert.onnx.to_onnx` gives them.

    Inputs ``x`` ``[T, B, I]``, ``lengths`` ``[B]`` int32, ``h`` and, of an LSTM, ``c`` ``[L*D, B, H]``; outputs
    ``output`` ``[T, B, D*H]``, ``h_n`` and ``c_n``.
    """
    states = ["h", "c"] if descriptor.has_cell_state else ["h"]
    stored = list(_stored(onnx, descriptor, nodes))
    number = next(one.data_type for one in stored if one.name == "W_0")
    rows = descriptor.num_pseudo_layers, "B", descriptor.hidden_size
    inputs = {"x": ("T", "B", descriptor.input_size), **dict.fromkeys(states, rows)}
    width = descriptor.num_directions * descriptor.hidden_size
    outputs = {"output": ("T", "B", width), **{f"{state}_n": rows for state in states}}
    info = onnx.helper.make_tensor_value_info
    x, *rest = (info(name, number, shape) for name, shape in inputs.items())
    graph = onnx.helper.make_graph(
        list(_graph_nodes(onnx, nodes, states)),
        descriptor.cell.value,
        [x, info("lengths", onnx.TensorProto.INT32, ["B"]), *rest],
        [info(name, number, shape) for name, shape in outputs.items()],
        stored,
    )
    opsets = [onnx.helper.make_opsetid("", _OPSET)]
    return onnx.helper.make_model(graph, ir_version=_IR, opset_imports=opsets, producer_name="rnncompat")


def _stored(onnx: ModuleType, descriptor: RNNDescriptor, nodes: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """The weights of every node, and the shapes, axes and rows that others need."""
    directions = descriptor.num_directions
    arrays = {
        f"{field}_{layer}": node[field] for layer, node in enumerate(nodes) for field in ("W", "R", "B")
    }
    arrays["joined"] = torch.tensor([0, 0, directions * descriptor.hidden_size])
    arrays["rows"] = torch.full((len(nodes),), directions)
    arrays["none"], arrays["last"] = torch.tensor(0, dtype=torch.int32), torch.tensor([-1])
    for name, array in arrays.items():
        yield onnx.numpy_helper.from_array(array.numpy(), name)


def _graph_nodes(
    onnx: ModuleType, nodes: Sequence[Mapping[str, Any]], states: Sequence[str]
) -> Iterator[Any]:
    make, layers = onnx.helper.make_node, range(len(nodes))
    for state in states:
        yield make(
            "Split", [state, "rows"], [f"{state}_{layer}" for layer in layers], f"split_{state}", axis=0
        )
    for layer, node in enumerate(nodes):
        x = f"output_{layer - 1}" if layer else "x"
        given = [x, *(f"{field}_{layer}" for field in ("W", "R", "B")), "lengths"]
        own = [f"{state}_{layer}" for state in states]
        made = [f"y_{layer}", *(f"{state}_n_{layer}" for state in states)]
        yield make(node["op_type"], [*given, *own], made, f"layer_{layer}", **node["attributes"])
        yield make("Transpose", [f"y_{layer}"], [f"moved_{layer}"], f"move_{layer}", perm=[0, 2, 1, 3])
        output = "output" if layer == layers[-1] else f"output_{layer}"
        yield make("Reshape", [f"moved_{layer}", "joined"], [output], f"join_{layer}")
    # A row without steps keeps its state; onnxruntime (1.32) gives zeros for it.
    yield make("Equal", ["lengths", "none"], ["without"], "compare")
    yield make("Unsqueeze", ["without", "last"], ["empty"], "widen")
    for state in states:
        finals = [f"{state}_n_{layer}" for layer in layers]
        yield make("Concat", finals, [f"{state}_all"], f"concat_{state}", axis=0)
        yield make("Where", ["empty", state, f"{state}_all"], [f"{state}_n"], f"keep_{state}")
