"""Parameters in one flat buffer, found again by their addresses: nothing is stored, so nothing goes stale.

:func:`pack` moves the memory of separate parameters into one tensor in the order of the layout;
:func:`flat_view` asks at each call whether they still lie so, and :func:`gather_flat` copies where they do not.
:class:`WeightsModule` holds such parameters and knows when to pack them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import Self

from .descriptor import Bias, RNNDescriptor
from .layout import Layout, layout_of
from .versions import is_compiling
from .weights import LayerWeights

__all__ = ["PACKS", "Device", "WeightsModule", "flat_view", "gather_flat", "pack"]

Device = torch.device | str | int | None

_TORCH_BIAS: dict[Bias, bool] = {Bias.DOUBLE: True, Bias.NONE: False}

PACKS: Counter[str] = Counter()
"""How often :func:`pack` has moved parameters, by type of device: for tests and diagnostics only."""


def flat_view(parameters: Sequence[Tensor], layout: Layout) -> Tensor | None:
    """The flat buffer that *parameters* lie in, without a copy, or None if they lie in none.

    Args:
        parameters: one strided tensor a slot, in the order of the layout.
        layout: where each must lie.

    Returns:
        ``[layout.size]``, sharing memory with the parameters and outside autograd.

    Example:
        >>> from rnncompat import RNNDescriptor, RNNWeights
        >>> weights = RNNWeights.init(RNNDescriptor("gru", input_size=3, hidden_size=2))
        >>> flat_view(weights.tensors(), weights.layout).data_ptr() == weights.flat.data_ptr()
        True
        >>> flat_view([tensor.clone() for tensor in weights.tensors()], weights.layout) is None
        True
    """
    first, last = parameters[0], parameters[-1]
    if first.is_meta:
        return None
    start = first.storage_offset()
    # Neighbours in memory may be two allocations. If first and last share one, all between lie in it.
    if last.storage_offset() - start != layout.slots[-1].offset:
        return None
    dtype, width, address = first.dtype, first.element_size(), first.data_ptr()
    for tensor, slot in zip(parameters, layout.slots, strict=True):
        if (
            tensor.data_ptr() != address + slot.offset * width
            or tensor.dtype != dtype
            or not tensor.is_contiguous()
        ):
            return None
    # From the last one, whose storage is known to reach the end.
    return last.detach().as_strided((layout.size,), (1,), start)


def gather_flat(parameters: Sequence[Tensor]) -> Tensor:
    """A flat copy of *parameters*, for one call.

    Args:
        parameters: one tensor a slot, in the order of the layout, all of one dtype and device.

    Returns:
        ``[layout.size]`` in memory of its own, outside autograd.
    """
    return torch.cat([tensor.detach().reshape(-1) for tensor in parameters])


def pack(parameters: Mapping[str, Tensor], layout: Layout) -> bool:
    """Moves the memory of parameters into one flat buffer; they stay the same objects with the same values.

    Nothing happens if one of the layout's names is missing (parametrized, pruned), or if they cannot
    share a buffer (other types or shapes, mixed dtypes or devices, tied to each other, without memory).

    Args:
        parameters: a module's own parameters by name.
        layout: where each goes.

    Returns:
        Whether anything was moved.
    """
    if any(slot.name not in parameters for slot in layout.slots):
        return False
    tensors = [parameters[slot.name] for slot in layout.slots]
    if not _fit(tensors, layout) or flat_view(tensors, layout) is not None:
        return False
    with torch.inference_mode(mode=False), torch.no_grad():
        flat = gather_flat(tensors)
        for tensor, slot in zip(tensors, layout.slots, strict=True):
            # Through .data each keeps a version counter of its own; as views of one tensor they would
            # share one, and changing one weight in place would break the backward of another.
            tensor.data = flat[slot.offset : slot.offset + slot.size].view(slot.shape)
    PACKS[flat.device.type] += 1
    return True


def _fit(tensors: Sequence[Tensor], layout: Layout) -> bool:
    """Whether *tensors* are plain parameters that one flat buffer can hold."""
    return (
        all(type(tensor) is nn.Parameter and not tensor.is_inference() for tensor in tensors)
        and all(tensor.shape == slot.shape for tensor, slot in zip(tensors, layout.slots, strict=True))
        and len({(tensor.dtype, tensor.device) for tensor in tensors}) == 1
        and not tensors[0].is_meta
        and len({tensor.data_ptr() for tensor in tensors}) == len(tensors)
    )


def _option(name: str, doc: str) -> Any:
    """A read-only property that shows an option of the module's descriptor."""
    return property(lambda self: getattr(self.descriptor, name), doc=doc)


class WeightsModule(nn.Module):
    """The parameters of a network, one a slot under torch's names, nothing made from them, and its options.

    Args:
        descriptor: the network.
        device, dtype: where and in which floating-point dtype the parameters are made.
    """

    input_size: int = _option("input_size", "I: features of one input step.")
    hidden_size: int = _option("hidden_size", "H: hidden units.")
    num_layers: int = _option("num_layers", "L: stacked layers.")
    bidirectional: bool = _option("bidirectional", "Whether each layer runs backward in time too.")
    proj_size: int = _option("proj_size", "P: size of the recurrent projection, 0 if off.")
    dropout: float = _option("dropout", "Probability of dropping a value between layers while training.")
    cell_clip: tuple[float, float] | None = _option("cell_clip", "The range that c is clipped to, or None.")

    def __init__(self, descriptor: RNNDescriptor, *, device: Device, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.descriptor = descriptor
        for slot in layout_of(descriptor).in_torch_order():
            empty = torch.empty(slot.shape, device=device, dtype=dtype)
            self.register_parameter(slot.name, nn.Parameter(empty))
        self._set_names()
        self.reset_parameters()
        self._pack_on_cuda()

    def _set_names(self) -> None:
        self.names = tuple(slot.name for slot in layout_of(self.descriptor).in_torch_order())
        self._names_by_layer = _names_by_layer(self.descriptor)

    def layers(self) -> tuple[LayerWeights, ...]:
        """The weights as they are now, by name, so that whatever replaces a parameter is seen."""
        return tuple([LayerWeights(*_read(self, names)) for names in self._names_by_layer])

    @property
    def mode(self) -> str:
        """The cell as torch names it: ``"LSTM"``, ``"GRU"``, ``"RNN_TANH"`` or ``"RNN_RELU"``."""
        return self.descriptor.cell.value.upper()

    @property
    def bias(self) -> bool | str:
        """True (both), False (none), or which one there is: ``"input"`` or ``"recurrent"``."""
        bias = self.descriptor.bias
        return _TORCH_BIAS.get(bias, bias.value)

    @property
    def input_mode(self) -> str:
        """``"linear"`` or ``"skip"``."""
        return self.descriptor.input_mode.value

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each pseudo-layer, in torch's order."""
        return [[weight for weight in layer if weight is not None] for layer in self.layers()]

    def reset_parameters(self) -> None:
        """Draws every parameter anew, uniform in ±1/sqrt(H), in torch's order."""
        bound = 1 / math.sqrt(self.descriptor.hidden_size)
        for weight in self.parameters():
            nn.init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Moves the parameters into one flat buffer, on any device, if they do not lie in one already.

        On CUDA this happens by itself when a module is made, moved, loaded or unpickled. On the CPU
        no backend needs it, and plain ``pickle`` writes the whole buffer once per parameter.
        """
        if not is_compiling():
            pack(dict(self.named_parameters(recurse=False)), layout_of(self.descriptor))

    def _pack_on_cuda(self) -> None:
        if any(parameter.is_cuda for parameter in self.parameters(recurse=False)):
            self.flatten_parameters()

    def _apply(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        super()._apply(fn, *args, **kwargs)  # type: ignore[no-untyped-call]  # torch's own gap
        self._pack_on_cuda()
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._pack_on_cuda()

    def __getstate__(self) -> dict[str, Any]:
        # Names follow from the descriptor; what files hold must outlive how they are kept here.
        return {name: value for name, value in vars(self).items() if name not in ("names", "_names_by_layer")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch's own gap
        self._set_names()
        self._pack_on_cuda()


def _names_by_layer(descriptor: RNNDescriptor) -> tuple[tuple[str | None, ...], ...]:
    """The names of each pseudo-layer in the order of :class:`LayerWeights`; None where it has none."""
    layout = layout_of(descriptor)
    layers = layout.by_pseudo_layer([slot.name for slot in layout.slots])
    return tuple(tuple(layer.get(kind) for kind in LayerWeights._fields) for layer in layers)


def _read(module: nn.Module, names: tuple[str | None, ...]) -> Any:
    # Straight from the dictionary that Module.__getattr__ would end up in: 0.3 instead of 1.3 µs for four.
    own = module.__dict__["_parameters"]
    return [own[name] if name in own else None if name is None else getattr(module, name) for name in names]
