"""HDF5 files of Keras: some that Keras 3.15 and 2.21 wrote, more in the form of Keras 2, and Keras itself reading ours.

In ``data``, the files ``keras3_*`` hold the arrays of ``numpy_keras.draw`` in float32. ``keras2_*`` are of ``tf_keras``
2.21 on TensorFlow 2.21, random; ``keras2_outputs.npz`` has what it computed, for the cuDNN layers, which have no CPU
kernel, by its own loader reading their file into plain ones. What no such file covers is written here in the form of
its ``hdf5_format``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import numpy_keras
import pytest
import torch
from compare import assert_bitwise, assert_same

from rnncompat import (
    InvalidValueError,
    RNNCompatError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    rnn_forward,
)
from rnncompat.convert.file_format import Reading
from rnncompat.convert.keras import from_keras
from rnncompat.convert.keras_file import FILE

DATA = Path(__file__).parent / "data"
X = np.random.default_rng(9).normal(size=(4, 7, 3))


@pytest.fixture(scope="module")
def h5py():
    return pytest.importorskip("h5py", reason="h5py comes with pip, not with Debian's torch")


def read(path, **reading):
    return FILE.read(Path(path), Reading(**reading))


def run(descriptor, weights):
    x = torch.tensor(X, dtype=weights.flat.dtype)
    return rnn_forward(descriptor, weights, x, batch_first=True, backend="reference")[0].detach().double()


UNTOLD = "no configuration in the file: read as Keras's default activations, reset_after, merge_mode and go_backwards"
STACK = "layers {0}, {0}_1 read as a stack, each fed by the one before and nothing between"


@pytest.mark.parametrize(
    ("name", "cell", "both", "done"),
    [
        ("keras3_lstm.weights.h5", "lstm", True, (UNTOLD,)),
        ("keras3_lstm_model.h5", "lstm", True, ()),
        ("keras3_gru.weights.h5", "gru", False, ("gates z r n became r z n", UNTOLD)),
    ],
)
def test_files_that_keras_wrote(h5py, name, cell, both, done):
    descriptor, weights, said = read(DATA / name)
    assert (descriptor.cell.value, descriptor.num_layers, descriptor.bidirectional) == (cell, 2, both)
    assert said == (*done, STACK.format("bidirectional" if both else "gru"))
    arrays = numpy_keras.draw(cell, 2, both=both)
    assert_same(numpy_keras.run(cell, arrays, X, both), run(descriptor, weights), 1e-5)


@pytest.mark.parametrize(
    ("name", "cell", "both", "bias", "done"),
    [
        ("gru", "gru", False, "double", ("gates z r n became r z n", UNTOLD)),
        ("lstm_model", "lstm", True, "input", ()),
        ("cudnn_gru", "gru", True, "double", ("gates z r n became r z n",)),
        ("cudnn_lstm_model", "lstm", False, "double", ()),
    ],
)
def test_files_that_keras_2_wrote(h5py, name, cell, both, bias, done):
    saved = np.load(DATA / "keras2_outputs.npz")
    descriptor, weights, said = read(DATA / f"keras2_{name}.h5")
    assert descriptor == RNNDescriptor(cell, 3, 5, num_layers=2, bidirectional=both, bias=bias)
    assert said[:-1] == done
    assert said[-1].endswith("read as a stack, each fed by the one before and nothing between")
    x = torch.tensor(saved["x"])
    output, _ = rnn_forward(descriptor, weights, x, batch_first=True, backend="reference")
    assert_same(saved[name], output.detach(), 1e-6)


def test_hard_sigmoid_is_told_by_a_model_that_keras_2_wrote(h5py):
    with pytest.raises(UnsupportedError, match="recurrent_activation is 'hard_sigmoid'"):
        read(DATA / "keras2_hard_model.h5")


def test_relu_is_told_by_a_whole_model_and_asked_for_else(h5py):
    descriptor, weights, done = read(DATA / "keras3_relu_model.h5")
    assert (descriptor.cell.value, done) == ("rnn_relu", ())
    assert_same(numpy_keras.run("rnn_relu", numpy_keras.draw("rnn_relu"), X), run(descriptor, weights), 1e-4)
    with pytest.raises(InvalidValueError, match="does not tell them apart"):
        read(DATA / "keras3_relu.weights.h5")
    again = read(DATA / "keras3_relu.weights.h5", cell="rnn_relu")
    assert again.descriptor == descriptor
    assert_bitwise(weights.flat, again.weights.flat)


def test_one_layer_of_several_is_chosen_by_its_name(h5py):
    descriptor, weights, _ = read(DATA / "keras3_gru.weights.h5", prefix="gru_1")
    first, second = numpy_keras.draw("gru", 2)
    assert (descriptor.input_size, descriptor.num_layers) == (5, 1)
    assert_same(from_keras([second]).weights.flat.float(), weights.flat, 1e-6)
    with pytest.raises(InvalidValueError, match=r"prefix is 'decoder'; expected .* 'gru' or 'gru_1'"):
        read(DATA / "keras3_gru.weights.h5", prefix="decoder")
    assert first[0].shape == (3, 15)


def keras_2(h5py, path, layers, *, config=None, root=""):
    """A file as Keras 2 wrote it: *layers* has name, path of the cell and arrays of each."""
    with h5py.File(path, "w") as file:
        top = file.require_group(root) if root else file
        top.attrs["layer_names"] = np.array([name.encode() for name, _ in layers])
        for name, cells in layers:
            group = top.create_group(name)
            names = []
            for cell, arrays in cells:
                for field, array in zip(("kernel", "recurrent_kernel", "bias"), arrays, strict=False):
                    group[f"{cell}/{field}:0"] = array
                    names.append(f"{cell}/{field}:0".encode())
            group.attrs["weight_names"] = np.array(names) if names else np.zeros(0, "S1")
        if config is not None:
            file.attrs["model_config"] = json.dumps(config)


def layer_config(kind, name, **options):
    return {"class_name": kind, "config": {"name": name, "units": 5, **options}}


@pytest.mark.parametrize("inner", ["lstm_{}/lstm_cell_{}", "lstm_{}"], ids=["2.4", "2.2"])
def test_weights_of_keras_2(h5py, tmp_path, inner):
    arrays = numpy_keras.draw("lstm", 2)
    layers = [(f"lstm_{k}", [(inner.format(k, k), arrays[k])]) for k in (0, 1)]
    keras_2(h5py, tmp_path / "w.h5", [("input_1", []), *layers, ("dense", [("dense", [np.ones((5, 2))])])])
    descriptor, weights, _ = read(tmp_path / "w.h5")
    assert descriptor == RNNDescriptor("lstm", 3, 5, num_layers=2, bias="input")
    assert_same(numpy_keras.run("lstm", arrays, X), run(descriptor, weights))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("both", [False, True])
def test_cudnn_layers_of_keras_2(h5py, tmp_path, cell, both):
    plain = numpy_keras.draw(cell, 2, both=both)
    doubled = [[np.stack([a, 0 * a]) if a.ndim == 1 else a for a in layer] for layer in plain]
    layers = []
    for k, arrays in enumerate(numpy_keras.as_cudnn(layer, both) for layer in doubled):
        name = f"bidirectional_{k}" if both else f"cu_dnn{cell}_{k}"
        ways = ("forward_", "backward_") if both else ("",)
        paths = [f"{name}/{way}cu_dnn{cell}_{k}" if both else name for way in ways]
        layers.append((name, [(path, arrays[3 * i : 3 * i + 3]) for i, path in enumerate(paths)]))
    keras_2(h5py, tmp_path / "w.hdf5", layers, root="model_weights")
    descriptor, weights, done = read(tmp_path / "w.hdf5")
    assert descriptor == RNNDescriptor(cell, 3, 5, num_layers=2, bidirectional=both)
    assert UNTOLD not in done
    assert_same(numpy_keras.run(cell, plain, X, both), run(descriptor, weights))


def test_a_layer_whose_name_begins_like_a_direction(h5py, tmp_path):
    arrays = numpy_keras.draw("lstm", 2)
    keras_2(
        h5py,
        tmp_path / "w.h5",
        [("forward_one", [("forward_one", arrays[0])]), ("backward_two", [("backward_two", arrays[1])])],
    )
    descriptor, weights, _ = read(tmp_path / "w.h5")
    assert (descriptor.num_layers, descriptor.bidirectional) == (2, False)
    assert_same(numpy_keras.run("lstm", arrays, X), run(descriptor, weights))


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("LSTM", {"recurrent_activation": "hard_sigmoid"}, "recurrent_activation is 'hard_sigmoid'"),
        ("LSTM", {"activation": "relu"}, "activation is 'relu'"),
        ("LSTM", {"go_backwards": True}, "go_backwards is True"),
        ("GRU", {}, "reset_after is False"),
        ("GRU", {"reset_after": False}, "reset_after is False"),
    ],
)
def test_what_a_whole_model_says_is_heeded(h5py, tmp_path, kind, options, words):
    cell = kind.lower()
    config = {"class_name": "Sequential", "config": {"layers": [layer_config(kind, "one", **options)]}}
    arrays = numpy_keras.draw(cell, bias=False)
    keras_2(h5py, tmp_path / "m.h5", [("one", [("one", arrays[0])])], config=config, root="model_weights")
    with pytest.raises(UnsupportedError, match=words):
        read(tmp_path / "m.h5")


def test_how_directions_are_merged_is_heeded(h5py, tmp_path):
    inner = layer_config("LSTM", "lstm")
    config = {
        "layers": [
            {"class_name": "Bidirectional", "config": {"name": "both", "layer": inner, "merge_mode": "sum"}}
        ]
    }
    (arrays,) = numpy_keras.draw("lstm", both=True)
    cells = [("both/forward_lstm/lstm_cell", arrays[:3]), ("both/backward_lstm/lstm_cell", arrays[3:])]
    keras_2(h5py, tmp_path / "m.h5", [("both", cells)], config=config, root="model_weights")
    with pytest.raises(UnsupportedError, match="merge_mode is 'sum'"):
        read(tmp_path / "m.h5")


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "other"])
def test_damaged_files_are_refused_in_words(h5py, tmp_path, damage):
    path = tmp_path / "w.weights.h5"
    whole = (DATA / "keras3_gru.weights.h5").read_bytes()
    path.write_bytes(
        {"cut": whole[: len(whole) // 2], "text": b"no such file" * 99, "empty": b"", "other": b""}[damage]
    )
    if damage == "other":
        with h5py.File(path, "w") as file:
            file["layers/dense/vars/0"] = np.ones((3, 2))
    with pytest.raises(InvalidValueError, match=str(path)):
        read(path)


def test_bytes_changed_anywhere_give_the_numbers_or_our_error(h5py, tmp_path):
    whole = bytearray((DATA / "keras3_gru.weights.h5").read_bytes())
    path, rng, refused = tmp_path / "w.weights.h5", np.random.default_rng(3), 0
    for _ in range(150):
        changed = bytearray(whole)
        for place in rng.integers(0, 2000, 3):
            changed[place] = int(rng.integers(0, 256))
        path.write_bytes(changed)
        try:
            assert read(path).descriptor.hidden_size
        except RNNCompatError:
            refused += 1
    assert refused


def test_links_out_of_the_file_are_not_followed(h5py, tmp_path):
    with h5py.File(tmp_path / "w.weights.h5", "w") as file:
        file["layers/gru/cell/vars"] = h5py.ExternalLink(
            str(DATA / "keras3_gru.weights.h5"), "layers/gru/cell/vars"
        )
    with pytest.raises(InvalidValueError, match="no recurrent layer"):
        read(tmp_path / "w.weights.h5")


def test_a_file_that_is_not_there_is_the_systems_error(h5py, tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "w.weights.h5")


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_relu"])
def test_what_is_written_is_read(h5py, tmp_path, cell, both):
    descriptor = RNNDescriptor(cell, 3, 5, num_layers=3, bidirectional=both)
    weights = RNNWeights.init(descriptor)
    done = FILE.write(tmp_path / "w.weights.h5", descriptor, weights)
    assert done[-1].startswith("written for a Sequential of 3 ")
    again = read(tmp_path / "w.weights.h5", **({"cell": cell} if cell == "rnn_relu" else {}))
    assert_same(run(descriptor, weights), run(again.descriptor, again.weights), 1e-6)
    with pytest.raises(InvalidValueError, match=r"must end in \.weights\.h5"):
        FILE.write(tmp_path / "w.h5", descriptor, weights)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, of its own arrays
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("bias", ["double", "none"])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_relu"])
def test_keras_itself_loads_what_is_written(h5py, tmp_path, cell, bias, both):
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="Keras comes with the environment convert")
    descriptor = RNNDescriptor(cell, 3, 5, num_layers=2, bidirectional=both, bias=bias)
    weights = RNNWeights.init(descriptor)
    FILE.write(tmp_path / "w.weights.h5", descriptor, weights)
    kind = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "rnn_relu": keras.layers.SimpleRNN}[cell]
    options = {"activation": "relu"} if cell == "rnn_relu" else {}
    layers = [kind(5, return_sequences=True, use_bias=bias == "double", **options) for _ in range(2)]
    layers = [keras.layers.Bidirectional(layer) if both else layer for layer in layers]
    model = keras.Sequential([keras.Input((7, 3)), *layers])
    model.load_weights(tmp_path / "w.weights.h5")
    expected = keras.ops.convert_to_numpy(model(X.astype("float32")))
    assert_same(torch.tensor(expected).double(), run(descriptor, weights), 1e-6)
