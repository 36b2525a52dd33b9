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
    """It works; the call that takes or returns it warns."""
    STUB = "stub"
    """It was never carried over; calling it raises and names the replacement."""


@dataclass(frozen=True)
class LegacyName:
    """One old name.

    Attributes:
        name: as it is spelled in Python; one that lies in a namespace has it in front, as ``flux.LSTM``.
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
        """Anchor of the name's section in the guide, as GitHub makes it of the heading."""
        return self.name.lower().replace(".", "")

    @property
    def namespace(self) -> str:
        """The module of ``rnncompat.legacy`` that holds the name; empty for the top level."""
        return self.name.rpartition(".")[0]

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

_NO_RESET = "nothing: a call of rnncompat.LSTM without a state starts from zeros"
_FROM_NAMED = "rnncompat.RNNWeights.from_named()"
_MODES = (
    ("RNN_RELU", "rnn_relu"),
    ("RNN_TANH", "rnn_tanh"),
    ("LSTM", "lstm"),
    ("GRU", "gru"),
)
_MODULES = "rnncompat.LSTM(), rnncompat.GRU() or rnncompat.RNN()"

_ROWS = (
    LegacyName("RNNDesc", "rnncompat.RNNDescriptor() and rnncompat.RNNWeights", "rewrite"),
    LegacyName("setweights", _FROM_NAMED, "rewrite"),
    LegacyName("setweights_b", _FROM_NAMED, "rewrite"),
    LegacyName("forward", "rnncompat.rnn_step()", "rewrite"),
    LegacyName("forwardTrain", "rnncompat.rnn_step()", "rewrite"),
    LegacyName("backwardData", _AUTOGRAD, "rewrite"),
    LegacyName("backwardWeights", _AUTOGRAD, "rewrite"),
    LegacyName("pullback", _AUTOGRAD, "rewrite"),
    LegacyName("hBatch", "nothing: rnncompat.rnn_step() broadcasts the state", "rewrite"),
    LegacyName("params", _VIEWS, "rewrite"),
    LegacyName("ngates", "rnncompat.RNNDescriptor.gates", "rewrite"),
    LegacyName("rnnParamSize", "rnncompat.layout_of(descriptor).size", "rewrite"),
    LegacyName("upsample", "rnncompat.upsample_nearest()", "todo"),
    LegacyName("upsample_gradient", "rnncompat.block_sum()", "todo"),
    *(
        LegacyName(f"CUDNN_{name}", f'cell="{cell}" of rnncompat.RNNDescriptor', "rewrite", Kind.CONSTANT)
        for name, cell in _MODES
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
    LegacyName("RNNCell", "rnncompat.RNN.step()", "rewrite"),
    LegacyName("LSTMCell", "rnncompat.LSTM.step()", "rewrite"),
    LegacyName("GRUCell", "rnncompat.GRU.step()", "rewrite"),
    LegacyName(
        "Recur",
        "a call of rnncompat.RNN, rnncompat.LSTM or rnncompat.GRU, whose state goes in and comes out",
        "rewrite",
    ),
    LegacyName("reset", _NO_RESET, "rewrite"),
    LegacyName("reset_b", _NO_RESET, "rewrite"),
    LegacyName("flux.RNN", 'rnncompat.RNN(bias="input")', "rewrite"),
    LegacyName("flux.LSTM", 'rnncompat.LSTM(bias="input")', "rewrite"),
    LegacyName("flux.GRU", 'rnncompat.GRU(bias="input")', "rewrite"),
    LegacyName("flux.Chain", "a torch.nn.Module that hands each state on", "rewrite"),
    LegacyName("flux.RNNDesc", "rnncompat.RNNDescriptor() and rnncompat.RNNWeights", "rewrite"),
    LegacyName("flux.desc", _FROM_NAMED, "rewrite"),
    LegacyName("flux.descs", f"nothing: {_FROM_NAMED} is read at each call", "todo", Kind.CONSTANT),
    LegacyName("flux.glorot_uniform", "torch.nn.init.xavier_uniform_()", "todo"),
    *(
        LegacyName(f"flux09.{name}", f'cell="{cell}" of rnncompat.RNNDescriptor', "rewrite", Kind.CONSTANT)
        for name, cell in _MODES
    ),
    LegacyName("flux09.forwardInference", "rnncompat.rnn_step()", "rewrite"),
    LegacyName("flux09.copyparams", _FROM_NAMED, "rewrite"),
    LegacyName("flux09.copyparams_b", _FROM_NAMED, "rewrite"),
    *(
        LegacyName(f"flux09.{name}", f"plain tensors with {_WHOLE_CALL}", "todo", Kind.STUB)
        for name in ("rnnWorkspaceSize", "rnnTrainingReserveSize", "getworkspace")
    ),
    LegacyName("RNN", _MODULES, "todo"),
    LegacyName("rnninit", _MODULES, "todo"),
    LegacyName("rnnforw", _WHOLE_CALL, "todo"),
    LegacyName("rnnparam", _VIEWS, "todo"),
    LegacyName("rnnparams", _VIEWS, "todo"),
    LegacyName("knetlayers.SRNN", "rnncompat.RNN()", "todo"),
    LegacyName("knetlayers.LSTM", "rnncompat.LSTM()", "todo"),
    LegacyName("knetlayers.GRU", "rnncompat.GRU()", "todo"),
    LegacyName("knetlayers.RNNOutput", f"the pair (output, state) of {_WHOLE_CALL}", "todo", Kind.CONSTANT),
    LegacyName("knetlayers.PadSequenceArray", "torch.nn.utils.rnn.pad_sequence()", "rewrite"),
    LegacyName("knetlayers.PadRNNOutput", "rnncompat.SequenceBatch", "todo"),
)

REGISTRY: dict[str, LegacyName] = {row.name: row for row in _ROWS}
