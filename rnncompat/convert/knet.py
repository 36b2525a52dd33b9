"""Knet's ``RNN``: its flat ``w``, or the matrices of each gate as ``rnnparams(r)`` lists them.

``w`` is our flat buffer with both biases. ``rnnparams`` shows it gate by gate: matrices ``(in, H)``, transposed, by
layer and id, then biases ``(H,)`` in the same order; a direction counts as a layer there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from ..descriptor import Cell, InputMode, RNNDescriptor
from ..errors import InvalidValueError, bad_type, check_choice
from ..layout import layout_of
from ..weights import RNNWeights
from .arrays import expect_one_dtype, expect_shape, read_array
from .biases import said_both, with_both_biases
from .given import on_cpu, refuse_options, said_dropout
from .result import Converted, Exported

__all__ = ["from_knet", "from_rnnparams", "to_knet", "to_rnnparams"]


def from_knet(
    w: Any,
    *,
    cell: Cell | str,
    input_size: int,
    hidden_size: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    skip_input: bool = False,
) -> Converted:
    """Weights out of the ``w`` of a Knet ``RNN``.

    Args:
        w: its array ``value(r.w)``, ``(1, 1, n)`` or flat.
        cell: ``"rnn_relu"``, ``"rnn_tanh"``, ``"lstm"`` or ``"gru"`` for rnnType ``:relu``, ``:tanh`` and so on.
        input_size: Knet's ``inputSize``.
        hidden_size: Knet's ``hiddenSize``.
        num_layers: Knet's ``numLayers``.
        bidirectional: as in Knet.
        skip_input: Knet's ``skipInput``.

    Raises:
        InvalidValueError: ``w`` is of another size.
        InvalidTypeError: it holds no floating-point numbers.

    Example:
        >>> import torch
        >>> w = torch.zeros(1, 1, 240)
        >>> from_knet(w, cell="lstm", input_size=3, hidden_size=2, num_layers=2, bidirectional=True).descriptor
        RNNDescriptor('lstm', 3, 2, num_layers=2, bidirectional=True)
    """
    descriptor = RNNDescriptor(
        cell,
        input_size,
        hidden_size,
        num_layers=num_layers,
        bidirectional=bidirectional,
        input_mode=InputMode.SKIP if skip_input else InputMode.LINEAR,
    )
    array = read_array("w", w)
    size = layout_of(descriptor).size
    if array.shape != (size,):
        expect_shape("w", array, (1, 1, size), f"or [{size}] for {descriptor!r}")
    return Converted(descriptor, RNNWeights(descriptor, array.flatten().clone()).requires_grad_(), ())


def to_knet(descriptor: RNNDescriptor, weights: RNNWeights) -> Exported:
    """The ``w`` of a Knet ``RNN`` with the same options.

    Returns:
        ``(1, 1, n)``, both biases included; one that the network has not is added as zeros.

    Raises:
        UnsupportedError: the network has a projection or a clip.

    Example:
        >>> descriptor = RNNDescriptor("gru", 3, 2)
        >>> to_knet(descriptor, RNNWeights.init(descriptor)).arrays.shape
        torch.Size([1, 1, 42])
    """
    return Exported(_complete(descriptor, weights).flat[None, None], _done(descriptor))


def from_rnnparams(params: Sequence[Any], *, cell: Cell | str, bidirectional: bool = False) -> Converted:
    """Weights out of the list that Knet's ``rnnparams(r)`` gives.

    Args:
        params: matrices ``(in, H)`` by layer and id, then biases ``(H,)``; None where skip input has no matrix.
        cell: as for :func:`from_knet`.
        bidirectional: whether two entries of the layer index are one layer.

    Raises:
        InvalidValueError: their number or a shape does not fit.
        InvalidTypeError: an array cannot be read, or dtypes differ.

    Example:
        >>> import torch
        >>> matrices = [torch.zeros(rows, 2) for rows in (3, 3, 3, 2, 2, 2)]
        >>> from_rnnparams(matrices + [torch.zeros(2)] * 6, cell="gru").descriptor
        RNNDescriptor('gru', 3, 2)
    """
    read = [None if array is None else read_array(f"params[{i}]", array) for i, array in enumerate(params)]
    descriptor = _describe(read, check_choice("cell", cell, Cell), 2 if bidirectional else 1)
    expect_one_dtype({f"params[{i}]": array for i, array in enumerate(read) if array is not None})
    weights = RNNWeights(descriptor, _last(read).new_empty(layout_of(descriptor).size))
    for i, (view, array) in enumerate(zip(_by_gate(weights), read, strict=True)):
        if view is None or array is None:
            _check_absence(f"params[{i}]", view, array)
        else:
            expect_shape(f"params[{i}]", array, tuple(view.shape), f"for {descriptor!r}")
            view.copy_(array)
    return Converted(descriptor, weights.requires_grad_(), ("transposed the matrices of single gates",))


def to_rnnparams(descriptor: RNNDescriptor, weights: RNNWeights) -> Exported:
    """The list that Knet's ``rnnparams(r)`` gives: ``copyto!`` each into its place.

    Returns:
        Matrices ``(in, H)`` by layer and id, None where skip input has none, then biases ``(H,)``.

    Raises:
        UnsupportedError: the network has a projection or a clip.

    Example:
        >>> descriptor = RNNDescriptor("rnn_tanh", 3, 2)
        >>> [tuple(array.shape) for array in to_rnnparams(descriptor, RNNWeights.init(descriptor)).arrays]
        [(3, 2), (2, 2), (2,), (2,)]
    """
    parts = [None if view is None else view.clone() for view in _by_gate(_complete(descriptor, weights))]
    return Exported(parts, ("transposed the matrices of single gates", *_done(descriptor)))


def _complete(descriptor: RNNDescriptor, weights: RNNWeights) -> RNNWeights:
    refuse_options(descriptor, "Knet", ("proj_size", "cell_clip"))
    return with_both_biases(on_cpu(descriptor, weights))


def _done(descriptor: RNNDescriptor) -> tuple[str, ...]:
    return said_both(descriptor.bias) + said_dropout(descriptor)


def _by_gate(weights: RNNWeights) -> Iterator[Tensor | None]:
    """Views of *weights*, which has both biases, in the order and orientation of ``rnnparams``."""
    gates = weights.descriptor.gates
    layers = weights.by_layer()
    for layer in layers:
        for matrix in (layer.weight_ih, layer.weight_hh):
            yield from [None] * gates if matrix is None else [block.t() for block in matrix.chunk(gates)]
    for layer in layers:
        for bias in (layer.bias_ih, layer.bias_hh):
            assert bias is not None
            yield from bias.chunk(gates)


def _describe(read: Sequence[Tensor | None], cell: Cell, directions: int) -> RNNDescriptor:
    each = 4 * cell.gates * directions
    layers, rest = divmod(len(read), each)
    if rest or not layers:
        raise InvalidValueError(
            f"params holds {len(read)} arrays; expected a multiple of {each}: for {cell.value!r} a matrix and a "
            f"bias of input and state, for each of {cell.gates} gates, in {directions} direction(s)."
        )
    hidden, first = len(_last(read)), read[0]
    return RNNDescriptor(
        cell,
        hidden if first is None else len(first),
        hidden,
        num_layers=layers,
        bidirectional=directions == 2,
        input_mode=InputMode.SKIP if first is None else InputMode.LINEAR,
    )


def _last(read: Sequence[Tensor | None]) -> Tensor:
    """The last bias, which every network has."""
    last = read[-1]
    if last is None or last.dim() != 1:
        raise bad_type(f"params[{len(read) - 1}]", last, "a bias of one dimension")
    return last


def _check_absence(name: str, view: Tensor | None, array: Tensor | None) -> None:
    if view is not None or array is not None:
        expected = (
            "None: with skip input there is no such matrix" if view is None else f"shape {list(view.shape)}"
        )
        raise bad_type(name, array, expected)
