"""One row per old name: everything that is said about it elsewhere is generated from here.

Warnings, the marks for type checkers, the table of ``docs/migrating.md`` and the migration tool read these
rows; tests fail if a public legacy name has no row, or if a row's removal version has been reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["REGISTRY", "Kind", "LegacyName"]


class Kind(Enum):
    """What becomes of the old name here."""

    CALL = "call"
    """It works and warns once a call site."""
    CONSTANT = "constant"
    """It works; the call it is passed to warns."""
    STUB = "stub"
    """It was never carried over; calling it raises and names the replacement."""


@dataclass(frozen=True)
class LegacyName:
    """One old name.

    Attributes:
        name: as it is spelled in Python.
        replacement: what to use instead, as the warning says it.
        codemod: what the migration tool does: ``"rewrite"`` where the meaning is certain, ``"todo"`` (a person
            must decide).
        kind: what becomes of the name here.
        since: version in which it was deprecated.
        removal: version in which it goes.
    """

    name: str
    replacement: str
    codemod: str
    kind: Kind = Kind.CALL
    since: str = "0.1"
    removal: str = "1.0"

    @property
    def anchor(self) -> str:
        """Anchor of the name's section in the guide."""
        return self.name.lower()

    @property
    def text(self) -> str:
        """The one sentence that every warning about this name is made of."""
        if self.kind is Kind.STUB:
            return (
                f"legacy.{self.name}() was never carried over; use {self.replacement}. "
                f"See docs/migrating.md#{self.anchor}"
            )
        return (
            f"legacy.{self.name}() is deprecated since {self.since} and will be removed in {self.removal}; "
            f"use {self.replacement}. See docs/migrating.md#{self.anchor}"
        )

    @property
    def removed_text(self) -> str:
        """The one sentence for whoever asks for the name after it has gone."""
        return (
            f"legacy.{self.name} was removed in {self.removal}; use {self.replacement}. "
            f"See docs/migrating.md#{self.anchor}"
        )


_WHOLE_CALL = "rnncompat.rnn_forward()"
_AUTOGRAD = "torch.autograd on the output of rnncompat.rnn_step()"
_VIEWS = "rnncompat.RNNWeights"

_ROWS = (
    LegacyName("RNNDesc", "rnncompat.RNNDescriptor() and rnncompat.RNNWeights", "rewrite"),
    LegacyName("setweights", "rnncompat.RNNWeights.from_named()", "rewrite"),
    LegacyName("setweights_b", "rnncompat.RNNWeights.from_named()", "rewrite"),
    LegacyName("forward", "rnncompat.rnn_step()", "rewrite"),
    LegacyName("forwardTrain", "rnncompat.rnn_step()", "rewrite"),
    LegacyName("backwardData", _AUTOGRAD, "rewrite"),
    LegacyName("backwardWeights", _AUTOGRAD, "rewrite"),
    LegacyName("pullback", _AUTOGRAD, "rewrite"),
    LegacyName("hBatch", "nothing: rnncompat.rnn_step() broadcasts the state", "rewrite"),
    LegacyName("params", _VIEWS, "rewrite"),
    LegacyName("ngates", "rnncompat.RNNDescriptor.gates", "rewrite"),
    LegacyName("rnnParamSize", "rnncompat.layout_of(descriptor).size", "rewrite"),
    *(
        LegacyName(name, f'cell="{cell}" of rnncompat.RNNDescriptor', "rewrite", Kind.CONSTANT)
        for name, cell in (
            ("CUDNN_RNN_RELU", "rnn_relu"),
            ("CUDNN_RNN_TANH", "rnn_tanh"),
            ("CUDNN_LSTM", "lstm"),
            ("CUDNN_GRU", "gru"),
        )
    ),
    LegacyName("cudnnRNNMode_t", "rnncompat.Cell", "rewrite", Kind.CONSTANT),
    *(
        LegacyName(name, _WHOLE_CALL, "todo", Kind.STUB)
        for name in ("cudnnRNNForward", "cudnnRNNForwardInference", "cudnnRNNForwardTraining")
    ),
    *(
        LegacyName(name, f"torch.autograd on the output of {_WHOLE_CALL}", "todo", Kind.STUB)
        for name in ("cudnnRNNBackwardData", "cudnnRNNBackwardWeights")
    ),
    *(
        LegacyName(name, f"plain tensors with {_WHOLE_CALL}", "todo", Kind.STUB)
        for name in ("xDesc", "hDesc", "cudnnGetRNNTrainingReserveSize", "cudnnGetRNNWorkspaceSize")
    ),
)

REGISTRY: dict[str, LegacyName] = {row.name: row for row in _ROWS}
