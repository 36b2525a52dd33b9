"""``successor``: the module of the core that takes the place of an old object, and the line that builds it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rnncompat import GRU, LSTM, RNN, Bias, Cell, InputMode, RNNDescriptor

__all__ = ["successor"]

_CLASSES: dict[Cell, type[LSTM | GRU | RNN]] = {
    Cell.LSTM: LSTM,
    Cell.GRU: GRU,
    Cell.RNN_TANH: RNN,
    Cell.RNN_RELU: RNN,
}


def successor(descriptor: RNNDescriptor, named: Mapping[str, Tensor], name: str) -> LSTM | GRU | RNN:
    """The module of *descriptor* with copies of *named* as its weights; prints the code that builds it.

    Args:
        descriptor: what is computed.
        named: the weights under ``torch.nn``'s names, of one dtype and device.
        name: of the variable in the printed line.
    """
    like = next(iter(named.values()))
    options = {**_options(descriptor), **_placement(like)}
    shown = [repr(descriptor.input_size), repr(descriptor.hidden_size)]
    shown += [f"{option}={value!r}" for option, value in options.items()]
    made = _CLASSES[descriptor.cell]
    print(f"{name} = rnncompat.{made.__name__}({', '.join(shown)})")  # noqa: T201  # what it is for
    module = made(descriptor.input_size, descriptor.hidden_size, **options)  # type: ignore[arg-type]  # by name
    with torch.no_grad():
        for parameter_name, parameter in module.named_parameters():
            parameter.copy_(named[parameter_name])
    return module


def _options(descriptor: RNNDescriptor) -> dict[str, object]:
    """The options of the constructor that differ from their defaults."""
    chosen: tuple[tuple[str, object, object], ...] = (
        ("num_layers", descriptor.num_layers, 1),
        ("nonlinearity", "relu" if descriptor.cell is Cell.RNN_RELU else "tanh", "tanh"),
        ("bias", descriptor.bias.value, Bias.DOUBLE.value),
        ("dropout", descriptor.dropout, 0.0),
        ("bidirectional", descriptor.bidirectional, False),
        ("input_mode", descriptor.input_mode.value, InputMode.LINEAR.value),
    )
    return {option: value for option, value, default in chosen if value != default}


def _placement(like: Tensor) -> dict[str, object]:
    """The dtype and device, where a new module would have others."""
    fresh = torch.empty(0)
    dtype = {} if like.dtype == fresh.dtype else {"dtype": like.dtype}
    device = {} if like.device == fresh.device else {"device": str(like.device)}
    return {**dtype, **device}
