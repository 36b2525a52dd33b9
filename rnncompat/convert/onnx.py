"""ONNX's nodes ``LSTM``, ``GRU`` and ``RNN``: ``W``, ``R`` and ``B`` of each, and their attributes.

A node is one layer: ``W`` ``[D, G*H, I]``, ``R`` ``[D, G*H, H]``, ``B`` ``[D, 2*G*H]`` (input bias, then recurrent), its
gates i o f c or z r h. Nodes that follow each other are one network.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..backends.onnx_weights import GATES, OPERATORS, attributes_of, pack
from ..descriptor import Bias, Cell, InputMode, RNNDescriptor
from ..errors import InvalidValueError, UnsupportedError
from ..layout import layout_of
from ..state import RNNState
from ..weights import RNNWeights
from .arrays import expect_one_dtype, expect_shape
from .biases import said_both
from .gates import OURS, reorder, said
from .given import on_cpu, refuse_options, said_dropout
from .onnx_nodes import Layer, Node, named_nodes, read_node
from .result import Converted, Exported

__all__ = ["from_onnx", "state_from_onnx", "to_onnx"]


def from_onnx(nodes: Node | Sequence[Node]) -> Converted:
    """Weights out of a recurrent node of ONNX, or of several that follow each other.

    ``X``, ``sequence_lens`` and initial states that a model is given are no weights but belong to a call:
    ``sequence_lens`` is ``lengths=``; the ``initial_h`` and ``initial_c`` of the layers, one after another along the
    first axis, are ``state=(h, c)``.

    Args:
        nodes: each a mapping with ``op_type`` (``"LSTM"``, ``"GRU"`` or ``"RNN"``), ``W`` ``[D, G*H, I]`` and ``R``
            ``[D, G*H, H]``, and perhaps ``B`` ``[D, 2*G*H]``, ``attributes`` by name, and ``P``, ``initial_h`` and
            ``initial_c``, which must be zeros. In a stack the next ``W`` is ``[D, G*H, D*H]``. Constant
            ``sequence_lens`` are refused: a call takes them.

    Raises:
        InvalidValueError: a field is missing, or of a shape that does not fit; or an initial state is not zero, or a
            node has ``sequence_lens``.
        InvalidTypeError: an array cannot be read, or dtypes differ.
        UnsupportedError: a node is a GRU with ``linear_before_reset=0``, has peepholes, ``clip``, ``input_forget`` or
            other activations, or runs backward alone; or nodes differ in cell, directions or hidden size.

    Example:
        >>> node = {
        ...     "op_type": "GRU",
        ...     "W": torch.zeros(2, 15, 3),
        ...     "R": torch.zeros(2, 15, 5),
        ...     "attributes": {"direction": "bidirectional", "linear_before_reset": 1},
        ... }
        >>> descriptor, weights, done = from_onnx(node)
        >>> descriptor
        RNNDescriptor('gru', 3, 5, bidirectional=True, bias='none')
        >>> done
        ('gates z r n became r z n',)
    """
    read = [read_node(name, node) for name, node in named_nodes(nodes)]
    for layer in read:
        _refuse_state(layer)
        _refuse_lengths(layer)
    expect_one_dtype({name: array for layer in read for name, array in layer.arrays()})
    descriptor = _describe(read)
    weights = RNNWeights(descriptor, read[0].r.new_zeros(layout_of(descriptor).size))
    for number, layer in enumerate(read):
        _fill(weights, number, layer)
    return Converted(descriptor, weights.requires_grad_(), _done(descriptor, read))


def to_onnx(descriptor: RNNDescriptor, weights: RNNWeights) -> Exported:
    """One node a layer, ``Y`` ``[T, D, B, H]`` of each being ``X`` ``[T, B, D*H]`` of the next.

    Returns:
        A list of mappings with ``op_type``, ``W``, ``R``, ``B`` and ``attributes``. Both biases are given, zeros for
        one that the network has not; skip input becomes unit matrices.

    Raises:
        UnsupportedError: the network has a projection or a clip.

    Example:
        >>> descriptor = RNNDescriptor("lstm", 3, 5, num_layers=2)
        >>> (first, second), done = to_onnx(descriptor, RNNWeights.init(descriptor))
        >>> first["op_type"], first["W"].shape, first["B"].shape
        ('LSTM', torch.Size([1, 20, 3]), torch.Size([1, 40]))
        >>> second["attributes"], done
        ({'hidden_size': 5, 'direction': 'forward'}, ('gates i f g o became i o f g',))
    """
    refuse_options(descriptor, "ONNX", ("proj_size", "cell_clip"))
    layers = on_cpu(descriptor, weights).by_layer()
    nodes = []
    for first in range(0, len(layers), descriptor.num_directions):
        own = pack(descriptor, layers[first : first + descriptor.num_directions])
        arrays = {"W": own.w, "R": own.r, "B": own.b}
        nodes.append(
            {"op_type": OPERATORS[descriptor.cell], **arrays, "attributes": attributes_of(descriptor)}
        )
    skips = descriptor.input_mode is InputMode.SKIP
    done = (
        *said(OURS[descriptor.cell], _order(descriptor.cell)),
        *(("skip input became unit matrices",) if skips else ()),
        *said_both(descriptor.bias),
        *said_dropout(descriptor),
    )
    return Exported(nodes, done)


def state_from_onnx(nodes: Node | Sequence[Node]) -> RNNState:
    """The constant initial state of nodes, ``initial_h`` and ``initial_c``, for a call to be given.

    Args:
        nodes: as for :func:`from_onnx`; each state is ``[D, B, H]``, or ``[B, D, H]`` with ``layout=1``. One that a
            node has not is zeros.

    Returns:
        h and, for an LSTM, c, ``[L*D, B, H]``. With B = 1 it serves a batch of any size.

    Raises:
        InvalidValueError: a shape does not fit, or nodes differ in batch size.

    Example:
        >>> node = {"op_type": "RNN", "W": torch.zeros(1, 5, 3), "R": torch.zeros(1, 5, 5)}
        >>> state_from_onnx([{**node, "initial_h": torch.ones(1, 1, 5)}]).h.shape
        torch.Size([1, 1, 5])
    """
    read = [read_node(name, node) for name, node in named_nodes(nodes)]
    batches = {state.shape[1] for layer in read for state in (layer.h, layer.c) if state is not None} - {1}
    if len(batches) > 1:
        raise InvalidValueError(f"nodes have initial states of batch sizes {sorted(batches)}; expected one.")
    batch = max(batches, default=1)
    has_c = _describe(read).has_cell_state
    h = torch.cat([_state(layer, layer.h, batch) for layer in read])
    return RNNState(h, torch.cat([_state(layer, layer.c, batch) for layer in read]) if has_c else None)


def _refuse_state(layer: Layer) -> None:
    for field, state in (("initial_h", layer.h), ("initial_c", layer.c)):
        if state is not None and bool((state != 0).any()):
            raise InvalidValueError(
                f"{field} of {layer.name} is not zero, and a descriptor holds no state. Read it with "
                "state_from_onnx, pass it to each call, and leave it out here."
            )


def _refuse_lengths(layer: Layer) -> None:
    if layer.has_lengths:
        raise InvalidValueError(
            f"sequence_lens of {layer.name} is constant, and a descriptor holds no lengths. Pass it to each call as "
            "lengths=, and leave it out here."
        )


def _describe(read: Sequence[Layer]) -> RNNDescriptor:
    first, hidden = read[0], read[0].r.shape[2]
    for layer in read:
        if (layer.kind, layer.r.shape[2]) != (first.kind, hidden):
            raise UnsupportedError(
                f"{first.name} is {_shown(first)}, but {layer.name} is {_shown(layer)}; a descriptor has one kind "
                "of layer. Convert them one by one."
            )
    for layer in read[1:]:
        shape = (*layer.w.shape[:2], first.kind.directions * hidden)
        expect_shape(f"W of {layer.name}", layer.w, shape, "[D, G*H, D*H] behind another layer")
    return RNNDescriptor(
        first.kind.cell,
        first.w.shape[2],
        hidden,
        num_layers=len(read),
        bidirectional=first.kind.directions == 2,
        bias=Bias.NONE if all(layer.b is None for layer in read) else Bias.DOUBLE,
    )


def _shown(layer: Layer) -> str:
    cell, directions, batch_first = layer.kind
    return f"{cell.value!r} with D = {directions}, H = {layer.r.shape[2]} and layout {int(batch_first)}"


def _fill(weights: RNNWeights, number: int, layer: Layer) -> None:
    """Copies one node into its pseudo-layers."""
    cell, directions = layer.kind.cell, layer.kind.directions
    for direction in range(directions):
        own = weights.by_layer()[number * directions + direction]
        biases = (None, None) if layer.b is None else layer.b[direction].chunk(2)
        theirs = (layer.w[direction], layer.r[direction], *biases)
        for ours, array in zip(own, theirs, strict=False):
            if ours is not None and array is not None:
                ours.copy_(reorder(array, _order(cell), OURS[cell]))


def _state(layer: Layer, state: Tensor | None, batch: int) -> Tensor:
    """``[D, B, H]`` in memory of its own, zeros where the node has none."""
    shape = (layer.kind.directions, batch, layer.r.shape[2])
    return layer.r.new_zeros(shape) if state is None else state.expand(shape).clone()


def _order(cell: Cell) -> str:
    """The gates as ONNX stacks them, in our letters."""
    return "".join(OURS[cell][gate] for gate in GATES[cell])


def _done(descriptor: RNNDescriptor, read: Sequence[Layer]) -> tuple[str, ...]:
    lacking = descriptor.bias is Bias.DOUBLE and any(layer.b is None for layer in read)
    return (
        *said(_order(descriptor.cell), OURS[descriptor.cell]),
        *(("added biases of zeros to the layers without B",) if lacking else ()),
        *(("layout=1 is batch_first=True of a call",) if read[0].kind.batch_first else ()),
    )
