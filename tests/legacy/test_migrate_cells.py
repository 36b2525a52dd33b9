"""The migration tool on the cell style and on namespaces: what calls become, and that numbers stay the same."""

from __future__ import annotations

import copy

import pytest
import torch
from compare import assert_same

from rnncompat import legacy
from rnncompat.legacy.registry import REGISTRY

pytestmark = pytest.mark.thorough  # it rewrites text, whatever the torch

HEAD = "import torch\n\nfrom rnncompat import legacy\nfrom rnncompat.legacy import flux, flux09\n\n"


def migrated(source):
    from rnncompat.legacy.migrate import migrate_source  # noqa: PLC0415  # LibCST is an extra

    result = migrate_source(source.encode())
    assert migrate_source(result.code).code == result.code, "a second run changes something"
    return result


DESCRIPTOR = 'descriptor = rnncompat.RNNDescriptor("gru", 3, 2)\n'
EMPTY = "rnncompat.RNNWeights(descriptor, torch.zeros(rnncompat.layout_of(descriptor).size))"
REWRITTEN = {
    "modes without a prefix": (
        "modes = [flux09.RNN_RELU, flux09.RNN_TANH, flux09.LSTM, flux09.GRU]\n",
        "modes = [rnncompat.Cell.RNN_RELU, rnncompat.Cell.RNN_TANH, rnncompat.Cell.LSTM, rnncompat.Cell.GRU]\n",
    ),
    "a mode as a whole number, and its gates": (
        "def make(mode, n):\n    return flux09.RNNDesc(int(mode), 3, n // flux09.ngates(mode))\n",
        (
            "def make(mode, n):\n"
            "    descriptor = rnncompat.RNNDescriptor(mode, 3, n // rnncompat.Cell(mode).gates)\n"
            "    return rnncompat.RNNWeights(descriptor, torch.zeros(rnncompat.layout_of(descriptor).size))\n"
        ),
    ),
    "int() around the number itself": ("d = flux09.RNNDesc(int(3), 3, 2)\n", f"{DESCRIPTOR}d = {EMPTY}\n"),
    "copyparams copies into what others may hold": (
        "def fill(cell, d):\n    flux09.copyparams_b(cell, d)\n",
        """\
def fill(cell, d):
    d["weight_ih_l0"].copy_(cell.Wi)
    d["weight_hh_l0"].copy_(cell.Wh)
    d["bias_ih_l0"].copy_(cell.b)
""",
    ),
    "copyparams binds a name anew that nobody else holds": (
        "d = flux09.RNNDesc(3, 3, 2)\nflux09.copyparams(make(), d)\n",
        f"""\
{DESCRIPTOR}d = {EMPTY}
layer = make()
d = rnncompat.RNNWeights.from_named(
    d.descriptor,
    {{
        "weight_ih_l0": layer.Wi,
        "weight_hh_l0": layer.Wh,
        "bias_ih_l0": layer.b,
        "bias_hh_l0": torch.zeros_like(d["bias_hh_l0"]),
    }},
)
""",
    ),
    "forwardInference": (
        "y, h = flux09.forwardInference(d, x, h)\n",
        """\
output, state = rnncompat.rnn_step(d.descriptor, d, x.t(), rnncompat.RNNState(h.t()[None]))
y, h = output.t(), state.h[0].t().clone()
""",
    ),
    "a result among names in a tuple": (
        "def step(d, x, h):\n    return x, legacy.forward(d, x, h), h\n",
        """\
def step(d, x, h):
    output, state = rnncompat.rnn_step(d.descriptor, d, x.t(), rnncompat.RNNState(h.t()[None]))
    return x, (output.t(), state.h[0].t().clone()), h
""",
    ),
    "padded lists": (
        'ids = legacy.knetlayers.PadSequenceArray(a + b, direction="Right", pad=7)\n',
        (
            "ids = torch.nn.utils.rnn.pad_sequence(\n"
            "    [torch.tensor(row, dtype=torch.int64) for row in (a + b)], batch_first=True, padding_value=7\n)\n"
        ),
    ),
}


@pytest.mark.parametrize(("before", "after"), REWRITTEN.values(), ids=REWRITTEN)
def test_what_calls_become(before, after):
    result = migrated(HEAD + before)
    head = "import torch\n\nimport rnncompat\n\n" if "rnncompat." in after else "import torch\n\n"
    assert result.code.decode() == head + after
    assert (result.left, result.todos) == (0, ())


CELLS = {
    "layers": (
        "m = flux.LSTM(3, 5)\nk = flux.RNN(3, 5, torch.relu, init)\n",
        'm = Stateful(StepCell("lstm", 3, 5))\nk = Stateful(StepCell("rnn_relu", 3, 5, init))\n',
        {"StepCell", "Stateful"},
    ),
    "cells": (
        "a, b = legacy.GRUCell(3, 5, init=None), legacy.RNNCell(3, 5, σ=torch.nn.functional.tanh)\n",
        'a, b = StepCell("gru", 3, 5), StepCell("rnn_tanh", 3, 5)\n',
        {"StepCell"},
    ),
    "a Recur of a cell, and reset": (
        "m = flux.Recur(make())\nlegacy.reset(m)\nflux.reset_b([m])\n",
        "m = Stateful(make())\nreset_states(m)\nreset_states([m])\n",
        {"Stateful", "reset_states"},
    ),
    "a Chain of modules and functions": (
        (
            "class Dense(torch.nn.Module):\n    pass\n\n\n"
            "m = flux.Chain(flux.GRU(3, 5), Dense(), torch.nn.Tanh(), f, lambda y: y)\nk = flux.Chain(*m)\n"
        ),
        (
            "class Dense(torch.nn.Module):\n    pass\n\n\nm = torch.nn.Sequential(\n"
            '    Stateful(StepCell("gru", 3, 5)), Dense(), torch.nn.Tanh(), as_module(f), as_module(lambda y: y)\n)\n'
            "k = torch.nn.Sequential(*map(as_module, m))\n"
        ),
        {"StepCell", "Stateful", "as_module"},
    ),
    "descriptors of cells": (
        "w = flux.desc(cell)\nb = flux.descs[cell].bias + w.bias\nd = flux.RNNDesc(cell)\n",
        (
            'w = cell.weights()\nb = cell.weights()["bias_ih_l0"] + w["bias_ih_l0"]\n'
            "d = rnncompat.RNNWeights(cell.descriptor, torch.zeros_like(cell.weights().flat, requires_grad=False))\n"
        ),
        set(),
    ),
}


@pytest.mark.parametrize(("before", "after", "helpers"), CELLS.values(), ids=CELLS)
def test_what_the_cell_style_becomes(before, after, helpers):
    from rnncompat.legacy.migrate.helpers import HELPERS  # noqa: PLC0415

    result = migrated(HEAD + before)
    code = result.code.decode()
    assert (result.left, result.todos) == (0, ())
    assert code.endswith(after)
    assert {name for name, source in HELPERS.items() if source in code} == helpers
    assert "legacy" not in code


LEFT = {
    "flux.RNN: its function is not seen to be": "m = flux.RNN(3, 5, f)",
    "LSTMCell: the arguments do not fit": "cell = legacy.LSTMCell(3)",
    "Recur: it has an initial state beside its cell": "m = legacy.Recur(lambda h, x: (h + x, x), 0)",
    "reset: it is passed on as a value": "callbacks = [flux.reset]",
    "flux.Chain: it is passed on as a value": "class Model(flux.Chain):\n    pass",
    "flux.descs: use nothing": "held = cell in flux.descs",
    "flux.desc: the arguments do not fit": "d = flux.desc()",
    "flux: the module itself is passed on": "use(flux)",
    "Reserve: it is no call": "def f(r: legacy.Reserve):\n    pass",
    "flux.LSTM: the name Stateful means something else": "class Stateful:\n    pass\n\n\nm = flux.LSTM(3, 5)",
    "knetlayers.PadSequenceArray: its direction is not seen": (
        "ids = legacy.knetlayers.PadSequenceArray(rows, side)"
    ),
    "ngates: its argument may be": "n = flux09.ngates(mode)",
}


@pytest.mark.parametrize(("reason", "source"), LEFT.items(), ids=LEFT)
def test_what_is_left_to_people_and_why(reason, source):
    result = migrated(f"{HEAD}{source}\n")
    assert any(words.startswith(reason) for _, words in result.todos), result.todos
    assert source.splitlines()[-1] in result.code.decode()


def test_a_name_of_a_namespace_is_the_registry_s_for_the_same_object():
    from rnncompat.legacy.migrate.names import registered  # noqa: PLC0415

    spellings = {
        "flux.reset": "reset",
        "flux.Recur": "Recur",
        "flux09.forwardTrain": "forwardTrain",
        "flux09.desc": "flux.desc",
        "knet.RNN": "RNN",
        "cudnnRNNMode_t.CUDNN_GRU": "CUDNN_GRU",
        "flux09.GRU": "flux09.GRU",
        "flux.cells.LSTMCell": "LSTMCell",
        "never": "never",
    }
    assert {name: registered(name) for name in spellings} == spellings
    for space in (legacy, legacy.flux, legacy.flux09, legacy.knet, legacy.knetlayers):
        prefix = space.__name__.removeprefix("rnncompat.legacy").strip(".")
        for name in set(space.__all__) & {row.rpartition(".")[2] for row in REGISTRY}:
            assert registered(f"{prefix}.{name}".strip(".")) in REGISTRY


PROGRAM = """\
import torch

from rnncompat.legacy import flux
from rnncompat.legacy.flux import reset

torch.manual_seed(3)
m = flux.Chain(LAYER, torch.tanh)
cell, recur, out = m[0].cell, m[0], []
x = torch.randn(7, 3WIDTH, generator=torch.Generator().manual_seed(4))
with torch.no_grad():
    cell.h += torch.linspace(-1, 1, 5)
for repeat in range(2):
    ys = [m(step) for step in x]
    out += [recur.state] if cell.h is cell.hidden() else list(recur.state)
    loss = sum((y * y).sum() for y in ys)
    out += [*ys, *torch.autograd.grad(loss, list(m.parameters()))]
    if repeat == 0:
        reset({"a": [m]})
m.double()
out += [p.detach() for p in m.parameters()]
out += [m(x[0].half()), m.float()(x[0])]
if x.dim() == 3:
    reset(m)
    whole = m(x.permute(1, 2, 0))
    out += [whole, m(x[0])]
w = flux.desc(cell)
out += [w.weights[0], w.weights[1], w.bias, flux.descs[cell].bias, flux.RNNDesc(cell).params.sum()]
"""
LAYERS = {
    "rnn": "flux.RNN(3, 5)",
    "relu": "flux.RNN(3, 5, torch.relu)",
    "lstm": "flux.LSTM(3, 5)",
    "gru": "flux.Recur(flux.GRUCell(3, 5))",
}


def results_of(source):
    scope = {"__name__": "program"}
    exec(compile(source, "program", "exec"), scope)  # noqa: S102  # the program is ours
    return scope["out"], scope["m"]


@pytest.mark.parametrize("width", ["", ", 1", ", 4"])
@pytest.mark.parametrize("layer", LAYERS)
def test_the_cell_style_keeps_its_numbers_from_the_same_seed(layer, width):
    source = PROGRAM.replace("LAYER", LAYERS[layer]).replace("WIDTH", width)
    result = migrated(source)
    assert (result.left, result.todos) == (0, ())
    with legacy.legacy_warnings("error"):
        actual, _ = results_of(result.code.decode())
    with legacy.legacy_warnings("quiet"):
        expected, _ = results_of(source)
    assert_same(expected, actual, 1e-5)


@pytest.mark.parametrize("layer", LAYERS)
def test_misfits_are_refused_by_the_new_code_too(layer):
    source = f"import torch\n\nfrom rnncompat.legacy import flux\n\nm, out = {LAYERS[layer]}, []\n"
    _, m = results_of(migrated(source).code.decode())
    m(torch.ones(3, 4))
    for x in (torch.ones(3), torch.ones(3, 1), torch.ones(3, 2), torch.ones(3, 2, 7), torch.ones(2, 4)):
        with pytest.raises(ValueError, match=r"shape|expected"):
            m(x)
    assert m.state[0].shape[-1] == 4  # what was refused changed nothing
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(m)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert m(torch.ones(3, 4)).dtype == torch.float32
