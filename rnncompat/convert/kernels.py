"""Kernels ``[in, G*H]`` of each direction, in the order of gates of some framework, as our weights and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from ..descriptor import Bias, Cell, RNNDescriptor
from ..errors import UnsupportedError, bad_shape
from ..layout import layout_of
from ..weights import LayerWeights, RNNWeights
from .arrays import expect_one_dtype, expect_shape
from .gates import OURS, reorder, said
from .result import Converted

__all__ = ["Direction", "build", "take_apart"]


class Direction(NamedTuple):
    """One direction of one layer; None for a bias that is not there.

    Attributes:
        name: for messages, such as ``"layer 1"``.
        kernel: ``[in, G*H]``.
        recurrent: ``[H, G*H]``.
        bias_ih: ``[G*H]``, added to the input.
        bias_hh: ``[G*H]``, added to the state's product.
    """

    name: str
    kernel: Tensor
    recurrent: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def tensors(self) -> dict[str, Tensor]:
        """Those that are there, by names for messages."""
        return {f"{field} of {self.name}": t for field, t in self._asdict().items() if isinstance(t, Tensor)}


def build(cell: Cell, order: str, layers: Sequence[Sequence[Direction]], bias: Bias) -> Converted:
    """The network of *layers*, each of one direction or two, all with the biases of *bias* or some without.

    Args:
        cell: of all layers.
        order: their gates, in our letters.
        layers: one list a layer.
        bias: of the layers that have one.
    """
    flat = [direction for layer in layers for direction in layer]
    _check(layers, flat)
    hidden = flat[0].recurrent.shape[0]
    without = [d.name for d in flat if d.bias_ih is None and d.bias_hh is None]
    descriptor = RNNDescriptor(
        cell,
        flat[0].kernel.shape[0],
        hidden,
        num_layers=len(layers),
        bidirectional=len(layers[0]) == 2,
        bias=Bias.NONE if len(without) == len(flat) else bias,
    )
    weights = RNNWeights(descriptor, flat[0].kernel.new_zeros(layout_of(descriptor).size))
    for ours, theirs in zip(weights.by_layer(), flat, strict=True):
        _fill(ours, theirs, descriptor, order)
    done = said(order, OURS[cell])
    if without and len(without) < len(flat):
        done += ("added biases of zeros to the layers without them",)
    return Converted(descriptor, weights.requires_grad_(), done)


def _check(layers: Sequence[Sequence[Direction]], flat: Sequence[Direction]) -> None:
    for direction in flat:
        for name, tensor in direction.tensors().items():
            if "bias" not in name and tensor.dim() != 2:
                raise bad_shape(name, tensor, "of two dimensions")
    expect_one_dtype({name: tensor for direction in flat for name, tensor in direction.tensors().items()})
    for what, found in (
        ("units", [direction.recurrent.shape[0] for direction in flat]),
        ("directions", [len(layer) for layer in layers]),
    ):
        if len(set(found)) > 1:
            raise UnsupportedError(
                f"layers have {what} {found}; a descriptor has one. Convert them one by one."
            )


def _fill(ours: LayerWeights, theirs: Direction, d: RNNDescriptor, order: str) -> None:
    """Copies one direction into its views; matrices are turned, gates put into our order."""
    for field, view in zip(LayerWeights._fields, ours, strict=True):
        theirs_field = {"weight_ih": "kernel", "weight_hh": "recurrent"}.get(field, field)
        array = getattr(theirs, theirs_field, None)
        if view is None or array is None:
            continue
        expect_shape(f"{theirs_field} of {theirs.name}", array, tuple(view.shape[::-1]), f"for {d!r}")
        view.copy_(reorder(array.t() if array.dim() == 2 else array, order, OURS[d.cell]))


def take_apart(descriptor: RNNDescriptor, order: str, weights: RNNWeights) -> list[list[Direction]]:
    """The inverse of :func:`build`, for weights without skip input and projection, in memory of their own."""
    have = OURS[descriptor.cell]
    found: list[list[Direction]] = []
    for number, own in enumerate(weights.by_layer()):
        layer, direction = divmod(number, descriptor.num_directions)
        moved = [None if t is None else reorder(t.detach(), have, order) for t in own[:4]]
        kernel, recurrent, *biases = moved
        assert kernel is not None
        assert recurrent is not None
        if direction == 0:
            found.append([])
        name = f"layer {layer + 1}" + (", backward" if direction else "")
        found[-1].append(Direction(name, kernel.t().contiguous(), recurrent.t().contiguous(), *biases))
    return found
