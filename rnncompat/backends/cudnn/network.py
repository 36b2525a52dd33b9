"""What cuDNN wants to be told before a call: descriptors and sizes, made once and kept.

Each cache is bounded, and what it drops lives on while a call or a graph still holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import Array, byref, c_int, c_size_t, c_uint64
from functools import lru_cache
from typing import NamedTuple

import torch

from ...descriptor import RNNDescriptor
from ...layout import layout_of
from ..base import Algorithm
from .enums import (
    ALGORITHMS,
    BIAS_MODES,
    CELL_MODES,
    DATA_TYPES,
    INPUT_MODES,
    PRECISIONS,
    ClipMode,
    ForwardMode,
    Layout,
    MathType,
)
from .handle import handle
from .library import call, create

__all__ = ["Network", "Shape", "Told", "tell"]


class Owned:
    """A descriptor of cuDNN, destroyed when nobody holds it any more."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.address = create(kind)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the end of the process cuDNN, or this module, may be gone already, and its memory goes anyway.
        if hasattr(self, "address") and not finalizing():
            call(f"cudnnDestroy{self.kind}", self.address)


def rnn_descriptor(
    d: RNNDescriptor,
    dtype: torch.dtype,
    algorithm: Algorithm,
    math: MathType,
    layout: Layout,
    dropout: Owned,
) -> Owned:
    """What cuDNN is told of a network, and checks without a GPU; *dropout* must outlive it."""
    made = Owned("RNNDescriptor")
    call(
        "cudnnSetRNNDescriptor_v8",
        made.address,
        ALGORITHMS[algorithm],
        CELL_MODES[d.cell],
        BIAS_MODES[d.bias],
        int(d.bidirectional),
        INPUT_MODES[d.input_mode],
        DATA_TYPES[dtype],
        PRECISIONS[dtype],
        math,
        d.input_size,
        d.hidden_size,
        d.state_size,  # projSize; H is off
        d.num_layers,
        dropout.address,
        int(layout is not Layout.SEQ_MAJOR_PACKED),  # auxiliary flag: padded input and output
    )
    if d.cell_clip is not None:
        call("cudnnRNNSetClip_v9", made.address, ClipMode.MINMAX, *d.cell_clip)
    return made


class Network:
    """One network in one dtype by one algorithm, on one device.

    Attributes:
        rnn: cuDNN's descriptor of it.
        weight_bytes: size of the flat weights.
    """

    def __init__(
        self,
        d: RNNDescriptor,
        dtype: torch.dtype,
        device: torch.device,
        algorithm: Algorithm,
        math: MathType,
        layout: Layout,
    ) -> None:
        self.descriptor, self.device, self.layout = d, device, layout
        self.data_type = DATA_TYPES[dtype]
        self.dropout = Owned("DropoutDescriptor")  # ours is drawn outside, so cuDNN's stays 0
        call("cudnnSetDropoutDescriptor", self.dropout.address, handle(device), 0.0, None, 0, c_uint64(0))
        self.rnn = rnn_descriptor(d, dtype, algorithm, math, layout, self.dropout)
        size = c_size_t()
        call("cudnnGetRNNWeightSpaceSize", handle(device), self.rnn.address, byref(size))
        self.weight_bytes = size.value
        assert size.value == layout_of(d).size * torch.empty(0, dtype=dtype).element_size(), (
            "cuDNN lays weights out in another way"
        )


@lru_cache(maxsize=64)
def _network_for(
    d: RNNDescriptor,
    dtype: torch.dtype,
    device: torch.device,
    algorithm: Algorithm,
    math: MathType,
    layout: Layout,
) -> Network:
    """The network of these facts, made at their first call."""
    return Network(d, dtype, device, algorithm, math, layout)


class _Data(Owned):
    """A batch of *sizes* ``[T, B, F]``, ``[B, T, F]`` or packed ``[N, F]``."""

    def __init__(self, data_type: int, layout: Layout, steps: int, width: int, lengths: Array[c_int]) -> None:
        super().__init__("RNNDataDescriptor")
        self.sizes = _SIZES[layout](steps, lengths, width)
        fill = c_uint64(0)  # 0 in every dtype
        call(
            "cudnnSetRNNDataDescriptor",
            self.address,
            data_type,
            layout,
            steps,
            len(lengths),
            width,
            lengths,
            byref(fill),
        )


_SIZES: dict[Layout, Callable[[int, Array[c_int], int], tuple[int, ...]]] = {
    Layout.SEQ_MAJOR_UNPACKED: lambda steps, lengths, width: (steps, len(lengths), width),
    Layout.SEQ_MAJOR_PACKED: lambda _, lengths, width: (sum(lengths), width),
    Layout.BATCH_MAJOR_UNPACKED: lambda steps, lengths, width: (len(lengths), steps, width),
}


class _State(Owned):
    """A state of *sizes* ``[L*D, B, ·]``."""

    def __init__(self, data_type: int, sizes: tuple[int, int, int]) -> None:
        super().__init__("TensorDescriptor")
        self.sizes = sizes
        _, batch, width = sizes
        strides = (c_int * 3)(batch * width, width, 1)
        call("cudnnSetTensorNdDescriptor", self.address, data_type, 3, (c_int * 3)(*sizes), strides)


class Shape:
    """What cuDNN is told of one size of batch: the same tensors' descriptors and the memory it asks for.

    Attributes:
        x: time-major data ``[T, B, I]``, padded, cuDNN writing 0 where a row has ended; or packed ``[N, I]``.
        y: the same with D*P features.
        h: a state ``[L*D, B, P or H]``.
        c: a state ``[L*D, B, H]``.
        steps: T.
        lengths: of the rows; None where each has T steps.
        empty: whether a row has no step.
        memory: bytes of the workspace and of the reserve, by :class:`ForwardMode`.
    """

    def __init__(self, network: Network, steps: int, batch: int, lengths: tuple[int, ...] | None) -> None:
        d, kind = network.descriptor, network.data_type
        rows = (c_int * batch)(*((steps,) * batch if lengths is None else lengths))
        self.x, self.y = (
            _Data(kind, network.layout, steps, width, rows) for width in (d.input_size, d.output_size)
        )
        sizes = (d.state_size, d.hidden_size)
        self.h, self.c = (_State(kind, (d.num_pseudo_layers, batch, size)) for size in sizes)
        self.steps, self.lengths = steps, lengths
        self.empty = lengths is not None and 0 in lengths
        self.memory = tuple(self._memory(network, mode) for mode in ForwardMode)

    def _memory(self, network: Network, mode: ForwardMode) -> tuple[int, int]:
        """Bytes of the workspace and of the reserve."""
        workspace, reserve = c_size_t(), c_size_t()
        call(
            "cudnnGetRNNTempSpaceSizes",
            handle(network.device),
            network.rnn.address,
            mode,
            self.x.address,
            byref(workspace),
            byref(reserve),
        )
        return workspace.value, reserve.value


@lru_cache(maxsize=256)
def _shape_for(network: Network, steps: int, batch: int, lengths: tuple[int, ...] | None) -> Shape:
    """What *network* needs for a batch; *lengths* None where every row has T steps."""
    return Shape(network, steps, batch, lengths)


class Told(NamedTuple):
    """All that cuDNN was told before a call."""

    network: Network
    shape: Shape


def tell(
    d: RNNDescriptor,
    x: tuple[torch.dtype, torch.device],
    how: tuple[Algorithm, MathType, Layout],
    steps: int,
    batch: int,
    lengths: tuple[int, ...] | None,
) -> Told:
    """What cuDNN must be told of a network, the dtype and device of its data, how it runs, and a batch."""
    network = _network_for(d, *x, *how)
    return Told(network, _shape_for(network, steps, batch, lengths))
