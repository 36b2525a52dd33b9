"""ONNX files that are damaged, hostile or too much."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cases import examples
from compare import assert_bitwise
from hypothesis import given
from hypothesis import strategies as st
from onnx_export import WARNINGS
from onnx_files import H, I, arrays, write

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNCompatError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
)
from rnncompat.convert import onnx_file
from rnncompat.convert.file_format import Reading
from rnncompat.convert.onnx import from_onnx
from rnncompat.convert.onnx_file import FILE, load_nodes, save_model

pytestmark = WARNINGS


def test_damaged_files(tmp_path):
    descriptor = RNNDescriptor("lstm", I, H, num_layers=2)
    whole, broken = tmp_path / "m.onnx", tmp_path / "broken.onnx"
    save_model(whole, descriptor, RNNWeights.init(descriptor))
    content = whole.read_bytes()
    for cut in (*range(40), *range(40, len(content), 97), len(content) - 1):
        broken.write_bytes(content[:cut])
        with pytest.raises(RNNCompatError, match=r"broken\.onnx"):
            load_nodes(broken)
    for junk in (b"", b"junk", b"\x00" * 100, b"PK\x03\x04" * 9):
        broken.write_bytes(junk)
        with pytest.raises(InvalidValueError, match=r"broken\.onnx is no whole ONNX model"):
            load_nodes(broken)
    with pytest.raises(FileNotFoundError):
        load_nodes(tmp_path / "none.onnx")
    with pytest.raises(OSError, match="No such file"):
        save_model(tmp_path / "no" / "such.onnx", descriptor, RNNWeights.init(descriptor))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
@examples(80)
def test_changed_bytes_are_read_or_refused_in_words(tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("onnx")
    descriptor = RNNDescriptor("gru", 1, 2)
    save_model(folder / "m.onnx", descriptor, RNNWeights.init(descriptor))
    content = bytearray((folder / "m.onnx").read_bytes())
    for place, byte in changes:
        content[place % len(content)] = byte
    (folder / "m.onnx").write_bytes(content)
    try:
        read = FILE.read(folder / "m.onnx", Reading())
    except RNNCompatError:
        return
    assert read.weights.flat.numel() <= len(content)


def bomb(nodes, stored):
    return {
        "nodes": [*nodes, ("LSTM", ["x", "big", "R", "B"], ["y"], {"hidden_size": H})],
        "stored": {**arrays(), **stored},
    }


HOSTILE = {
    "a fill": bomb([("ConstantOfShape", ["s"], ["big"], {})], {"s": np.array([1, 20, 10**15])}),
    "copies": bomb([("Expand", ["W", "s"], ["big"], {})], {"s": np.array([10**12, 20, I])}),
    "tiles": bomb([("Tile", ["W", "s"], ["big"], {})], {"s": np.array([10**12, 1, 1])}),
    "doubling": bomb(
        [
            (
                "Concat",
                [f"d{k}" if k else "W", f"d{k}" if k else "W"],
                [f"d{k + 1}" if k < 60 else "big"],
                {"axis": 2},
            )
            for k in range(61)
        ],
        {},
    ),
    "broadcasts": bomb(
        [("Add", ["column", "row"], ["big"], {})],
        {"column": np.zeros((1, 10**5, 1), np.float32), "row": np.zeros((1, 1, 10**5), np.float32)},
    ),
    "gathered again and again": bomb([("Gather", ["W", "s"], ["big"], {})], {"s": np.zeros(10**5, np.int64)}),
    "a wrong slice": bomb([("Slice", ["W", "s", "s", "s", "s"], ["big"], {})], {"s": np.array([7, 7])}),
    "an operator of another kind": bomb([("Sin", ["W"], ["big"], {})], {}),
    "an input": {"nodes": [("LSTM", ["x", "x", "R", "B"], ["y"], {"hidden_size": H})], "stored": arrays()},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_models(case, tmp_path):
    file = write(tmp_path / "m.onnx", **HOSTILE[case])
    with pytest.raises(
        UnsupportedError, match=r"W of n[0-9]+ comes out of .* and is no constant that can be read"
    ):
        load_nodes(file)


def test_a_model_without_such_nodes(tmp_path):
    file = write(tmp_path / "m.onnx", [("Relu", ["x"], ["y"], {})], {})
    with pytest.raises(InvalidValueError, match="has no node LSTM, GRU, RNN in its main graph"):
        load_nodes(file)


def test_data_outside_the_folder_is_not_read(tmp_path):
    import onnx  # noqa: PLC0415

    (tmp_path / "inner").mkdir()
    (tmp_path / "secret").write_bytes(b"\0" * 4096)
    file = tmp_path / "inner" / "m.onnx"
    write(file, [("LSTM", ["x", "W", "R", "B"], ["y"], {"hidden_size": H})], arrays())
    model = onnx.load(file)
    outside = model.graph.initializer[0]
    outside.ClearField("raw_data")
    outside.data_location = onnx.TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="../secret")
    file.write_bytes(model.SerializeToString())
    with pytest.raises(InvalidValueError, match=r"is no whole ONNX model"):
        load_nodes(file)


def test_data_beside_the_model(tmp_path, monkeypatch):
    import onnx  # noqa: PLC0415

    file = write(tmp_path / "m.onnx", [("LSTM", ["x", "W", "R", "B"], ["y"], {"hidden_size": H})], arrays())
    expected = from_onnx(load_nodes(file)).weights.flat.detach()
    monkeypatch.chdir(tmp_path)  # onnx looks there whether the data are new
    onnx.save(onnx.load(file), file, save_as_external_data=True, location="m.data", size_threshold=0)
    assert_bitwise(expected, from_onnx(load_nodes(file)).weights.flat.detach())
    (tmp_path / "m.data").unlink()
    with pytest.raises((InvalidValueError, OSError), match=r"m\.data"):
        load_nodes(file)


def test_what_no_file_can_hold(tmp_path, monkeypatch):
    descriptor = RNNDescriptor("gru", I, H)
    with pytest.raises(InvalidTypeError, match=r"weights have dtype torch.bfloat16; expected one of"):
        save_model(tmp_path / "m.onnx", descriptor, RNNWeights.init(descriptor, dtype=torch.bfloat16))
    monkeypatch.setattr(onnx_file, "_MOST", 599)
    with pytest.raises(UnsupportedError, match=r"weights are 600 bytes; an ONNX file"):
        save_model(tmp_path / "m.onnx", descriptor, RNNWeights.init(descriptor))
    assert not (tmp_path / "m.onnx").exists()
