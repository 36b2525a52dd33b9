"""``RNNWeights``: one flat tensor that holds every weight of a network, and its named views."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .descriptor import RNNDescriptor
from .errors import InvalidTypeError, bad_shape, bad_type, bad_value
from .layout import Layout, layout_of
from .transforms import values_of

__all__ = ["LayerWeights", "RNNWeights", "group_by_layer"]


class LayerWeights(NamedTuple):
    """The weights of one pseudo-layer; None where the descriptor has none."""

    weight_ih: Tensor | None  # [G*H, in]
    weight_hh: Tensor  # [G*H, P or H]
    bias_ih: Tensor | None  # [G*H]
    bias_hh: Tensor | None  # [G*H]
    weight_hr: Tensor | None  # [P, H]


def group_by_layer(layout: Layout, tensors: Sequence[Tensor]) -> tuple[LayerWeights, ...]:
    """*tensors*, in the order of the flat buffer, as one entry a pseudo-layer."""
    return tuple(
        LayerWeights(
            weight_ih=layer.get("weight_ih"),
            weight_hh=layer["weight_hh"],
            bias_ih=layer.get("bias_ih"),
            bias_hh=layer.get("bias_hh"),
            weight_hr=layer.get("weight_hr"),
        )
        for layer in layout.by_pseudo_layer(tensors)
    )


class RNNWeights:
    """Every weight of a network in one flat 1-D tensor in cuDNN's order (cuDNN: weight space).

    The flat tensor is the only copy: each name is a view of its memory, so a value written through
    either side is seen on the other, and nothing can go stale.

    Args:
        descriptor: the network the weights belong to.
        flat: 1-D floating-point tensor of ``layout_of(descriptor).size`` elements; it is kept, not copied.

    Raises:
        InvalidTypeError: *flat* is no floating-point tensor.
        InvalidValueError: *flat* has another shape.

    Example:
        >>> descriptor = RNNDescriptor("gru", input_size=3, hidden_size=2)
        >>> weights = RNNWeights.init(descriptor, generator=torch.Generator().manual_seed(0))
        >>> weights.flat.shape, weights["weight_ih_l0"].shape
        (torch.Size([42]), torch.Size([6, 3]))
        >>> with torch.no_grad():
        ...     _ = weights["bias_ih_l0"].fill_(0.5)
        >>> bool((weights.flat == 0.5).sum() == 6)
        True
    """

    def __init__(self, descriptor: RNNDescriptor, flat: Tensor) -> None:
        if not isinstance(flat, Tensor):
            raise bad_type("flat", flat, "a 1-D floating-point tensor")
        if not flat.is_floating_point():
            raise InvalidTypeError(f"flat has dtype {flat.dtype}; expected a floating-point dtype.")
        self.layout = layout_of(descriptor)
        if flat.shape != (self.layout.size,):
            raise bad_shape("flat", flat, f"[{self.layout.size}] for {descriptor!r}")
        self.descriptor = descriptor
        self.flat = flat
        self._views: tuple[Tensor, int, tuple[LayerWeights, ...]] | None = None

    @classmethod
    def init(
        cls,
        descriptor: RNNDescriptor,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> RNNWeights:
        """New weights, uniform in ±1/sqrt(H), drawn in the order of ``torch.nn``.

        The same seed therefore gives the numbers of the ``torch.nn`` module of these sizes.

        Args:
            descriptor: the network.
            dtype: floating-point dtype; torch's default dtype if None.
            device: where to put them; torch's default device if None.
            generator: source of the random numbers; torch's own if None.

        Returns:
            Weights whose ``flat`` is a leaf that requires a gradient.
        """
        weights = cls(descriptor, torch.empty(layout_of(descriptor).size, dtype=dtype, device=device))
        bound = 1 / math.sqrt(descriptor.hidden_size)
        for slot in weights.layout.in_torch_order():
            weights[slot.name].uniform_(-bound, bound, generator=generator)
        return weights.requires_grad_()

    @classmethod
    def from_named(cls, descriptor: RNNDescriptor, named: Mapping[str, Tensor]) -> RNNWeights:
        """Copies tensors under ``torch.nn``'s names (a ``state_dict``) into one new flat buffer.

        The copy is differentiable: gradients of the result reach the tensors given.

        Args:
            descriptor: the network.
            named: exactly the names that the descriptor has, each of its shape, all of one dtype and device.

        Raises:
            InvalidValueError: a name is missing or unknown, or a shape differs.
            InvalidTypeError: dtypes or devices differ.

        Example:
            >>> descriptor = RNNDescriptor("lstm", 3, 2)
            >>> weights = RNNWeights.from_named(descriptor, torch.nn.LSTM(3, 2).state_dict())
            >>> weights.flat.shape
            torch.Size([56])
        """
        slots = layout_of(descriptor).slots
        if set(named) != {slot.name for slot in slots}:
            raise bad_value("named", sorted(named), f"the names {[slot.name for slot in slots]}")
        for slot in slots:
            if named[slot.name].shape != slot.shape:
                raise bad_shape(slot.name, named[slot.name], str(list(slot.shape)))
        tensors = [named[slot.name] for slot in slots]
        kinds = {(str(tensor.dtype), str(tensor.device)) for tensor in tensors}
        if len(kinds) > 1:
            raise InvalidTypeError(f"named mixes {sorted(kinds)}; expected one dtype and one device.")
        return cls(descriptor, torch.cat([tensor.reshape(-1) for tensor in tensors]))

    def tensors(self) -> tuple[Tensor, ...]:
        """The views in the order of the layout."""
        slots = self.layout.slots
        # split, not narrow: one node in the graph for all views (0.35 against 2.5 ms for 16 of them).
        parts = self.flat.split([slot.size for slot in slots])  # type: ignore[no-untyped-call]  # torch's own gap
        return tuple(part.view(slot.shape) for part, slot in zip(parts, slots, strict=True))

    def by_layer(self) -> tuple[LayerWeights, ...]:
        """The views as one :class:`LayerWeights` a pseudo-layer."""
        if self.flat.requires_grad or values_of(self.flat) is not self.flat:
            return self._grouped()
        # Without gradients views are nothing but addresses: they are made once for each memory (6 µs a time).
        memory = (self.flat, self.flat.data_ptr())
        if self._views is None or self._views[0] is not memory[0] or self._views[1] != memory[1]:
            self._views = (*memory, self._grouped())
        return self._views[2]

    def _grouped(self) -> tuple[LayerWeights, ...]:
        return group_by_layer(self.layout, self.tensors())

    def with_flat(self, flat: Tensor) -> RNNWeights:
        """Weights of the same layout over another flat tensor of the same shape.

        Raises:
            InvalidValueError: *flat* has another shape.
        """
        if flat.shape != self.flat.shape:
            raise bad_shape("flat", flat, f"{list(self.flat.shape)}")
        other = object.__new__(RNNWeights)
        other.layout, other.descriptor, other.flat, other._views = self.layout, self.descriptor, flat, None
        return other

    def named(self) -> Iterator[tuple[str, Tensor]]:
        """Pairs of torch's parameter name and view, in the order of the layout."""
        return zip((slot.name for slot in self.layout.slots), self.tensors(), strict=True)

    def __getitem__(self, name: str) -> Tensor:
        for slot in self.layout.slots:
            if slot.name == name:
                return self.flat[slot.offset : slot.offset + slot.size].view(slot.shape)
        raise bad_value("name", name, f"one of {[slot.name for slot in self.layout.slots]}")

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> RNNWeights:
        """These weights on another device or in another dtype, as ``Module.to`` does it.

        Returns:
            self if nothing changes, else weights whose ``flat`` is a new leaf that requires a
            gradient as the old one did.
        """
        flat = self.flat.detach().to(device=device or self.flat.device, dtype=dtype or self.flat.dtype)
        if flat.data_ptr() == self.flat.data_ptr() and flat.dtype == self.flat.dtype:
            return self
        return self.with_flat(flat.requires_grad_(self.flat.requires_grad))

    def requires_grad_(self, requires_grad: bool = True) -> RNNWeights:
        """Sets whether ``flat`` records gradients; returns self."""
        self.flat.requires_grad_(requires_grad)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return RNNWeights, (self.descriptor, self.flat)

    def __repr__(self) -> str:
        return f"RNNWeights({self.descriptor!r}, dtype={self.flat.dtype}, device={self.flat.device})"
