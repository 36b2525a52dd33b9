"""What a user's type checker sees of the package."""

from __future__ import annotations

import warnings


def test_type_checkers_see_deprecations_kinds_and_descriptors(tmp_path):
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
