"""What a Keras file says of a model beyond its arrays: read where it is a network of ours, refused where it is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import numpy_keras
import pytest

from rnncompat import InvalidValueError, UnsupportedError
from rnncompat.convert.file_format import Reading
from rnncompat.convert.keras import from_keras
from rnncompat.convert.keras_cudnn import from_keras_cudnn
from rnncompat.convert.keras_file import FILE

FIELDS = ("kernel", "recurrent_kernel", "bias")
FORWARD, BACKWARD = (
    numpy_keras.draw("lstm", both=True, inputs=5)[0][:3],
    numpy_keras.draw("lstm", inputs=5)[0],
)


@pytest.fixture(scope="module")
def h5py():
    return pytest.importorskip("h5py", reason="h5py comes with pip, not with Debian's torch")


def read(path, **reading):
    return FILE.read(Path(path), Reading(**reading))


def model(h5py, path, name, cells, config):
    """A whole model of one layer in the older kind of file, the form that Keras 2 and 3 write."""
    with h5py.File(path, "w") as file:
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [name]
        weights = {
            f"{cell}/{field}": a for cell, arrays in cells for field, a in zip(FIELDS, arrays, strict=True)
        }
        for weight, array in weights.items():
            group[f"{name}/{weight}"] = array
        group[name].attrs["weight_names"] = list(weights)
        file.attrs["model_config"] = json.dumps({"config": {"layers": [config]}})
    return path


def layer(kind, name, **options):
    return {"class_name": kind, "config": {"name": name, **options}}


def both_ways(h5py, path, backward="backward_lstm", **options):
    cells = [("both/forward_lstm/lstm_cell", FORWARD), (f"both/{backward}/lstm_cell", BACKWARD)]
    own = layer("LSTM", backward, **{"go_backwards": True, **options})
    config = layer("Bidirectional", "both", layer=layer("LSTM", "forward_lstm"), backward_layer=own)
    return model(h5py, path, "both", cells, config)


def test_the_backward_layer_of_a_model_is_heeded(h5py, tmp_path):
    assert read(both_ways(h5py, tmp_path / "m.h5")).descriptor.bidirectional
    for options in ({"activation": "relu"}, {"go_backwards": False}):
        with pytest.raises(UnsupportedError, match="differ in their options"):
            read(both_ways(h5py, tmp_path / "m.h5", **options))


def test_a_backward_layer_of_another_name_is_not_taken_for_a_second_layer(h5py, tmp_path):
    with pytest.raises(
        UnsupportedError, match=r"no LSTM, GRU or SimpleRNN of the names \['forward_lstm', 'lstm_2'\]"
    ):
        read(both_ways(h5py, tmp_path / "m.h5", backward="lstm_2"))


@pytest.mark.parametrize("merge_mode", ["sum", "ave", None])
def test_how_cudnn_layers_are_merged_is_heeded(h5py, tmp_path, merge_mode):
    arrays = numpy_keras.as_cudnn(numpy_keras.draw("gru", both=True)[0], both=True)
    cells = [(f"both/{way}_cu_dnngru", arrays[k : k + 3]) for k, way in ((0, "forward"), (3, "backward"))]
    config = layer("Bidirectional", "both", layer=layer("CuDNNGRU", "cu_dnngru"), merge_mode=merge_mode)
    with pytest.raises(UnsupportedError, match=f"merge_mode is '{merge_mode}'"):
        read(model(h5py, tmp_path / "m.h5", "both", cells, config))
    with pytest.raises(UnsupportedError, match="merge_mode is 'mul'"):
        from_keras_cudnn([arrays], merge_mode="mul")


def test_an_rnn_around_a_cell_is_read_as_its_cell_says(h5py, tmp_path):
    cells = [("rnn/lstm_cell", FORWARD)]
    plain = layer("RNN", "rnn", cell=layer("LSTMCell", "lstm_cell"))
    found = read(model(h5py, tmp_path / "m.h5", "rnn", cells, plain))
    assert (found.descriptor.cell.value, found.done) == ("lstm", ())
    other = layer("RNN", "rnn", cell=layer("LSTMCell", "lstm_cell", activation="relu"))
    with pytest.raises(UnsupportedError, match="activation is 'relu'"):
        read(model(h5py, tmp_path / "m.h5", "rnn", cells, other))


def test_stacked_cells_are_not_taken_for_two_directions(h5py, tmp_path):
    cells = [(f"rnn/stacked_rnn_cells/lstm_cell_{k}", own) for k, own in ((1, FORWARD), (2, BACKWARD))]
    config = layer("RNN", "rnn", cell=layer("StackedRNNCells", "stacked_rnn_cells"))
    with pytest.raises(UnsupportedError, match="2 cells that are no two directions"):
        read(model(h5py, tmp_path / "m.h5", "rnn", cells, config))


def test_an_order_that_a_file_does_not_say_is_not_guessed(h5py, tmp_path):
    """Keras 3 sorts by name: a model inside the first place of another comes after the other's own layer."""
    path = tmp_path / "m.weights.h5"
    with h5py.File(path, "w") as file:
        for place, name, arrays in (
            ("layers/sequential/layers/lstm", "first", FORWARD),
            ("layers/lstm", "second", BACKWARD),
        ):
            for k, array in enumerate(arrays):
                file[f"{place}/cell/vars/{k}"] = array
            file.create_group(f"{place}/vars").attrs["name"] = name
    with pytest.raises(UnsupportedError, match=r"does not say which comes first. .*'second', 'first'"):
        read(path)
    alone = read(path, prefix="second")
    assert alone.weights.flat.equal(from_keras([BACKWARD]).weights.flat)


def test_layers_of_two_cells_are_named_as_such():
    with pytest.raises(UnsupportedError, match="layer 1 is a 'gru', but layer 2 has 4 gates"):
        from_keras([numpy_keras.draw("gru")[0], FORWARD])
    with pytest.raises(InvalidValueError, match="recurrent of layer 2"):
        from_keras([FORWARD, [FORWARD[0], FORWARD[1][:, :7], FORWARD[2]]])


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, of its own arrays
@pytest.mark.parametrize(
    ("name", "ending", "words"),
    [
        ("nested", ".weights.h5", "does not say which comes first"),
        ("own backward", ".h5", "no LSTM, GRU or SimpleRNN of the names"),
        ("relu cell", ".h5", "activation is 'relu'"),
        ("stacked cells", ".h5", "no two directions"),
    ],
)
def test_keras_itself_writes_what_is_refused(h5py, tmp_path, name, ending, words):
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="Keras comes with the environment convert")
    lstm, cell = keras.layers.LSTM, keras.layers.LSTMCell
    own = {
        "nested": lambda: [keras.Sequential([lstm(5, return_sequences=True)]), lstm(5)],
        "own backward": lambda: [
            keras.layers.Bidirectional(lstm(5), backward_layer=lstm(5, go_backwards=True, activation="relu"))
        ],
        "relu cell": lambda: [keras.layers.RNN(cell(5, activation="relu"))],
        "stacked cells": lambda: [keras.layers.RNN([cell(5), cell(5)])],
    }[name]()
    net = keras.Sequential([keras.Input((7, 5)), *own])
    assert net(np.zeros((2, 7, 5), "float32")).shape[0] == 2
    path = tmp_path / f"m{ending}"
    (net.save_weights if "weights" in ending else net.save)(path)
    with pytest.raises(UnsupportedError, match=words):
        read(path)
