"""Where each weight lies in the flat buffer, in plain integers (no torch).

The order is cuDNN's weight space: every matrix first, pseudo-layer after pseudo-layer, then every bias
in the same order::

    weight_ih_l0  weight_hh_l0  (weight_hr_l0)   weight_ih_l0_reverse  ...   all matrices
    bias_ih_l0    bias_hh_l0                     bias_ih_l0_reverse    ...   all biases

Names, shapes and gate order (LSTM i f g o, GRU r z n) are those of ``torch.nn``; each matrix is row-major
``[G*H, in]``. What a descriptor switches off (a bias, the input matrix of a skip layer) takes no room.

Source: `cudnnGetRNNWeightParams
<https://docs.nvidia.com/deeplearning/cudnn/latest/api/cudnn-adv-library.html>`_; one layer with double
bias is the buffer of the old ``RNNDesc``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .descriptor import InputMode, RNNDescriptor

__all__ = ["LAYOUT_VERSION", "Layout", "Slot", "layout_of"]

LAYOUT_VERSION = 1
"""Raised when the order or shape of any slot changes; saved files carry it."""

V = TypeVar("V")

MATRICES = ("weight_ih", "weight_hh", "weight_hr")
BIASES = ("bias_ih", "bias_hh")
TORCH_ORDER = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")


@dataclass(frozen=True)
class Slot:
    """One matrix or bias: its torch name, its shape and its place in the flat buffer (in elements)."""

    name: str
    kind: str
    pseudo_layer: int
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """The slots of a flat buffer in their order, without gaps; ``size`` elements in all."""

    slots: tuple[Slot, ...]
    size: int

    def by_pseudo_layer(self, values: Sequence[V]) -> list[dict[str, V]]:
        """*values*, one a slot, as one dictionary a pseudo-layer, by kind of slot."""
        layers: list[dict[str, V]] = [{} for _ in range(self.slots[-1].pseudo_layer + 1)]
        for slot, value in zip(self.slots, values, strict=True):
            layers[slot.pseudo_layer][slot.kind] = value
        return layers

    def in_torch_order(self) -> tuple[Slot, ...]:
        """The slots as ``torch.nn`` registers its parameters: layer by layer, matrices, biases, projection."""
        return tuple(sorted(self.slots, key=lambda s: (s.pseudo_layer, TORCH_ORDER.index(s.kind))))


def layout_of(descriptor: RNNDescriptor) -> Layout:
    """The layout of the flat weight buffer of *descriptor*.

    Example:
        >>> layout = layout_of(RNNDescriptor("gru", input_size=3, hidden_size=2))
        >>> [(slot.name, slot.shape, slot.offset) for slot in layout.slots][:2]
        [('weight_ih_l0', (6, 3), 0), ('weight_hh_l0', (6, 2), 18)]
        >>> layout.size
        42
    """
    # Kept with the descriptor: torch.compile can read an attribute, but not a cache keyed by the descriptor.
    layout: Layout | None = getattr(descriptor, "_layout", None)
    if layout is None:
        layout = _lay_out(descriptor)
        object.__setattr__(descriptor, "_layout", layout)
    return layout


def _lay_out(descriptor: RNNDescriptor) -> Layout:
    slots: list[Slot] = []
    offset = 0
    for kind, pseudo_layer, shape in _blocks(descriptor):
        slot = Slot(_name(descriptor, kind, pseudo_layer), kind, pseudo_layer, shape, offset)
        slots.append(slot)
        offset += slot.size
    return Layout(tuple(slots), offset)


def _blocks(d: RNNDescriptor) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Kind, pseudo-layer and shape of every slot, in the order of the buffer."""
    for kinds in (MATRICES, BIASES):
        for pseudo_layer in range(d.num_pseudo_layers):
            shapes = _shapes(d, pseudo_layer // d.num_directions)
            for kind in kinds:
                if kind in shapes:
                    yield kind, pseudo_layer, shapes[kind]


def _shapes(d: RNNDescriptor, layer: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights that *layer* has."""
    rows = d.gates * d.hidden_size
    has = {
        "weight_ih": layer > 0 or d.input_mode is InputMode.LINEAR,
        "weight_hh": True,
        "weight_hr": d.proj_size > 0,
        "bias_ih": d.bias.on_input,
        "bias_hh": d.bias.on_recurrent,
    }
    shapes: dict[str, tuple[int, ...]] = {
        "weight_ih": (rows, d.layer_input_size(layer)),
        "weight_hh": (rows, d.state_size),
        "weight_hr": (d.proj_size, d.hidden_size),
        "bias_ih": (rows,),
        "bias_hh": (rows,),
    }
    return {kind: shape for kind, shape in shapes.items() if has[kind]}


def _name(d: RNNDescriptor, kind: str, pseudo_layer: int) -> str:
    layer, direction = divmod(pseudo_layer, d.num_directions)
    return f"{kind}_l{layer}{'_reverse' if direction else ''}"
