"""cuDNN's three calls on tensors: forward, gradients of the data, gradients of the weights."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .enums import ForwardMode, GradMode
from .handle import handle
from .library import call
from .network import Network, Shape

__all__ = ["Inputs", "Outputs", "backward_data", "backward_weights", "forward"]


class Inputs(NamedTuple):
    """What a call reads, all contiguous and on the current device.

    Attributes:
        x: ``[T, B, I]``, finite where a row has ended, or packed ``[N, I]``.
        h: ``[L*D, B, P or H]``; None for zeros.
        c: ``[L*D, B, H]``; None for zeros, and where the cell has none.
        flat: every weight, in the order of the layout; for a forward call, any tensor that begins where they do.
    """

    network: Network
    shape: Shape
    x: Tensor
    h: Tensor | None
    c: Tensor | None
    flat: Tensor


class Outputs(NamedTuple):
    """y ``[T, B, D*P]`` or ``[N, D*P]``, the final h and c, and what the backward calls need."""

    y: Tensor
    h: Tensor
    c: Tensor | None
    reserve: Tensor | None


def forward(given: Inputs, mode: ForwardMode) -> Outputs:
    """Runs the network; the reserve is filled only for training."""
    network, shape, x, h_before, c_before, flat = given
    workspace_size, reserve_size = shape.memory[mode]
    y = x.new_empty(shape.y.sizes)
    h = x.new_empty(shape.h.sizes)
    c = x.new_empty(shape.c.sizes) if network.descriptor.has_cell_state else None
    workspace = _bytes(workspace_size, x)
    reserve = _bytes(reserve_size, x) if mode is ForwardMode.TRAINING else None
    call(
        "cudnnRNNForward",
        handle(x.device),
        network.rnn.address,
        mode,
        None,  # lengths on the device, which cuDNN ignores
        shape.x.address,
        x.data_ptr(),
        shape.y.address,
        y.data_ptr(),
        shape.h.address,
        _address(h_before),
        h.data_ptr(),
        shape.c.address,
        _address(c_before),
        _address(c),
        network.weight_bytes,
        flat.data_ptr(),
        workspace_size,
        workspace.data_ptr(),
        reserve_size if reserve is not None else 0,
        _address(reserve),
    )
    return Outputs(y, h, c, reserve)


def backward_data(
    given: Inputs, made: Outputs, dy: Tensor, dh: Tensor | None, dc: Tensor | None, states: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """``(dx, dh, dc)``; it writes into the reserve, which the gradients of the weights then read.

    Args:
        given: what the forward call read.
        made: what it made.
        dy: gradient of y.
        dh: that of the final h; None for zeros.
        dc: that of the final c; None for zeros.
        states: whether the gradients of the initial states are wanted; else they are None.
    """
    network, shape, x = given.network, given.shape, given.x
    workspace_size, reserve_size = shape.memory[ForwardMode.TRAINING]
    dx = torch.empty_like(x)
    dh_before = x.new_empty(shape.h.sizes) if states else None
    dc_before = x.new_empty(shape.c.sizes) if states and network.descriptor.has_cell_state else None
    workspace = _bytes(workspace_size, x)
    call(
        "cudnnRNNBackwardData_v8",
        handle(x.device),
        network.rnn.address,
        None,
        shape.y.address,
        made.y.data_ptr(),
        dy.data_ptr(),
        shape.x.address,
        dx.data_ptr(),
        shape.h.address,
        _address(given.h),
        _address(dh),
        _address(dh_before),
        shape.c.address,
        _address(given.c),
        _address(dc),
        _address(dc_before),
        network.weight_bytes,
        given.flat.data_ptr(),
        workspace_size,
        workspace.data_ptr(),
        reserve_size,
        _address(made.reserve),
    )
    return dx, dh_before, dc_before


def backward_weights(given: Inputs, made: Outputs) -> Tensor:
    """The gradient of the flat weights, after :func:`backward_data`."""
    network, shape, x = given.network, given.shape, given.x
    workspace_size, reserve_size = shape.memory[ForwardMode.TRAINING]
    gradient = torch.zeros_like(given.flat)  # cuDNN adds to it
    workspace = _bytes(workspace_size, x)
    call(
        "cudnnRNNBackwardWeights_v8",
        handle(x.device),
        network.rnn.address,
        GradMode.ADD,
        None,
        shape.x.address,
        x.data_ptr(),
        shape.h.address,
        _address(given.h),
        shape.y.address,
        made.y.data_ptr(),
        network.weight_bytes,
        gradient.data_ptr(),
        workspace_size,
        workspace.data_ptr(),
        reserve_size,
        _address(made.reserve),
    )
    return gradient


def _bytes(count: int, like: Tensor) -> Tensor:
    return like.new_empty(count, dtype=torch.uint8)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
