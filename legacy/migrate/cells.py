"""What the cell style becomes: a small class that goes into the file and runs the core, and ``torch.nn.Sequential``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import libcst as cst

from .. import flux
from .calls import Call, Expression, Rewrite, Rule, Undecided
from .text import call_of, literal, operand, text

__all__ = ["RULES", "held_weights"]

_KINDS = {
    "torch.tanh": "rnn_tanh",
    "torch.nn.functional.tanh": "rnn_tanh",
    "torch.relu": "rnn_relu",
    "torch.nn.functional.relu": "rnn_relu",
}
"""The functions of an RNN that the core has a cell for."""


def _cell(kind: str, old: type[flux.FluxCell], call: Call) -> Rewrite:
    """``LSTMCell(input, output, init)``."""
    given = call.bind(old.__init__)
    if not {"input", "output"} <= given.keys():
        raise Undecided("the arguments do not fit the old signature")
    if "σ" in given:
        kind = _kind_of(call)
    options = [text(given["init"])] if "init" in given and literal(given["init"]) != "None" else []
    arguments = ", ".join([f'"{kind}"', text(given["input"]), text(given["output"]), *options])
    return Expression(f"{call.helper('StepCell')}({arguments})")


def _kind_of(call: Call) -> str:
    function = call.argument(2, "σ")
    found = {q.name for q in call.names.qualified(function)} if function is not None else set()
    if len(found) != 1 or not found <= _KINDS.keys():
        raise Undecided(
            "its function is not seen to be torch.tanh or torch.relu, which are what the core has"
        )
    return _KINDS[found.pop()]


def _layer(kind: str, old: type[flux.FluxCell], call: Call) -> Rewrite:
    """``LSTM(input, output, init)``, a cell in a ``Recur``."""
    cell = _cell(kind, old, call)
    assert isinstance(cell, Expression)
    return Expression(f"{call.helper('Stateful')}({cell.source})")


def _recur(call: Call) -> Rewrite:
    given = call.bind(flux.Recur.__init__)
    if given.keys() != {"cell"}:
        raise Undecided("it has an initial state beside its cell, which the new class has not; set m.state")
    return Expression(f"{call.helper('Stateful')}({text(given['cell'])})")


def _reset(call: Call) -> Rewrite:
    return Expression(f"{call.helper('reset_states')}({text(_only(call, flux.reset))})")


def _chain(call: Call) -> Rewrite:
    if any(argument.keyword or argument.star == "**" for argument in call.node.args):
        raise Undecided("the arguments do not fit the old signature")
    layers = [_part(call, old, new) for old, new in zip(call.original.args, call.node.args, strict=True)]
    return Expression(call_of("torch.nn.Sequential", *layers))


def _part(call: Call, old: cst.Arg, new: cst.Arg) -> str:
    if new.star:
        return f"*map({call.helper('as_module')}, {text(new.value)})"
    return (
        text(new.value) if _is_module(call, old.value) else f"{call.helper('as_module')}({text(new.value)})"
    )


def _is_module(call: Call, node: cst.BaseExpression) -> bool:
    """Whether a layer is seen to be a module: one of the cell style, of torch.nn, or of a class of this file."""
    if not isinstance(node, cst.Call):
        return False
    if call.names.called(node) in RULES:
        return True
    found = {q.name for q in call.names.qualified(node.func)}
    return len(found) == 1 and _makes_module(call, found.pop())


def _makes_module(call: Call, name: str) -> bool:
    if name.startswith("torch.nn.") and name.count(".") == 2:
        return True
    made = [s for s in call.names.module.body if isinstance(s, cst.ClassDef) and s.name.value == name]
    bases = {q.name for s in made for base in s.bases for q in call.names.qualified(base.value)}
    return len(made) == 1 and bases == {"torch.nn.Module"}


def _empty_descriptor(call: Call) -> Rewrite:
    """``flux.RNNDesc(cell)``: weights of zeros, of the cell's sizes."""
    cell = call.once("cell", _only(call, flux.RNNDesc.__init__))
    zeros = f"torch.zeros_like({cell}.weights().flat, requires_grad=False)"
    return Expression(f"rnncompat.RNNWeights({cell}.descriptor, {zeros})")


def held_weights(cell: cst.BaseExpression) -> str:
    """What ``descs[cell]`` becomes."""
    return f"{operand(cell)}.weights()"


def _desc(call: Call) -> Rewrite:
    return Expression(held_weights(_only(call, flux.desc)))


def _only(call: Call, function: Callable[..., Any]) -> cst.BaseExpression:
    """The one argument."""
    given = call.bind(function)
    if len(given) != 1:
        raise Undecided("the arguments do not fit the old signature")
    return next(iter(given.values()))


RULES: dict[str, Rule] = {
    "RNNCell": functools.partial(_cell, "rnn_tanh", flux.RNNCell),
    "LSTMCell": functools.partial(_cell, "lstm", flux.LSTMCell),
    "GRUCell": functools.partial(_cell, "gru", flux.GRUCell),
    "flux.RNN": functools.partial(_layer, "rnn_tanh", flux.RNNCell),
    "flux.LSTM": functools.partial(_layer, "lstm", flux.LSTMCell),
    "flux.GRU": functools.partial(_layer, "gru", flux.GRUCell),
    "Recur": _recur,
    "reset": _reset,
    "reset_b": _reset,
    "flux.Chain": _chain,
    "flux.RNNDesc": _empty_descriptor,
    "flux.desc": _desc,
}
"""The calls of the cell style."""
