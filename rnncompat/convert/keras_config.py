"""What a file of a whole Keras model says of its recurrent layers beside their weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import InvalidValueError, UnsupportedError

__all__ = ["Config", "config_of"]

_KINDS = ("LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "CuDNNGRU")
_CELLS = ("LSTMCell", "GRUCell", "SimpleRNNCell")


class Config(NamedTuple):
    """The options of a layer that change what it computes; Keras's own defaults where a file says nothing."""

    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"
    reset_after: bool = True
    merge_mode: str = "concat"
    go_backwards: bool = False


def config_of(text: str | bytes | None, names: Sequence[str]) -> Config | None:
    """The options that the layers of these *names* share; None where the file holds no configuration.

    Args:
        text: the JSON that Keras keeps beside the weights of a whole model.
        names: of the layers.

    Raises:
        InvalidValueError: it cannot be read.
        UnsupportedError: the layers or their directions differ, run backwards, or are of a kind unknown here.
    """
    if text is None:
        return None
    try:
        found = list(_walk(json.loads(text)))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidValueError(f"the configuration of the model cannot be read: {error}.") from None
    unknown = sorted(set(names) - {name for name, _ in found})
    if unknown:
        raise UnsupportedError(
            f"the configuration of the model has no LSTM, GRU or SimpleRNN of the names {unknown}: they lie in layers "
            "of another kind. If those compute with Keras's default options, save the weights alone."
        )
    told = [config for name, config in found if name in names]
    if len(set(told)) > 1:
        raise UnsupportedError(
            f"layers {list(names)} differ in their options: {sorted(map(str, set(told)))}."
        )
    if told[0].go_backwards:
        raise UnsupportedError(
            "go_backwards is True; turn the input round and the output back, and set it to False."
        )
    return told[0]


def _walk(value: Any) -> Iterator[tuple[str, Config]]:
    """Name and options of every recurrent layer in nested configurations, those of Bidirectional under its own name."""
    if isinstance(value, list):
        for inner in value:
            yield from _walk(inner)
    elif isinstance(value, dict):
        config = value.get("config")
        kind = value.get("class_name")
        if kind in _KINDS and isinstance(config, dict):
            yield str(config.get("name")), _read(kind, config)
        elif kind == "Bidirectional" and isinstance(config, dict):
            yield from _both(config)
        elif kind == "RNN" and isinstance(config, dict):
            yield from _of_cell(config)
        else:
            for inner in value.values():
                yield from _walk(inner)


def _both(config: dict[str, Any]) -> Iterator[tuple[str, Config]]:
    """One entry a direction, the backward one turned round, so that the two are equal where they compute alike."""
    merge_mode = str(config.get("merge_mode", "concat"))
    for field, turned in (("layer", False), ("backward_layer", True)):
        for _, own in _walk(config.get(field)):
            backwards = own.go_backwards is not turned
            yield str(config.get("name")), own._replace(merge_mode=merge_mode, go_backwards=backwards)


def _of_cell(config: dict[str, Any]) -> Iterator[tuple[str, Config]]:
    """The options of a plain ``RNN`` around one of Keras's own cells."""
    cell = config.get("cell")
    if isinstance(cell, dict) and cell.get("class_name") in _CELLS and isinstance(cell.get("config"), dict):
        own = _read(cell["class_name"].removesuffix("Cell"), cell["config"])
        yield str(config.get("name")), own._replace(go_backwards=bool(config.get("go_backwards")))


def _read(kind: str, config: dict[str, Any]) -> Config:
    plain = Config()
    if kind.startswith("CuDNN"):
        return plain._replace(go_backwards=bool(config.get("go_backwards")))
    # A GRU that does not say it was made before there was a choice.
    resets = config.get("reset_after", False) if kind == "GRU" else True
    recurrent = str(config.get("recurrent_activation", plain.recurrent_activation))
    return Config(
        activation=str(config.get("activation", plain.activation)),
        recurrent_activation=plain.recurrent_activation if kind == "SimpleRNN" else recurrent,
        reset_after=bool(resets),
        go_backwards=bool(config.get("go_backwards")),
    )
