"""Importing the package does no work, and there is one name for each thing."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import rnncompat

ROOT = Path(__file__).parents[1]


def run(code, *flags, cwd=None):
    return subprocess.run(  # noqa: S603  # our own code
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_importing_the_core_is_quiet_and_imports_no_legacy_module():
    code = """
import os, sys, torch, warnings
read = []
class Watched(dict):
    def __getitem__(self, key): read.append(key); return super().__getitem__(key)
    def get(self, key, default=None): read.append(key); return super().get(key, default)
os.environ = Watched(os.environ)
torch.cuda.is_available = torch.cuda.device_count = lambda: read.append("device")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import rnncompat
assert not caught, [str(w.message) for w in caught]
assert not read, read
assert not [m for m in sys.modules if m.startswith("rnncompat.legacy")]
assert not torch.cuda.is_initialized()
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_legacy_has_one_identity():
    done = run("import legacy", cwd=ROOT)
    assert "This package is rnncompat.legacy, but it was imported as 'legacy'" in done.stderr
    from rnncompat import legacy  # noqa: PLC0415  # after the subprocess, which must not see it

    assert legacy.RNNDesc.__module__ == "rnncompat.legacy.rnndesc"


def test_every_public_name_exists_once():
    assert len(rnncompat.__all__) == len(set(rnncompat.__all__))
    for name in rnncompat.__all__:
        assert getattr(rnncompat, name) is not None


def test_type_checkers_see_deprecations_kinds_and_descriptors(tmp_path):
    pytest.importorskip("mypy", reason="mypy comes with the default environment only")
    program = tmp_path / "user.py"
    program.write_text(
        """
import torch
import rnncompat
from torch.nn.utils.rnn import PackedSequence
from rnncompat import legacy

def old(x: torch.Tensor, h: torch.Tensor) -> None:
    rnn = legacy.RNNDesc[torch.float32](legacy.CUDNN_LSTM, 3, 2)
    reveal_type(rnn)
    legacy.forward(rnn, x, h)

def new(d: rnncompat.RNNDescriptor, w: rnncompat.RNNWeights, x: torch.Tensor, p: PackedSequence) -> None:
    reveal_type(rnncompat.rnn_forward(d, w, x)[0])
    reveal_type(rnncompat.rnn_forward(d, w, p)[0])
    reveal_type(rnncompat.rnn_forward(d, w, [x])[0])
""",
        encoding="utf-8",
    )
    from mypy import api  # noqa: PLC0415  # only where it is installed

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output, errors, code = api.run(["--strict", "--enable-error-code=deprecated", str(program)])
    assert not errors
    assert code == 1
    for line, words in (
        (8, "class rnncompat.legacy.rnndesc.RNNDesc is deprecated"),
        (9, 'Revealed type is "rnncompat.legacy.rnndesc.RNNDesc"'),
        (
            10,
            "function rnncompat.legacy.step.forward is deprecated: legacy.forward() is deprecated since 0.1",
        ),
        (13, 'Revealed type is "torch._tensor.Tensor"'),
        (14, "fallback=torch.nn.utils.rnn.PackedSequence"),
        (15, 'Revealed type is "list[torch._tensor.Tensor]"'),
    ):
        assert any(f"user.py:{line}:" in shown and words in shown for shown in output.splitlines()), output
