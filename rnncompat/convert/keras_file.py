"""HDF5 files of Keras 3 and 2: weights alone, or a whole model; those of the old cuDNN layers too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ..descriptor import Bias, Cell, RNNDescriptor
from ..errors import InvalidValueError, RNNCompatError, UnsupportedError, bad_value
from ..weights import RNNWeights
from .extras import require
from .file_format import FileFormat, Reading
from .keras import from_keras, to_keras
from .keras_config import Config, config_of
from .keras_cudnn import from_keras_cudnn
from .keras_hdf5 import StoredLayer, check_order, find_layers
from .result import Converted

__all__ = ["FILE"]

_PURPOSE = "A Keras file"
_UNTOLD = "activations, reset_after, merge_mode and go_backwards"
_NAMES = {Cell.LSTM: "lstm", Cell.GRU: "gru", Cell.RNN_TANH: "simple_rnn", Cell.RNN_RELU: "simple_rnn"}


def _read(path: Path, reading: Reading) -> Converted:
    h5py = require("h5py", "keras", _PURPOSE)
    with path.open("rb"):  # whoever cannot read it is told so by the system
        pass
    try:
        with h5py.File(path, "r") as file:
            chosen = _choose(find_layers(file), reading.prefix)
            check_order(chosen)
            layers = [[array[()] for array in layer.arrays] for layer in chosen]
            config = config_of(file.attrs.get("model_config"), [layer.name for layer in chosen])
    except RNNCompatError as error:
        raise type(error)(f"{path}: {error}") from None
    except Exception as error:  # noqa: BLE001  # a damaged or hostile file can raise anything
        raise InvalidValueError(
            f"{path} cannot be read as HDF5 ({type(error).__name__}: {error}): it is damaged, or no such file."
        ) from None
    found = _convert(layers, config, reading)
    return found._replace(done=found.done + _said_stack(chosen))


def _said_stack(layers: list[StoredLayer]) -> tuple[str, ...]:
    """The entry of ``done`` for what no part of a file is read for: what lies between the layers."""
    if len(layers) == 1:
        return ()
    names = ", ".join(layer.name for layer in layers)
    return (f"layers {names} read as a stack, each fed by the one before and nothing between",)


def _choose(layers: list[StoredLayer], prefix: str) -> list[StoredLayer]:
    """The layers of that name, or of names that begin so."""
    named = [layer for layer in layers if layer.name == prefix]
    chosen = named or [layer for layer in layers if layer.name.startswith(prefix)]
    if not chosen:
        names = " or ".join(repr(layer.name) for layer in layers)
        raise bad_value("prefix", prefix, f"the name of a layer, or the beginning of several: {names}")
    return chosen


def _convert(layers: list[list[Any]], config: Config | None, reading: Reading) -> Converted:
    cudnn = {_is_cudnn(arrays) for arrays in layers}
    if len(cudnn) > 1:
        raise UnsupportedError(
            "some of the layers are CuDNN layers and some are not. Convert them one by one."
        )
    if cudnn == {True}:
        merge_mode = Config().merge_mode if config is None else config.merge_mode
        return from_keras_cudnn(layers, merge_mode=merge_mode)
    done: tuple[str, ...] = ()
    if config is None:
        config = Config(activation=_told_by(reading.cell, layers))
        done = (f"no configuration in the file: read as Keras's default {_UNTOLD}",)
    found = from_keras(
        layers,
        activation=config.activation,
        recurrent_activation=config.recurrent_activation,
        reset_after=config.reset_after,
        merge_mode=config.merge_mode,
    )
    return found._replace(done=found.done + done)


def _is_cudnn(arrays: Sequence[Any]) -> bool:
    """Told by the bias: cuDNN's has the numbers of both in one row."""
    return len(arrays) in (3, 6) and tuple(arrays[2].shape) == (2 * arrays[1].shape[-1],)


def _told_by(cell: Cell | str | None, layers: list[list[Any]]) -> str:
    recurrent = layers[0][1]
    if recurrent.ndim != 2 or recurrent.shape[0] != recurrent.shape[1]:
        return "tanh"
    choices = {Cell.RNN_TANH: "tanh", Cell.RNN_RELU: "relu"}
    if cell is None or Cell(cell) not in choices:
        raise bad_value("cell", cell, "'rnn_tanh' or 'rnn_relu'", "The file does not tell them apart.")
    return choices[Cell(cell)]


def _write(path: Path, descriptor: RNNDescriptor, weights: RNNWeights) -> tuple[str, ...]:
    if not path.name.endswith(".weights.h5"):
        raise InvalidValueError(
            f"{path} must end in .weights.h5: under another name Keras expects a whole model."
        )
    h5py = require("h5py", "keras", _PURPOSE)
    layers, done = to_keras(descriptor, weights)
    with h5py.File(path, "w") as file:
        for number, arrays in enumerate(layers):
            _write_layer(file, descriptor, number, arrays)
    return (*done, f"written for a Sequential of {_say(descriptor)}")


def _write_layer(file: Any, descriptor: RNNDescriptor, number: int, arrays: list[Tensor]) -> None:
    name = "bidirectional" if descriptor.bidirectional else _NAMES[descriptor.cell]
    group = f"layers/{name}" + (f"_{number}" if number else "")
    ways = ("forward_layer/", "backward_layer/") if descriptor.bidirectional else ("",)
    count = len(arrays) // len(ways)
    for k, way in enumerate(ways):
        for index, array in enumerate(arrays[k * count : (k + 1) * count]):
            file[f"{group}/{way}cell/vars/{index}"] = array.numpy()


def _say(d: RNNDescriptor) -> str:
    """The layers in Keras's words."""
    kind = {Cell.LSTM: "LSTM", Cell.GRU: "GRU"}.get(d.cell, "SimpleRNN")
    options = [str(d.hidden_size), *(['activation="relu"'] if d.cell is Cell.RNN_RELU else [])]
    options += ["use_bias=False"] if d.bias is Bias.NONE else []
    layer = f"{kind}({', '.join([*options, 'return_sequences=True'])})"
    return f"{d.num_layers} {f'Bidirectional({layer})' if d.bidirectional else layer}"


FILE = FileFormat(
    name="keras",
    title="HDF5 files of Keras 3 and 2, weights or a whole model",
    suffixes=(".weights.h5", ".h5", ".hdf5"),
    read=_read,
    write=_write,
    takes=frozenset({"cell", "prefix"}),
)
