"""What an export begins with: the options that the format lacks are refused, the weights copied to the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..descriptor import InputMode, RNNDescriptor
from ..errors import InvalidValueError, UnsupportedError, bad_type
from ..layout import layout_of
from ..weights import RNNWeights

__all__ = ["on_cpu", "refuse_options", "said_dropout"]

_OPTIONS: dict[str, tuple[str, Callable[[RNNDescriptor], bool]]] = {
    "num_layers": ("only one layer", lambda d: d.num_layers > 1),
    "bidirectional": ("only one direction", lambda d: d.bidirectional),
    "input_mode": ("no skip input", lambda d: d.input_mode is InputMode.SKIP),
    "proj_size": ("no projection", lambda d: d.proj_size > 0),
    "cell_clip": ("no clipping of c", lambda d: d.cell_clip is not None),
}


def refuse_options(descriptor: RNNDescriptor, destination: str, names: Iterable[str]) -> None:
    """Refuses a descriptor that uses an option which *destination* lacks.

    Args:
        descriptor: the network.
        destination: the format, as it reads inside a sentence.
        names: options of the descriptor that it lacks.

    Raises:
        UnsupportedError: one of them is used.

    Example:
        >>> refuse_options(RNNDescriptor("gru", 2, 3, num_layers=2), "an RNNDesc", ["num_layers"])
        Traceback (most recent call last):
            ...
        rnncompat.errors.UnsupportedError: num_layers is 2, but an RNNDesc has only one layer.
    """
    if not isinstance(descriptor, RNNDescriptor):
        raise bad_type("descriptor", descriptor, "an RNNDescriptor")
    for name in names:
        lacks, used = _OPTIONS[name]
        if used(descriptor):
            value = getattr(descriptor, name)
            shown = repr(getattr(value, "value", value))
            raise UnsupportedError(f"{name} is {shown}, but {destination} has {lacks}.")


def on_cpu(descriptor: RNNDescriptor, weights: RNNWeights) -> RNNWeights:
    """The weights of *descriptor* in memory of their own on the CPU, without gradients.

    Raises:
        InvalidTypeError: *weights* is no RNNWeights.
        InvalidValueError: it belongs to a network of another layout.
    """
    if not isinstance(weights, RNNWeights):
        raise bad_type("weights", weights, "RNNWeights", "RNNWeights.from_named takes a state_dict.")
    if weights.layout != layout_of(descriptor):
        raise InvalidValueError(
            f"weights are those of {weights.descriptor!r}; expected those of {descriptor!r}."
        )
    return RNNWeights(descriptor, weights.flat.detach().to(device="cpu", copy=True))


def said_dropout(descriptor: RNNDescriptor) -> tuple[str, ...]:
    """The entry of ``done`` for a format of weights alone: dropout changes no weight, and is lost on the way."""
    return (
        (f"left out dropout={descriptor.dropout}, which is not in the arrays",) if descriptor.dropout else ()
    )
