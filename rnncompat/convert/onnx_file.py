"""ONNX models in files: their recurrent nodes as plain data, and a model of a network's own.

Needs the extra ``onnx``: ``pip install 'rnncompat[onnx]'``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..descriptor import RNNDescriptor
from ..errors import InvalidTypeError, InvalidValueError, UnsupportedError, bad_shape, bad_value
from ..weights import RNNWeights
from .arrays import read_array
from .extras import require
from .file_format import FileFormat, Reading
from .onnx import from_onnx, to_onnx
from .onnx_chains import RECURRENT, find_chains
from .onnx_constants import Constants
from .onnx_model import build_model
from .onnx_sizes import attributes_of_node, name_of_node
from .result import Converted

__all__ = ["FILE", "load_nodes", "save_model"]

_PURPOSE = "An ONNX file"
_INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
_WEIGHTS, _STATES = ("W", "R", "B", "P"), ("initial_h", "initial_c")
_OF_A_CALL = {
    "sequence_lens": "sequence_lens is lengths= of a call",
    "initial_h": "initial_h is state= of a call",
    "initial_c": "initial_c is state= of a call, beside h",
}
"""What the model is given, and where a call takes it."""

_DTYPES = (torch.float64, torch.float32, torch.float16)
_MOST = 2**31 - 2**20  # of what protobuf can hold, some left for all but the weights


def load_nodes(path: str | os.PathLike[str], *, name: str = "") -> list[dict[str, Any]]:
    """Reads the recurrent nodes of one network out of an ONNX model.

    Nodes are one network if each takes what the one before gives, moved only from ``[T, D, B, H]`` to
    ``[T, B, D*H]``, and is of its kind and size. Weights may be cut and joined out of constants on their way.

    Args:
        path: the file; what torch's exporters write reads, and what others write if it has such nodes.
        name: the beginning of the name of the network's first node, where the model has several networks.

    Returns:
        Nodes for :func:`~rnncompat.convert.onnx.from_onnx`, with ``initial_h`` and ``initial_c`` where these are
        constants that are not all zero: :func:`~rnncompat.convert.onnx.state_from_onnx` reads them; and with
        ``sequence_lens`` where that is constant: it is ``lengths=`` of a call.

    Raises:
        UnsupportedError: onnx is not installed; or weights depend on the inputs of the model.
        InvalidValueError: the file is damaged, holds no such nodes, or several networks that *name* does not tell.
        OSError: the file cannot be read.
    """
    nodes, _ = _find(path, name)
    return nodes


def save_model(
    path: str | os.PathLike[str], descriptor: RNNDescriptor, weights: RNNWeights
) -> tuple[str, ...]:
    """Writes a model that runtimes of ONNX run, for any number of steps and rows.

    Its inputs are ``x`` ``[T, B, I]``, ``lengths`` ``[B]`` (int32) and the initial state ``h`` and, of an LSTM, ``c``
    ``[L*D, B, H]``; its outputs ``output`` ``[T, B, D*H]``, zeros past a row's length, ``h_n`` and ``c_n``.

    Args:
        path: where to; ``.onnx`` is the usual ending.
        descriptor: the network.
        weights: its weights, of any device.

    Returns:
        What was done, as :class:`~rnncompat.convert.Exported` has it.

    Raises:
        UnsupportedError: onnx is not installed; the network has a projection or a clip; or it is of 2 GiB and more.
        InvalidTypeError: weights of another dtype than float64, float32 or float16.
        OSError: the file cannot be written.
    """
    onnx = require("onnx", "onnx", _PURPOSE)
    nodes, done = to_onnx(descriptor, weights)
    dtype = nodes[0]["W"].dtype
    if dtype not in _DTYPES:
        raise InvalidTypeError(f"weights have dtype {dtype}; expected one of {list(_DTYPES)}.")
    size = sum(node[f].numel() * node[f].element_size() for node in nodes for f in ("W", "R", "B"))
    if size > _MOST:
        raise UnsupportedError(f"weights are {size} bytes; an ONNX file holds at most {_MOST}.")
    onnx.save(build_model(onnx, descriptor, nodes), os.fspath(path))
    return done


def _find(path: str | os.PathLike[str], name: str) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The nodes, and what there is to say of them."""
    library, model = _load(path)
    constants = Constants(library, model)
    chain = _choose(path, find_chains(library, model.graph, constants), name)
    nodes = [_plain(library, node, constants) for node in chain]
    said = [f"read the nodes {', '.join(map(name_of_node, chain))}"]
    given = {
        field
        for node in chain
        for field, name in _inputs(node, constants).items()
        if field in _OF_A_CALL and constants.depends_on_inputs(name)
    }
    said += [text for field, text in _OF_A_CALL.items() if field in given]
    return nodes, tuple(said)


def _load(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    library = require("onnx", "onnx", _PURPOSE)
    for module in ("onnx.numpy_helper", "onnx.reference"):
        require(module, "onnx", _PURPOSE)
    try:
        model = library.load(os.fspath(path))
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  # a damaged or hostile file can raise anything
        reason = f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0]
        raise InvalidValueError(f"{path} is no whole ONNX model ({reason}).") from None
    if not model.HasField("graph"):
        raise InvalidValueError(f"{path} is no whole ONNX model (it holds no graph).")
    return library, model


def _choose(path: object, chains: Sequence[Sequence[Any]], name: str) -> Sequence[Any]:
    if not chains:
        raise InvalidValueError(
            f"{path} has no node {', '.join(RECURRENT)} in its main graph. torch's newer exporter writes the steps of "
            "torch.nn.RNN out one by one: export that with dynamo=False."
        )
    fitting = [chain for chain in chains if name_of_node(chain[0]).startswith(name)]
    exact = [chain for chain in fitting if name_of_node(chain[0]) == name]
    if len(exact or fitting) == 1:
        return (exact or fitting)[0]
    names = [name_of_node(chain[0]) for chain in chains]
    raise bad_value(
        "name",
        name,
        f"the beginning of the name of one network's first node, in this model of {', '.join(map(repr, names))}",
    )


def _inputs(node: Any, constants: Constants) -> dict[str, str]:
    """Names of the values that the node takes, but for states of zeros."""
    given = {field: name for field, name in zip(_INPUTS, node.input, strict=False) if name}
    return {
        field: name
        for field, name in given.items()
        if field not in _STATES or constants.filled_with(name) != 0
    }


def _plain(library: Any, node: Any, constants: Constants) -> dict[str, Any]:
    given = _inputs(node, constants)
    arrays = {field: _weights(node, field, given[field], constants) for field in _WEIGHTS if field in given}
    attributes = attributes_of_node(library, node)
    states = {
        field: _state(node, field, given[field], _one_row(arrays["R"], attributes), constants)
        for field in _STATES
        if field in given and not constants.depends_on_inputs(given[field])
    }
    lengths = constants.value(given["sequence_lens"]) if "sequence_lens" in given else None
    calls = {} if lengths is None else {"sequence_lens": lengths}
    return {"op_type": node.op_type, **arrays, **states, **calls, "attributes": attributes}


def _weights(node: Any, field: str, name: str, constants: Constants) -> Any:
    array = constants.value(name)
    if array is None:
        raise _unread(node, field, name, constants)
    return array


def _one_row(recurrent: Any, attributes: Mapping[str, Any]) -> Tensor:
    """Zeros in the shape of the state of one row, as the layout has it."""
    like = read_array("R", recurrent)
    if like.dim() != 3:
        raise bad_shape("R", like, "[D, G*H, H]")
    directions, _, hidden = like.shape
    return like.new_zeros((1, directions, hidden) if attributes.get("layout") else (directions, 1, hidden))


def _state(node: Any, field: str, name: str, row: Tensor, constants: Constants) -> Any:
    """A constant initial state: of every row, or of one if all are alike."""
    number = constants.filled_with(name)
    if number is not None:
        return torch.full_like(row, number)
    array = constants.value(name)
    if array is None:
        array = constants.value(name, batch_of_one=True)
    if array is None:
        raise _unread(node, field, name, constants)
    return array.reshape((1,) * (3 - array.ndim) + array.shape)


def _unread(node: Any, field: str, name: str, constants: Constants) -> UnsupportedError:
    return UnsupportedError(
        f"{field} of {name_of_node(node)} comes out of {constants.maker(name)} and is no constant that can be read "
        "here. Export the model with its constants folded."
    )


def _read(path: Path, reading: Reading) -> Converted:
    nodes, said = _find(path, reading.prefix)
    descriptor, weights, done = from_onnx(nodes)
    return Converted(descriptor, weights, (*said, *done))


FILE = FileFormat(
    name="onnx",
    title="a model with LSTM, GRU or RNN nodes",
    suffixes=(".onnx",),
    read=_read,
    write=save_model,
    takes=frozenset({"prefix"}),
)
