"""``torch.nn``: a ``state_dict`` of ``RNN``, ``LSTM`` or ``GRU``, or of the cell of one step.

Names, shapes and order of the gates are ours too, so nothing is moved; what a ``state_dict`` does not say is asked
for. One of our own modules reads as well: absent names tell its bias mode and its skip input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..descriptor import Bias, Cell, InputMode, RNNDescriptor
from ..errors import InvalidValueError, bad_shape, bad_type, bad_value
from ..layout import layout_of
from ..weights import RNNWeights
from .arrays import expect_one_dtype, expect_shape, read_array
from .biases import said_both, with_both_biases
from .gates import tell_cell
from .given import on_cpu, refuse_options, said_dropout
from .result import Converted, Exported

__all__ = ["from_torch", "to_torch"]

_NAME = re.compile(r"(weight_ih|weight_hh|weight_hr|bias_ih|bias_hh)(_l\d+(_reverse)?)?")


def from_torch(
    state_dict: Mapping[str, Any],
    *,
    cell: Cell | str | None = None,
    prefix: str = "",
    dropout: float = 0.0,
    cell_clip: tuple[float, float] | None = None,
) -> Converted:
    """Weights out of a ``state_dict`` of ``torch.nn`` or of one of our modules.

    Args:
        state_dict: arrays by name: ``weight_ih_l0`` ``[G*H, I]`` and so on, as torch names and shapes them.
        cell: needed for the one-gate RNN, whose ``state_dict`` does not tell ReLU from tanh; else inferred.
        prefix: where the network lies in a bigger model, such as ``"encoder.lstm"``.
        dropout: probability of dropping a value between layers; a ``state_dict`` does not hold it.
        cell_clip: range that c is clipped to; a ``state_dict`` does not hold it.

    Raises:
        InvalidValueError: names are missing, unknown or of several networks, or a shape does not fit the others.
        InvalidTypeError: an array cannot be read, or dtypes or devices differ.

    Example:
        >>> import torch
        >>> descriptor, weights, done = from_torch(torch.nn.LSTM(3, 5, num_layers=2, bias=False).state_dict())
        >>> descriptor
        RNNDescriptor('lstm', 3, 5, num_layers=2, bias='none')
        >>> weights["weight_ih_l1"].shape, done
        (torch.Size([20, 5]), ())
    """
    found = _select(state_dict, prefix)
    named = {name: read_array(name, array) for name, array in found.items()}
    done: tuple[str, ...] = ()
    if not any("_l" in name for name in named):
        named = {f"{name}_l0": tensor for name, tensor in named.items()}
        done = ("names of a cell became those of layer 0",)
    descriptor = _describe(named, cell, dropout, cell_clip)
    _check(descriptor, named)
    weights = RNNWeights.from_named(descriptor, named).requires_grad_()
    return Converted(descriptor, weights, done + _absences(descriptor))


def to_torch(descriptor: RNNDescriptor, weights: RNNWeights) -> Exported:
    """A ``state_dict`` for the module of ``torch.nn`` with the same sizes.

    Returns:
        Tensors by torch's names in torch's order. ``torch.nn`` has both biases or none: one that the network has
        not is added as zeros, which changes no value.

    Raises:
        UnsupportedError: the network has skip input or clips c.

    Example:
        >>> import torch
        >>> descriptor = RNNDescriptor("gru", 3, 5, bias="input")
        >>> arrays, done = to_torch(descriptor, RNNWeights.init(descriptor))
        >>> done
        ('added bias_hh of zeros',)
        >>> torch.nn.GRU(3, 5).load_state_dict(arrays)
        <All keys matched successfully>
    """
    refuse_options(descriptor, "torch.nn", ("input_mode", "cell_clip"))
    own = on_cpu(descriptor, weights)
    if descriptor.bias is Bias.NONE:
        return Exported(_in_torch_order(own), said_dropout(descriptor))
    done = said_both(descriptor.bias) + said_dropout(descriptor)
    return Exported(_in_torch_order(with_both_biases(own)), done)


def _in_torch_order(weights: RNNWeights) -> dict[str, Tensor]:
    # Clones: a view brings the whole buffer along wherever it is saved.
    return {slot.name: weights[slot.name].clone() for slot in weights.layout.in_torch_order()}


def _select(state_dict: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What lies under *prefix*, without it; every name is one of an RNN's."""
    if not isinstance(state_dict, Mapping) or not all(isinstance(name, str) for name in state_dict):
        raise bad_type(
            "state_dict",
            state_dict,
            "a mapping of names to arrays",
            "A module gives it: module.state_dict().",
        )
    start = f"{prefix}." if prefix and not prefix.endswith(".") else prefix
    found = {name[len(start) :]: array for name, array in state_dict.items() if name.startswith(start)}
    unknown = sorted(name for name in found if not _NAME.fullmatch(name))
    if unknown or not found:
        raise bad_value("prefix", prefix, _choices(state_dict), f"Under it lie {unknown[:3] or 'no names'}.")
    return found


def _choices(state_dict: Mapping[str, Any]) -> str:
    ends = ("weight_hh_l0", "weight_hh")
    prefixes = {name[: -len(end)] for name in state_dict for end in ends if name.endswith(end)}
    if not prefixes:
        return "the beginning of names like 'weight_hh_l0', of which state_dict has none"
    return f"where an RNN alone lies, in this state_dict {' or '.join(map(repr, sorted(prefixes)))}"


def _describe(
    named: Mapping[str, Tensor],
    cell: Cell | str | None,
    dropout: float,
    cell_clip: tuple[float, float] | None,
) -> RNNDescriptor:
    """The network that has these names and shapes."""
    for name in ("weight_hh_l0", "weight_ih_l0", "weight_hr_l0"):
        if name in named and named[name].dim() != 2:
            raise bad_shape(name, named[name], "of two dimensions")
    if "weight_hh_l0" not in named:
        raise bad_value("state_dict", sorted(named), "weight_hh_l0 among the names")
    recurrent, projection = named["weight_hh_l0"], named.get("weight_hr_l0")
    hidden = (recurrent if projection is None else projection).shape[1]
    linear = named.get("weight_ih_l0")
    return RNNDescriptor(
        tell_cell("weight_hh_l0", recurrent, hidden, cell),
        hidden if linear is None else linear.shape[1],
        hidden,
        num_layers=_layers(named),
        bidirectional=any(name.endswith("_reverse") for name in named),
        bias=_BIASES["bias_ih_l0" in named, "bias_hh_l0" in named],
        input_mode=InputMode.SKIP if linear is None else InputMode.LINEAR,
        proj_size=0 if projection is None else projection.shape[0],
        dropout=dropout,
        cell_clip=cell_clip,
    )


_BIASES = {
    (True, True): Bias.DOUBLE,
    (True, False): Bias.INPUT,
    (False, True): Bias.RECURRENT,
    (False, False): Bias.NONE,
}


def _absences(descriptor: RNNDescriptor) -> tuple[str, ...]:
    """The entries of ``done`` for what was told from names that are not there, and that ``torch.nn`` has."""
    read = {
        "no weight_ih_l0: read as skip input": descriptor.input_mode is InputMode.SKIP,
        "no bias_hh: read as bias mode 'input'": descriptor.bias is Bias.INPUT,
        "no bias_ih: read as bias mode 'recurrent'": descriptor.bias is Bias.RECURRENT,
    }
    return tuple(entry for entry, so in read.items() if so)


def _layers(named: Mapping[str, Tensor]) -> int:
    """How many layers there are; as many names at least, so that a number in a name cannot ask for more."""
    layers = {name.removesuffix("_reverse").rpartition("_l")[2] for name in named}
    if layers != {str(layer) for layer in range(len(layers))}:
        raise bad_value("state_dict", sorted(named), "layers that count from 0 without a gap")
    return len(layers)


def _check(descriptor: RNNDescriptor, named: Mapping[str, Tensor]) -> None:
    slots = layout_of(descriptor).slots
    missing = [slot.name for slot in slots if slot.name not in named]
    unknown = sorted(named.keys() - {slot.name for slot in slots})
    if missing or unknown:
        raise InvalidValueError(
            f"state_dict lacks {missing} and has {unknown} too many for {descriptor!r}, which its other names say."
        )
    for slot in slots:
        expect_shape(slot.name, named[slot.name], slot.shape, f"for {descriptor!r}")
    expect_one_dtype(named)
