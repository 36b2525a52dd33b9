"""What each old name becomes: a table from the names of the registry to one small function each.

A rule gets a :class:`~.calls.Call` and returns what takes its place, or raises ``Undecided`` with the reason
that the user reads above the line. New code keeps the old shapes, features first, by swapping axes around
the new calls: ``.t()`` leaves a vector as it is, so it is right for ``(I,)`` and for ``(I, B)``.
"""

from __future__ import annotations

import re

import libcst as cst

from ..flux09 import copyparams, forwardInference
from ..knetlayers import PadSequenceArray
from ..parameters import ngates, params, rnnParamSize, setweights
from ..rnndesc import RNNDesc
from ..step import forward, forwardTrain, hBatch
from . import cells, gradients
from .calls import Call, Expression, Rewrite, Rule, Statements, Undecided
from .holders import without_int
from .steps import narrowed, step_results
from .text import call_of, cell, literal, operand, text, turned

__all__ = ["RULES", "VALUES"]


_SCOPES = (cst.ClassDef, cst.FunctionDef, cst.Lambda)


def _descriptor(call: Call) -> Rewrite:
    """``RNNDesc[T](mode, i, h)``: weights of zeros over a descriptor."""
    given = call.bind(RNNDesc.__init__)
    if not {"mode", "input", "hidden"} <= given.keys():
        raise Undecided("the arguments do not fit the old signature")
    if "layers" in given and literal(given["layers"]) != "1":
        raise Undecided("layers other than 1 never worked; RNNDescriptor(num_layers=...) has more")
    func = call.node.func
    if isinstance(func, cst.Subscript):
        given["dtype"] = func.slice[0].slice.value  # type: ignore[attr-defined]  # a slice makes no class
    subclass = call.facts.subclass_of(call.original) if isinstance(func, cst.Attribute) else None
    if subclass is not None and subclass.dtype is not None:
        given["dtype"] = subclass.dtype
    mode = _mode_of(call, given["mode"])
    made = f"rnncompat.RNNDescriptor({mode}, {text(given['input'])}, {text(given['hidden'])})"
    name = call.names.fresh("descriptor")
    options = "".join(f", {o}={text(given[o])}" for o in ("dtype", "device") if o in given)
    zeros = f"torch.zeros(rnncompat.layout_of({name}).size{options})"
    if subclass is not None and text(func) == "super().__init__":
        return Statements((f"{name} = {made}", f"super().__init__({name}, {zeros})"))
    if call.use.hoistable:
        call.before.append(f"{name} = {made}")
        return Expression(f"rnncompat.RNNWeights({name}, {zeros})")
    around = next((n for n in call.names.ancestors(call.original) if isinstance(n, _SCOPES)), None)
    if isinstance(around, cst.ClassDef):
        raise Undecided("it stands in the body of a class, which would get one more attribute")
    return Expression(f"rnncompat.RNNWeights({name} := {made}, {zeros})")


def _mode_of(call: Call, mode: cst.BaseExpression) -> str:
    """The mode of a new descriptor; ``int()`` around an old one goes."""
    old = call.argument(0, "mode")
    inner = None if old is None else without_int(call.names, old)
    return cell(mode.args[0].value if inner is not old and isinstance(mode, cst.Call) else mode)


def _setweights(call: Call) -> Rewrite:
    given = call.bind(setweights)
    if len(given) != 4:
        raise Undecided("it lacks an argument")
    return _written(call, given["d"], 0, tuple(text(given[name]) for name in ("Wi", "Wh", "b")))


def _copyparams(call: Call) -> Rewrite:
    given = call.bind(copyparams)
    if len(given) != 2:
        raise Undecided("it lacks an argument")
    m = call.once("layer", given["m"])
    return _written(call, given["d"], 1, tuple(f"{m}.{name}" for name in ("Wi", "Wh", "b")))


def _written(call: Call, d: cst.BaseExpression, position: int, values: tuple[str, ...]) -> Rewrite:
    """New weights under the same name where nothing else can see the old ones, else a copy into them."""
    if call.use.kind != "expr":
        raise Undecided("it is no statement of its own")
    wi, wh, b = values
    old = call.argument(position, "d")
    if old is not None and call.facts.rebindable(old):
        named = (
            ("weight_ih_l0", wi),
            ("weight_hh_l0", wh),
            ("bias_ih_l0", b),
            ("bias_hh_l0", f'torch.zeros_like({text(d)}["bias_hh_l0"])'),
        )
        rows = "".join(f'        "{name}": {value},\n' for name, value in named)
        return Statements(
            (
                *call.before,
                f"{text(d)} = rnncompat.RNNWeights.from_named(\n    {text(d)}.descriptor,\n    {{\n{rows}    }},\n)",
            )
        )
    if call.facts.records_gradients:
        raise Undecided(
            "gradients may have to reach these weights, and others may hold the descriptor; build new weights "
            "with rnncompat.RNNWeights.from_named() and pass them on"
        )
    if any(re.search(rf"\b{re.escape(text(d))}\b", value) for value in (wh, b)):
        raise Undecided("it reads the weights that it writes; copy them first")
    target = call.once("weights", d)
    copies = (("weight_ih_l0", wi), ("weight_hh_l0", wh), ("bias_ih_l0", b))
    return Statements((*call.before, *(f'{target}["{name}"].copy_({value})' for name, value in copies)))


def _forward(call: Call) -> Rewrite:
    given = call.bind(forward, star="h")
    train = literal(given.pop("train")) if "train" in given else "False"
    if train not in ("True", "False"):
        raise Undecided("train is not written as True or False, and the result depends on it")
    return step_results(call, given, train == "True")


def _forward_train(call: Call) -> Rewrite:
    return step_results(call, call.bind(forwardTrain, star="h"), train=True)


def _forward_inference(call: Call) -> Rewrite:
    return step_results(call, call.bind(forwardInference, star="h"), train=False)


def _h_batch(call: Call) -> Rewrite:
    given = call.bind(hBatch)
    parent = next(iter(call.names.ancestors(call.original)))
    if narrowed(call.names, parent):
        return Expression(text(given["h"]))  # the call around it widens the state by itself
    return Expression(f"{turned(given['h'])}.expand(*{turned(given['x'])}.shape[:-1], -1).t().clone()")


def _pad_sequence_array(call: Call) -> Rewrite:
    given = call.bind(PadSequenceArray)
    direction = text(given["direction"])[1:-1] if "direction" in given else "Right"
    if "batch" not in given or direction != "Right":
        raise Undecided(
            'its direction is not seen to be "Right", which is the only one that torch has everywhere'
        )
    rows = f"[torch.tensor(row, dtype=torch.int64) for row in {operand(given['batch'])}]"
    options = [f"padding_value={text(given['pad'])}"] if "pad" in given else []
    return Expression(call_of("torch.nn.utils.rnn.pad_sequence", rows, "batch_first=True", *options))


def _ngates(call: Call) -> Rewrite:
    mode = call.bind(ngates)["mode"]
    if call.facts.holds(call.original.args[0].value):
        return Expression(f"{operand(mode)}.descriptor.gates")
    shown = cell(mode)
    if shown.startswith('"') or call.facts.holders.is_mode(call.original.args[0].value):
        return Expression(f"rnncompat.Cell({shown}).gates")
    raise Undecided(
        "its argument may be a mode, a number or an RNNDesc; a mode has rnncompat.Cell(mode).gates"
    )


def _rnn_param_size(call: Call) -> Rewrite:
    given = call.bind(rnnParamSize)
    r = call.once("weights", given["r"])
    if text(given["input"]) == f"{r}.descriptor.input_size":
        return Expression(f"rnncompat.layout_of({r}.descriptor).size")
    made = f"rnncompat.RNNDescriptor({r}.descriptor.cell, {text(given['input'])}, {r}.descriptor.hidden_size)"
    return Expression(f"rnncompat.layout_of({made}).size")


_CELL_OF_GATES = {"1": "rnn_tanh", "3": "gru", "4": "lstm"}


def _params(call: Call) -> Rewrite:
    given = call.bind(params)
    gates = literal(given["n"]) if "n" in given else "1"
    if gates not in _CELL_OF_GATES:
        raise Undecided(
            "the number of gates is not written here; it decides the cell of rnncompat.RNNWeights"
        )
    name = call.names.fresh("views")
    made = (
        f'rnncompat.RNNDescriptor("{_CELL_OF_GATES[gates]}", {text(given["input"])}, {text(given["hidden"])})'
    )
    call.put_before(f"{name} = rnncompat.RNNWeights({made}, {text(given['w'])})")
    if call.use.item is not None:
        raise Undecided("one item of its result is taken; take it of rnncompat.RNNWeights by name")
    return Expression(f'({name}["weight_ih_l0"].t(), {name}["weight_hh_l0"].t()), {name}["bias_ih_l0"]')


def _mode(call: Call) -> Rewrite:
    shown = cell(call.node.args[0].value) if len(call.node.args) == 1 else ""
    if not shown.startswith('"'):
        raise Undecided("modes are words now, not numbers: rnncompat.Cell")
    return Expression(f"rnncompat.Cell({shown})")


RULES: dict[str, Rule] = {
    "RNNDesc": _descriptor,
    "setweights": _setweights,
    "setweights_b": _setweights,
    "forward": _forward,
    "forwardTrain": _forward_train,
    "backwardData": gradients.backward_data,
    "backwardWeights": gradients.backward_weights,
    "pullback": gradients.pullback,
    "hBatch": _h_batch,
    "params": _params,
    "ngates": _ngates,
    "rnnParamSize": _rnn_param_size,
    "cudnnRNNMode_t": _mode,
    "flux09.forwardInference": _forward_inference,
    "flux09.copyparams": _copyparams,
    "flux09.copyparams_b": _copyparams,
    "knetlayers.PadSequenceArray": _pad_sequence_array,
    **cells.RULES,
}
"""Calls by the name in the registry; a name of a namespace is dotted, ``flux.LSTM``."""

VALUES: dict[str, str] = {
    "RNNDesc": "rnncompat.RNNWeights",
    "cudnnRNNMode_t": "rnncompat.Cell",
    **{
        f"{prefix}CUDNN_{cell_name.upper()}": f"rnncompat.Cell.{cell_name.upper()}"
        for cell_name in ("rnn_relu", "rnn_tanh", "lstm", "gru")
        for prefix in ("", "cudnnRNNMode_t.")
    },
    **{
        f"flux09.{name}": f"rnncompat.Cell.{cell_name}"
        for name, cell_name in (
            ("RNN_RELU", "RNN_RELU"),
            ("RNN_TANH", "RNN_TANH"),
            ("LSTM", "LSTM"),
            ("GRU", "GRU"),
        )
    },
}
"""What an old name becomes where it is not called: in annotations, comparisons, isinstance."""
