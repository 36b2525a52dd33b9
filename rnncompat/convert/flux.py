"""Flux's recurrent layers: ``Wi``, ``Wh`` and one bias ``b`` each, as Julia shows their sizes.

``Wi`` is ``(G*H, I)``, ``Wh`` ``(G*H, H)`` and ``b`` ``(G*H,)``, in the order of our gates; a ``Chain`` of layers is
one network. The GRU's bias stands outside the reset product: bias mode ``"input"``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..descriptor import Bias, Cell, RNNDescriptor
from ..errors import InvalidValueError, UnsupportedError, bad_shape, bad_type
from ..layout import layout_of
from ..state import RNNState
from ..weights import RNNWeights
from .arrays import expect_one_dtype, expect_shape, read_array
from .biases import one_bias, said_one
from .gates import tell_cell
from .given import on_cpu, refuse_options, said_dropout
from .result import Converted, Exported

__all__ = ["from_flux", "state_from_flux", "to_flux"]

Fields = Mapping[str, Any]
"""The fields of one Flux cell by name."""


def from_flux(layers: Fields | Sequence[Fields], *, cell: Cell | str | None = None) -> Converted:
    """Weights out of a Flux layer, or of several that follow each other in a ``Chain``.

    Args:
        layers: the fields of each cell by name: ``Wi``, ``Wh``, and ``b`` unless it is absent, None or False.
        cell: ``"rnn_tanh"`` or ``"rnn_relu"`` for ``RNN``, whose arrays do not tell its σ; else inferred.

    Raises:
        InvalidValueError: a field is missing, or of a shape that does not fit; or an initial state is not zero.
        InvalidTypeError: an array cannot be read, or dtypes differ.
        UnsupportedError: a layer is a ``GRUv3``, or the hidden sizes differ.

    Example:
        >>> layer = {"Wi": torch.zeros(15, 3), "Wh": torch.zeros(15, 5), "b": torch.zeros(15)}
        >>> from_flux(layer).descriptor
        RNNDescriptor('gru', 3, 5, bias='input')
    """
    read = [_read(f"layer {number}", fields) for number, fields in enumerate(_listed(layers), 1)]
    expect_one_dtype({name: array for layer in read for name, array in layer.named()})
    descriptor = _describe(read, cell)
    weights = RNNWeights(descriptor, read[0].wh.new_zeros(layout_of(descriptor).size))
    for layer, own in zip(read, weights.by_layer(), strict=True):
        for ours, (name, array) in zip(own, layer.named(), strict=False):
            assert ours is not None
            expect_shape(name, array, tuple(ours.shape), f"for {descriptor!r}")
            ours.copy_(array)
    lacking = descriptor.bias is Bias.INPUT and any(layer.b is None for layer in read)
    done = ("added a bias of zeros to the layers without one",) if lacking else ()
    return Converted(descriptor, weights.requires_grad_(), done)


def to_flux(descriptor: RNNDescriptor, weights: RNNWeights) -> Exported:
    """The fields of one Flux cell a layer: ``copyto!`` each into its place.

    Returns:
        A list of ``{"Wi": (G*H, I), "Wh": (G*H, H), "b": (G*H,)}``; two biases become their sum, none zeros.

    Raises:
        UnsupportedError: the network has a second direction, skip input, a projection or a clip; or it is a GRU
            whose recurrent bias of the new gate is not zero.

    Example:
        >>> descriptor = RNNDescriptor("lstm", 3, 5, num_layers=2)
        >>> arrays, done = to_flux(descriptor, RNNWeights.init(descriptor))
        >>> [tuple(layer["Wi"].shape) for layer in arrays], done
        ([(20, 3), (20, 5)], ('bias_ih + bias_hh became one bias',))
    """
    refuse_options(descriptor, "Flux", ("bidirectional", "input_mode", "proj_size", "cell_clip"))
    arrays = []
    for number, layer in enumerate(on_cpu(descriptor, weights).by_layer(), 1):
        assert layer.weight_ih is not None
        bias = one_bias(descriptor, layer, f"layer {number}", "Flux")
        arrays.append({"Wi": layer.weight_ih.clone(), "Wh": layer.weight_hh.clone(), "b": bias})
    return Exported(arrays, said_one(descriptor.bias) + said_dropout(descriptor))


def state_from_flux(layers: Fields | Sequence[Fields]) -> RNNState:
    """The initial state of Flux layers, which old ones learn beside their weights.

    Args:
        layers: the fields of each cell by name: ``state0``, ``(H,)`` or ``(H, 1)`` and for an LSTM a pair of them,
            as Flux 0.12 to 0.14 have it; or ``h``, and ``c`` for an LSTM, as older ones do.

    Returns:
        h and, for an LSTM, c, ``[L, 1, H]``: as a given state it serves a batch of any size.

    Raises:
        InvalidValueError: a layer has none, or layers differ in size or kind.

    Example:
        >>> state_from_flux({"h": torch.zeros(5), "c": torch.ones(5)}).c.shape
        torch.Size([1, 1, 5])
    """
    states = [_state(f"layer {number}", fields) for number, fields in enumerate(_listed(layers), 1)]
    if not all(states) or len({tuple(part.shape for part in state) for state in states}) > 1:
        found = [[list(part.shape) for part in state] for state in states]
        raise InvalidValueError(
            f"layers have initial states of shapes {found}; expected one size, and a c in all or none."
        )
    return RNNState(*(torch.stack(parts)[:, None].clone() for parts in zip(*states, strict=True)))


class _Layer(NamedTuple):
    """The arrays of one Flux cell."""

    name: str
    wi: Tensor
    wh: Tensor
    b: Tensor | None

    def named(self) -> Iterator[tuple[str, Tensor]]:
        """Pairs of a name for messages and an array, in the order of :class:`~rnncompat.weights.LayerWeights`."""
        arrays = {"Wi": self.wi, "Wh": self.wh, "b": self.b}
        return ((f"{field} of {self.name}", array) for field, array in arrays.items() if array is not None)


def _listed(layers: Fields | Sequence[Fields]) -> list[Fields]:
    listed = [layers] if isinstance(layers, Mapping) else list(layers)
    if not listed or not all(isinstance(fields, Mapping) for fields in listed):
        raise bad_type("layers", layers, "the fields of one cell by name, or a list of such mappings")
    return listed


def _read(name: str, fields: Fields) -> _Layer:
    if any(field.startswith("Wh_") for field in fields):
        raise UnsupportedError(
            f"{name} is a GRUv3: it multiplies the state by r before the matrix, and no cell here does."
        )
    if not {"Wi", "Wh"} <= fields.keys() <= {"Wi", "Wh", "b", "state0", "h", "c"}:
        raise InvalidValueError(f"{name} has the fields {sorted(fields)}; expected Wi, Wh, and perhaps b.")
    if any(bool((part != 0).any()) for part in _state(name, fields)):
        raise InvalidValueError(
            f"{name} has an initial state that is not zero, and a descriptor holds none. Read it with "
            "state_from_flux, pass it to each call, and leave it out here."
        )
    has_bias = fields.get("b") is not None and fields["b"] is not False
    wi, wh = (read_array(f"{field} of {name}", fields[field]) for field in ("Wi", "Wh"))
    return _Layer(name, wi, wh, read_array(f"b of {name}", fields["b"]) if has_bias else None)


def _state(name: str, fields: Fields) -> list[Tensor]:
    """h, and c if there is one, of ``(H,)``; nothing where the cell holds no state."""
    found = fields.get("state0")
    if found is None:
        found = tuple(fields[field] for field in ("h", "c") if fields.get(field) is not None)
    parts = found if isinstance(found, tuple) else (found,)
    return [read_array(f"initial state of {name}", part).flatten() for part in parts]


def _describe(read: Sequence[_Layer], cell: Cell | str | None) -> RNNDescriptor:
    for layer in read:
        for name, array in (("Wi", layer.wi), ("Wh", layer.wh)):
            if array.dim() != 2:
                raise bad_shape(f"{name} of {layer.name}", array, "of two dimensions")
    hidden = [layer.wh.shape[1] for layer in read]
    if len(set(hidden)) > 1:
        raise UnsupportedError(
            f"layers have the hidden sizes {hidden}; a descriptor has one. Convert them one by one."
        )
    return RNNDescriptor(
        tell_cell(f"Wh of {read[0].name}", read[0].wh, hidden[0], cell),
        read[0].wi.shape[1],
        hidden[0],
        num_layers=len(read),
        bias=Bias.NONE if all(layer.b is None for layer in read) else Bias.INPUT,
    )
