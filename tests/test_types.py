"""What a user's type checker sees of the package."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import pytest

PROGRAM = """
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
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "user.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_mypy_sees_deprecations_kinds_and_descriptors(program):
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


def test_pyright_sees_deprecations_kinds_and_descriptors(program):
    program.write_text(f"# pyright: basic, reportDeprecated=warning{PROGRAM}", encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    found = json.loads(done.stdout)["generalDiagnostics"]
    shown = [
        (d["range"]["start"]["line"] + 1, d.get("rule", ""), d["message"].replace("\xa0", " ")) for d in found
    ]
    for line, rule, words in (
        (
            8,
            "reportDeprecated",
            'The class "RNNDesc" is deprecated\n  legacy.RNNDesc() is deprecated since 0.1',
        ),
        (9, "", 'Type of "rnn" is "RNNDesc"'),
        (
            10,
            "reportDeprecated",
            'The function "forward" is deprecated\n  legacy.forward() is deprecated since',
        ),
        (13, "", 'is "Tensor"'),
        (14, "", 'is "PackedSequence"'),
        (15, "", 'is "list[Tensor]"'),
    ):
        assert any(at == line and r == rule and words in message for at, r, message in shown), shown
    assert not [message for _, rule, message in shown if rule != "reportDeprecated" and " is " not in message]
