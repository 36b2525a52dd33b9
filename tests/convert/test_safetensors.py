"""Files of weights: what is saved comes back for ever, and a damaged or hostile file is refused in words."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import pytest
import saved
import torch
from cases import descriptors
from compare import assert_bitwise
from hypothesis import example, given
from hypothesis import strategies as st

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNCompatError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
)
from rnncompat.convert.safetensors import load_weights, save_weights

FORMATS = Path(__file__).parents[1] / "formats"
GRU = RNNDescriptor("gru", 2, 3)


def parts(path):
    """The header of a file as a dictionary, and its numbers."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def write(path, header, numbers):
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + numbers)


@pytest.fixture
def path(tmp_path):
    """A good file of a GRU."""
    save_weights(tmp_path / "good.safetensors", GRU, RNNWeights.init(GRU))
    return tmp_path / "good.safetensors"


@given(
    descriptors(),
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
    st.booleans(),
)
def test_what_is_saved_comes_back(tmp_path_factory, descriptor, dtype, mmap):
    weights = RNNWeights.init(descriptor, dtype=dtype)
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    save_weights(path, descriptor, weights)
    again = load_weights(str(path), mmap=mmap)
    assert again.descriptor == descriptor
    assert_bitwise(weights.flat, again.flat)
    assert (again.flat.requires_grad, again.flat.is_leaf) == (True, True)


def test_options_that_no_weight_shows(tmp_path):
    path = tmp_path / "w.safetensors"
    descriptor = RNNDescriptor("lstm", 2, 3, num_layers=2, dropout=0.1, cell_clip=(float("-inf"), 0.7))
    save_weights(path, descriptor, RNNWeights.init(descriptor))
    assert load_weights(path).descriptor == descriptor


@pytest.mark.parametrize(
    "release", sorted(FORMATS.glob("*/weights.safetensors")), ids=lambda p: p.parent.name
)
def test_files_of_each_release_load(release):
    expected = saved.values()["weights"]
    weights = load_weights(release)
    assert weights.descriptor == expected.descriptor
    assert_bitwise(expected.flat, weights.flat)


def test_a_mapped_file_is_read_page_by_page_and_never_written(path):
    before = path.read_bytes()
    mapped, read = load_weights(path, mmap=True), load_weights(path)
    addresses = [
        [int(bound, 16) for bound in line.split()[0].split("-")]
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        if line.endswith(path.name)
    ]
    lies_in_file = [any(low <= w.flat.data_ptr() < high for low, high in addresses) for w in (mapped, read)]
    assert lies_in_file == [True, False]
    with torch.no_grad():
        mapped.flat.add_(1)
    assert path.read_bytes() == before
    assert_bitwise(read.flat + 1, mapped.flat)


def test_saving_over_a_mapped_file_leaves_the_mapping_whole(path):
    mapped = load_weights(path, mmap=True)
    other = RNNWeights.init(RNNDescriptor("rnn_tanh", 1, 1))
    save_weights(path, other.descriptor, other)
    assert torch.isfinite(mapped.flat).all()
    assert load_weights(path).descriptor == other.descriptor
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_to_another_device(path):
    weights = load_weights(path, device="meta", mmap=True)
    assert weights.flat.device.type == "meta"


def test_what_cannot_be_saved_leaves_the_old_file(path):
    before = path.read_bytes()
    for descriptor, weights, error in (
        (RNNDescriptor("gru", 3, 2), RNNWeights.init(GRU), InvalidValueError),
        (GRU, torch.ones(45), InvalidTypeError),
        (GRU, RNNWeights.init(GRU, dtype=torch.float32), OSError),
    ):
        where = path if error is not OSError else path.parent / "no" / "such"
        with pytest.raises(error):
            save_weights(where, descriptor, weights)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_numpy_is_asked_for_where_the_library_writes_through_it(path, monkeypatch):
    weights = load_weights(path)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert load_weights(path).descriptor == GRU
    with pytest.raises(UnsupportedError, match="needs numpy, which is not installed"):
        save_weights(path, GRU, weights)


def test_a_file_that_is_not_there_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_weights(tmp_path / "none.safetensors")


@given(st.integers(0, 10_000))
@example(0)
@example(8)
def test_a_file_cut_anywhere_is_refused(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "w.safetensors"
    save_weights(path, GRU, RNNWeights.init(GRU))
    whole = path.read_bytes()
    path.write_bytes(whole[: length % len(whole)])
    with pytest.raises(InvalidValueError, match="is no whole safetensors file"):
        load_weights(path)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_changes_a_number(tmp_path_factory, place, byte):
    path = tmp_path_factory.mktemp("changed") / "w.safetensors"
    save_weights(path, GRU, RNNWeights.init(GRU))
    whole = bytearray(path.read_bytes())
    whole[place % len(whole)] = byte
    path.write_bytes(whole)
    try:
        weights = load_weights(path)
    except RNNCompatError as error:
        assert path.name in str(error)  # noqa: PT017  # either way is right
    else:
        assert weights.flat.shape == (RNNWeights.init(weights.descriptor).flat.numel(),)


OPTIONS = {"cell": "gru", "input_size": 2, "hidden_size": 3}


def descriptor_of(**options):
    return {"rnncompat.descriptor": json.dumps({**OPTIONS, **options})}


@pytest.mark.parametrize(
    ("metadata", "error", "text"),
    [
        ({"rnncompat.layout": "2"}, UnsupportedError, "version '2' of the layout.*reads version '1'"),
        ({"rnncompat.layout": ""}, UnsupportedError, "version '' of the layout"),
        ({"rnncompat.layout": None}, InvalidValueError, "has no rnncompat.layout .*from_torch"),
        ({"rnncompat.descriptor": None}, InvalidValueError, "has no rnncompat.layout .*from_torch"),
        ({"rnncompat.descriptor": "{"}, InvalidValueError, "a descriptor that cannot be read: Expecting"),
        ({"rnncompat.descriptor": "[" * 100_000}, InvalidValueError, "a descriptor that cannot be read"),
        ({"rnncompat.descriptor": "[1]"}, InvalidValueError, "it is a list; expected options by name"),
        ({"rnncompat.descriptor": "null"}, InvalidValueError, "it is a NoneType"),
        ({"rnncompat.descriptor": "{}"}, UnsupportedError, "written by a newer version, or damaged"),
        ({"rnncompat.descriptor": '{"cell": ' + "9" * 5000 + "}"}, InvalidValueError, "cannot be read"),
        (descriptor_of(attention=1), UnsupportedError, "'attention'.*written by a newer version, or damaged"),
        (descriptor_of(cell="mgu"), InvalidValueError, "cell is 'mgu'"),
        (descriptor_of(cell=["gru"]), InvalidValueError, r"cell is \['gru'\]"),
        (descriptor_of(cell={}), InvalidValueError, "cell is {}"),
        (descriptor_of(hidden_size=float("nan")), InvalidTypeError, "hidden_size is a float"),
        (descriptor_of(hidden_size="3"), InvalidTypeError, "hidden_size is a str"),
        (descriptor_of(hidden_size=True), InvalidTypeError, "hidden_size is a bool"),
        (descriptor_of(hidden_size=-3), InvalidValueError, "hidden_size is -3"),
        (
            descriptor_of(hidden_size=10**30),
            InvalidValueError,
            r"weights of shape \[63\], which is not the size",
        ),
        (
            descriptor_of(num_layers=10**15),
            InvalidValueError,
            r"weights of shape \[63\], which is not the size",
        ),
        (descriptor_of(bidirectional=1), InvalidTypeError, "bidirectional is a int"),
        (descriptor_of(dropout=float("nan")), InvalidValueError, "dropout is nan"),
        (descriptor_of(bias=None), InvalidValueError, "bias is None"),
        (descriptor_of(input_size=4), InvalidValueError, r"weights of shape \[63\], which is not the size"),
        (descriptor_of(cell="lstm", cell_clip=[1]), InvalidValueError, r"cell_clip is \[1\]"),
        (descriptor_of(cell="lstm", cell_clip=["a", {}]), InvalidValueError, "cell_clip is"),
        (descriptor_of(proj_size=2), UnsupportedError, "only the LSTM has a recurrent projection"),
    ],
)
def test_wrong_metadata_is_refused(path, metadata, error, text):
    header, numbers = parts(path)
    header["__metadata__"].update(metadata)
    header["__metadata__"] = {
        name: value for name, value in header["__metadata__"].items() if value is not None
    }
    write(path, header, numbers)
    with pytest.raises(error, match=text) as caught:
        load_weights(path)
    assert path.name in str(caught.value)


@pytest.mark.parametrize(
    ("flat", "numbers", "text"),
    [
        ({"shape": [7, 9]}, 252, r"weights of shape \[7, 9\], which is not the size"),
        ({"shape": [62], "data_offsets": [0, 248]}, 248, r"weights of shape \[62\]"),
        ({"shape": [], "data_offsets": [0, 4]}, 4, r"weights of shape \[\]"),
        ({"dtype": "I32"}, 252, "numbers of type I32"),
        ({"dtype": "XX"}, 252, "no whole safetensors file"),
        ({"shape": [2**62]}, 252, "no whole safetensors file"),
        ({"shape": [-63]}, 252, "no whole safetensors file"),
        ({"data_offsets": [0, 2**60]}, 252, "no whole safetensors file"),
        ({"data_offsets": [8, 0]}, 252, "no whole safetensors file"),
        ({}, 251, "no whole safetensors file"),
        ({}, 253, "no whole safetensors file"),
    ],
)
def test_a_wrong_tensor_is_refused(path, flat, numbers, text):
    header, data = parts(path)
    header["flat"].update(flat)
    write(path, header, (data + b"\0")[:numbers])
    with pytest.raises(InvalidValueError, match=text):
        load_weights(path)


def test_other_tensors_are_refused(path):
    header, data = parts(path)
    more = {**header, "more": {"dtype": "F32", "shape": [1], "data_offsets": [252, 256]}}
    write(path, more, data + b"\0" * 4)
    with pytest.raises(InvalidValueError, match=r"holds the tensors .*expected 'flat' alone"):
        load_weights(path)
    write(path, {"__metadata__": header["__metadata__"]}, b"")
    with pytest.raises(InvalidValueError, match=r"holds the tensors \[\]; expected 'flat' alone"):
        load_weights(path)


@pytest.mark.parametrize(
    "header", ["null", "[]", '"flat"', "{", "\x00", '{"flat": 1}', '{"__metadata__": 1}']
)
def test_a_header_of_another_kind_is_refused(path, header):
    write(path, header, b"")
    with pytest.raises(InvalidValueError, match="no whole safetensors file"):
        load_weights(path)


def test_a_header_longer_than_the_file_is_refused(path):
    for size in (2**64 - 1, 2**40, 1000):
        path.write_bytes(struct.pack("<Q", size) + b"{}")
        with pytest.raises(InvalidValueError, match="no whole safetensors file"):
            load_weights(path)
