"""One flat buffer out of separate weights: a view where they already lie in it, else a copy for one call."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..descriptor import RNNDescriptor
from ..layout import layout_of
from ..weights import LayerWeights

__all__ = ["flat_weights", "in_layout_order", "lie_flat", "split_gradient"]


def in_layout_order(d: RNNDescriptor, layers: Sequence[LayerWeights]) -> list[Tensor]:
    """The weights there are, in the order of the flat buffer."""
    return [getattr(layers[slot.pseudo_layer], slot.kind) for slot in layout_of(d).slots]


def lie_flat(d: RNNDescriptor, weights: Sequence[Tensor]) -> bool:
    """Whether *weights*, in the order of the layout, lie in one buffer as it says."""
    first = weights[0]
    address, begin, size = first.data_ptr(), first.storage_offset(), first.element_size()
    return all(
        # Both, for two buffers may lie side by side by chance.
        w.data_ptr() == address + slot.offset * size
        and w.storage_offset() == begin + slot.offset
        and w.is_contiguous()
        for slot, w in zip(layout_of(d).slots, weights, strict=True)
    )


def flat_weights(d: RNNDescriptor, weights: Sequence[Tensor]) -> Tensor:
    """``[layout.size]``, never stale: addresses are compared at each call."""
    if lie_flat(d, weights):
        return weights[0].detach().as_strided((layout_of(d).size,), (1,))
    return torch.cat([w.detach().reshape(-1) for w in weights])


def split_gradient(d: RNNDescriptor, gradient: Tensor) -> list[Tensor]:
    """The gradient of each weight out of that of the flat buffer."""
    slots = layout_of(d).slots
    parts = torch.split(gradient, [slot.size for slot in slots])
    return [part.view(slot.shape) for slot, part in zip(slots, parts, strict=True)]
