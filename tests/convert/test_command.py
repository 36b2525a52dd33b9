"""``python -m rnncompat convert``: formats found by themselves, what was done said, errors in one line."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from compare import assert_bitwise

import rnncompat.convert
from rnncompat import RNNDescriptor, RNNWeights, __main__
from rnncompat.convert.file_format import FileFormat, file_formats
from rnncompat.convert.safetensors import load_weights, save_weights
from rnncompat.convert.torch import from_torch

GRU = RNNDescriptor("gru", 3, 5, bias="input")


@pytest.fixture
def convert(capsys):
    """Runs the command; its exit code, standard output and standard error."""

    def run(*arguments):
        code = __main__.main(["convert", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def model(tmp_path):
    """A checkpoint with an LSTM somewhere inside."""
    lstm = torch.nn.LSTM(3, 5, 2)
    named = {f"encoder.lstm.{name}": tensor for name, tensor in lstm.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": named}, tmp_path / "model.pt")
    return tmp_path / "model.pt", lstm


WORDS = """
from rnncompat import RNNDescriptor, RNNWeights
from rnncompat.convert.file_format import FileFormat
from rnncompat.convert.result import Converted

DESCRIPTOR = RNNDescriptor("rnn_tanh", 1, 1, bias="none")

def read(path, reading):
    import torch
    numbers = torch.tensor([float(word) for word in path.read_text().split()])
    return Converted(DESCRIPTOR, RNNWeights(DESCRIPTOR, numbers), ("read words",))

def write(path, descriptor, weights):
    path.write_text(" ".join(map(str, weights.flat.tolist())))
    return ("wrote words",)

FILE = FileFormat("words", "numbers in words", (".txt", ".st.words"), read, write)
"""


def test_a_new_format_is_one_new_file(convert, capsys, tmp_path, monkeypatch):
    (tmp_path / "brand_new.py").write_text(WORDS, encoding="utf-8")
    monkeypatch.setattr(rnncompat.convert, "__path__", [*rnncompat.convert.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "rnncompat.convert.brand_new", raising=False)
    (tmp_path / "w.txt").write_text("1.5 -0.25", encoding="utf-8")
    code, out, _ = convert(tmp_path / "w.txt", tmp_path / "again.ST.WORDS")
    assert code == 0
    assert "read words" in out
    assert "wrote words" in out
    assert (tmp_path / "again.ST.WORDS").read_text(encoding="utf-8") == "1.5 -0.25"
    with pytest.raises(SystemExit):
        __main__.main(["convert", "--help"])
    assert "words        .txt .st.words           numbers in words" in capsys.readouterr().out


def test_every_format_says_what_it_is():
    for name, one in file_formats().items():
        assert isinstance(one, FileFormat)
        assert name == one.name
        assert one.suffixes
        assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in one.suffixes)


def test_a_part_of_a_checkpoint_to_safetensors_and_back(convert, model, tmp_path):
    path, lstm = model
    weights = tmp_path / "w.safetensors"
    code, out, _ = convert(path, weights, "--prefix", "state_dict.encoder.lstm", "--dropout", 0.5)
    assert code == 0
    assert out.splitlines() == [
        f"{path} (torch): RNNDescriptor('lstm', 3, 5, num_layers=2, dropout=0.5)",
        f"{weights} (safetensors): written",
    ]
    assert load_weights(weights).descriptor.dropout == 0.5
    code, out, _ = convert(weights, tmp_path / "again.pth")
    assert out.splitlines()[1] == "  left out dropout=0.5, which is not in the arrays"
    again = torch.load(tmp_path / "again.pth", weights_only=True)
    assert_bitwise(list(lstm.state_dict().values()), list(again.values()))


def test_a_state_dict_in_a_safetensors_file(convert, tmp_path):
    from safetensors.torch import save_file  # noqa: PLC0415  # not everybody has it

    module = torch.nn.RNN(3, 5, nonlinearity="relu")
    save_file(module.state_dict(), tmp_path / "hub.safetensors")
    options = ("--from", "torch", "--cell", "rnn_relu")
    assert convert(tmp_path / "hub.safetensors", tmp_path / "w.safetensors", *options)[0] == 0
    assert_bitwise(
        from_torch(module.state_dict(), cell="rnn_relu").weights.flat,
        load_weights(tmp_path / "w.safetensors").flat,
    )
    code, _, err = convert(tmp_path / "hub.safetensors", tmp_path / "w.safetensors")
    assert code == 2
    assert "If it holds a state_dict" in err
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "hub.safetensors").read_bytes()[:90])
    code, _, err = convert(tmp_path / "cut.safetensors", tmp_path / "w.safetensors", *options)
    assert code == 2
    assert "cut.safetensors cannot be read as tensors" in err


def test_what_was_done_is_said(convert, tmp_path):
    save_weights(tmp_path / "w.safetensors", GRU, RNNWeights.init(GRU))
    code, out, _ = convert(tmp_path / "w.safetensors", tmp_path / "w.bin")
    assert code == 0
    assert out.splitlines()[1] == "  added bias_hh of zeros"
    torch.nn.GRU(3, 5).load_state_dict(torch.load(tmp_path / "w.bin", weights_only=True))


def test_what_cannot_be_done_is_one_line_and_code_2(convert, model, tmp_path):
    path, _ = model
    clipped = RNNDescriptor("lstm", 3, 5, cell_clip=(-1, 1))
    save_weights(tmp_path / "w.safetensors", clipped, RNNWeights.init(clipped))
    torch.save(torch.nn.GRU(2, 3), tmp_path / "module.pt")
    (tmp_path / "cut.pt").write_bytes(path.read_bytes()[:500])
    (tmp_path / "empty.pt").touch()
    to = tmp_path / "to.pt"
    for arguments, text in (
        (
            (path, to),
            "prefix is ''; expected where an RNN alone lies, in this state_dict 'state_dict.encoder.lstm.'",
        ),
        (
            (path, to, "--prefix", "state_dict.encoder.lstm", "--cell", "gru"),
            "cell is 'gru'; expected 'lstm'",
        ),
        ((tmp_path / "w.safetensors", to), "cell_clip is (-1.0, 1.0), but torch.nn has no clipping of c."),
        (
            (tmp_path / "w.safetensors", to, "--cell", "gru"),
            "--cell is given, but a file of safetensors does not",
        ),
        ((tmp_path / "w.safetensors", to, "--cell-clip", 0, 1), "--cell-clip is given, but"),
        (
            (tmp_path / "module.pt", to),
            "module.pt cannot be read as tensors and plain data (UnpicklingError)",
        ),
        ((tmp_path / "cut.pt", to), "cut.pt cannot be read as tensors and plain data"),
        ((tmp_path / "empty.pt", to), "empty.pt cannot be read as tensors and plain data"),
        ((tmp_path / "none.pt", to), "No such file or directory"),
        ((path, tmp_path / "w.xyz"), "whose ending is that of no format; say which with --to: "),
        ((tmp_path / "w.xyz", to), "whose ending is that of no format; say which with --from: "),
        ((path, to, "--to", "tape"), "--to is 'tape'; expected one of "),
        ((tmp_path / "w.safetensors", tmp_path / "no" / "such.safetensors"), "No such file or directory"),
    ):
        code, out, err = convert(*arguments)
        assert (code, out) == (2, "")
        assert text in err
        assert err.startswith("convert: ")
        assert err.count("\n") == 1
    assert not to.exists()


def test_two_formats_of_one_ending_must_be_named(convert, model, monkeypatch):
    torch_format = file_formats()["torch"]
    twin = torch_format._replace(name="twin")
    monkeypatch.setattr(
        "rnncompat.convert.command.file_formats", lambda: {"torch": torch_format, "twin": twin}
    )
    code, _, err = convert(model[0], "to.pt", "--to", "twin")
    assert code == 2
    assert "whose ending is that of torch and twin; say which with --from: torch, twin." in err


def test_a_missing_library_names_the_extra(convert, model, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    code, _, err = convert(model[0], tmp_path / "w.safetensors", "--prefix", "state_dict.encoder.lstm")
    assert (code, err) == (
        2,
        "convert: A safetensors file needs safetensors, which is not installed: pip install 'rnncompat[io]'\n",
    )


def test_as_a_program(model, tmp_path):
    command = [sys.executable, "-m", "rnncompat", "convert", str(model[0]), str(tmp_path / "w.pt")]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # ours
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("convert: prefix is ''")
    command += ["--prefix", "state_dict.encoder.lstm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # ours
    assert (done.returncode, done.stderr) == (0, "")
    assert "w.pt (torch): written" in done.stdout
