"""ONNX through both of torch's exporters, run in onnxruntime: any batch, any lengths, the same numbers."""

from __future__ import annotations

import pytest
import torch
from onnx_export import EXPORTERS, WARNINGS

import rnncompat
from rnncompat import UnsupportedError

I, H = 5, 4
CELLS = {
    "lstm": (rnncompat.LSTM, {}),
    "gru": (rnncompat.GRU, {}),
    "rnn_tanh": (rnncompat.RNN, {}),
    "rnn_relu": (rnncompat.RNN, {"nonlinearity": "relu"}),
}
SAME = 1e-6  # float32, outputs below 1: a few units in the last place

pytestmark = WARNINGS


class Padded(torch.nn.Module):
    """Padded sequences with lengths."""

    def __init__(self, rnn, **options):
        super().__init__()
        self.rnn, self.options = rnn, options

    def forward(self, x, lengths):
        output, state = self.rnn(x, lengths=lengths, **self.options)
        return (output, *state) if isinstance(state, tuple) else (output, state)


class Whole(Padded):
    """Sequences that are all of one length."""

    def forward(self, x):
        return self.rnn(x, **self.options)[0]


class Step(Padded):
    """One step with the state in and out."""

    def forward(self, x, h, c=None):
        output, after = self.rnn.step(x, h if c is None else (h, c))
        return (output, *after) if isinstance(after, tuple) else (output, after)


@pytest.fixture(params=EXPORTERS)
def export(request, tmp_path):
    """Exports a module whose inputs have the axes named T or B, and gives its graph and a way to run it."""

    def exported(module, arguments, axes):
        import onnx  # noqa: PLC0415  # the tests of this file are skipped where it is missing
        import onnxruntime  # noqa: PLC0415

        file = str(tmp_path / "model.onnx")
        EXPORTERS[request.param](module.eval(), arguments, axes, file)
        graph = onnx.load(file).graph
        session = onnxruntime.InferenceSession(file)
        names = [given.name for given in session.get_inputs()]

        def run(*values):
            found = session.run(None, {n: v.numpy() for n, v in zip(names, values, strict=True)})
            return [torch.from_numpy(value) for value in found]

        return graph, run

    return exported


def attributes(graph, operator):
    """The attributes of every node of one kind."""
    import onnx  # noqa: PLC0415

    return [
        {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        for node in graph.node
        if node.op_type == operator
    ]


def check(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=SAME)


PADDED = ({0: "T", 1: "B"}, {0: "B"})
BATCH_FIRST = ({0: "B", 1: "T"}, {0: "B"})


def padded_example(steps, lengths):
    return torch.randn(steps, len(lengths), I), torch.tensor(lengths)


@pytest.mark.parametrize(
    ("cell", "bias"),
    [
        *(("gru", bias) for bias in ("double", "input", "recurrent", "none")),  # four different functions
        ("lstm", "double"),
        ("rnn_tanh", "recurrent"),
        ("rnn_relu", "input"),
    ],
)
def test_any_batch_and_length(export, cell, bias):
    torch.manual_seed(0)
    kind, options = CELLS[cell]
    module = Padded(kind(I, H, 2, bidirectional=True, bias=bias, **options))
    _, run = export(module, padded_example(7, [7, 2, 3]), PADDED)
    for steps, lengths in ((9, [9, 1, 4, 4, 5]), (3, [2]), (1, [1, 1])):
        x, given = padded_example(steps, lengths)
        with torch.no_grad():
            check(run(x, given), module(x, given))


@pytest.mark.parametrize("cell", CELLS)
def test_lengths_are_inputs(export, cell):
    """A length 0, and NaN in the padding."""
    torch.manual_seed(1)
    kind, options = CELLS[cell]
    module = Padded(kind(I, H, bidirectional=True, **options), padding_value=-2.5)
    _, run = export(module, padded_example(7, [7, 0, 3]), PADDED)
    x, lengths = padded_example(9, [9, 0, 4, 1])
    for row, length in enumerate(lengths):
        x[length:, row] = torch.nan
    with torch.no_grad():
        check(run(x, lengths), module(x, lengths))


class Streamed(Padded):
    """Padded sequences with lengths and the state in and out."""

    def forward(self, x, lengths, h, c=None):
        output, after = self.rnn(x, h if c is None else (h, c), lengths=lengths)
        return (output, *after) if isinstance(after, tuple) else (output, after)


@pytest.mark.parametrize("cell", CELLS)
def test_a_row_without_steps_keeps_its_state(export, cell):
    torch.manual_seed(1)
    kind, options = CELLS[cell]
    module = Streamed(kind(I, H, 2, **options))
    axes = (*PADDED, *({1: "B"} for _ in state_of(kind, 3)))
    _, run = export(module, (*padded_example(7, [7, 0, 3]), *state_of(kind, 3)), axes)
    x, lengths = padded_example(9, [9, 0, 4, 0])
    state = state_of(kind, 4)
    with torch.no_grad():
        check(run(x, lengths, *state), module(x, lengths, *state))


def test_gru_keeps_linear_before_reset(export):
    torch.manual_seed(2)
    module = Whole(rnncompat.GRU(I, H, 2))
    with torch.no_grad():
        for weight in module.rnn.parameters():
            weight.mul_(4)  # the other form is then off by 0.1 and more
    graph, run = export(module, (torch.randn(7, 3, I),), PADDED[:1])
    assert [found["linear_before_reset"] for found in attributes(graph, "GRU")] == [1, 1]
    x = torch.randn(9, 2, I)
    with torch.no_grad():
        check(run(x), [module(x)])


@pytest.mark.parametrize("cell", CELLS)
def test_no_bias_at_batch_three(export, cell):
    torch.manual_seed(3)
    kind, options = CELLS[cell]
    module = Whole(kind(I, H, bias=False, **options))
    _, run = export(module, (torch.randn(7, 2, I),), PADDED[:1])
    for batch in (3, 4, 17):
        x = 5 * torch.randn(6, batch, I)
        with torch.no_grad():
            check(run(x), [module(x)])


@pytest.mark.parametrize("cell", CELLS)
def test_no_layout_attribute(export, cell):
    torch.manual_seed(4)
    kind, options = CELLS[cell]
    module = Padded(kind(I, H, batch_first=True, **options))
    graph, run = export(module, (torch.randn(3, 7, I), torch.tensor([7, 2, 3])), BATCH_FIRST)
    operator = {"lstm": "LSTM", "gru": "GRU"}.get(cell, "RNN")
    assert [found.get("layout", 0) for found in attributes(graph, operator)] == [0]
    x, lengths = torch.randn(4, 9, I), torch.tensor([2, 9, 1, 5])
    with torch.no_grad():
        check(run(x, lengths), module(x, lengths))


def state_of(kind, batch, state_size=H, layers=2):
    parts = 2 if kind is rnncompat.LSTM else 1
    return tuple(torch.randn(layers, batch, size) for size in (state_size, H)[:parts])


@pytest.mark.parametrize("cell", CELLS)
def test_a_step_has_its_state_in_and_out(export, cell):
    torch.manual_seed(5)
    kind, options = CELLS[cell]
    module = Step(kind(I, H, 2, **options))
    state = state_of(kind, 3)
    _, run = export(module, (torch.randn(3, I), *state), ({0: "B"}, *({1: "B"} for _ in state)))
    ours = theirs = state_of(kind, 6)
    for x in torch.randn(4, 6, I):
        (y, *ours), (expected, *theirs) = run(x, *ours), module(x, *theirs)
        check([y, *ours], [expected.detach(), *(t.detach() for t in theirs)])


def test_skip_input(export):
    torch.manual_seed(6)
    module = Padded(rnncompat.LSTM(I, I, 2, input_mode="skip"))
    _, run = export(module, padded_example(7, [7, 2, 3]), PADDED)
    x, lengths = padded_example(4, [1, 4])
    with torch.no_grad():
        check(run(x, lengths), module(x, lengths))


UNSAYABLE = {
    "projection": ({"proj_size": 3}, {}, "no projection"),
    "clip": ({"cell_clip": (-0.2, 0.2)}, {}, "not the cell"),
    "resets": ({}, {"resets": torch.ones(7, 3, dtype=torch.bool)}, "no resets"),
    "mask": ({}, {"mask": torch.ones(7, 3, dtype=torch.bool)}, "give lengths"),
    "states": ({}, {"return_states": "all"}, "the last state only"),
}


@pytest.mark.parametrize("option", UNSAYABLE)
def test_what_onnx_cannot_say_is_refused(export, option):
    made, called, reason = UNSAYABLE[option]
    module = Whole(rnncompat.LSTM(I, H, **made), **called)
    with pytest.raises(Exception, match=reason) as caught:
        export(module, (torch.randn(7, 3, I),), ({0: "T"},))
    chain = [caught.value]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    assert isinstance(chain[-1], UnsupportedError)


@pytest.mark.parametrize("option", UNSAYABLE)
@pytest.mark.parametrize("export", ["dynamo"], indirect=True)
def test_a_fixed_number_of_steps_is_unrolled(export, option):
    torch.manual_seed(7)
    made, called, _ = UNSAYABLE[option]
    module = Whole(rnncompat.LSTM(I, H, **made), **called)
    graph, run = export(module, (torch.randn(7, 3, I),), ({},))
    assert not attributes(graph, "LSTM")
    x = torch.randn(7, 3, I)
    with torch.no_grad():
        check(run(x), [module(x)])


@pytest.mark.parametrize("export", ["dynamo"], indirect=True)
def test_a_step_of_what_onnx_cannot_say(export):
    torch.manual_seed(8)
    module = Step(rnncompat.LSTM(I, H, 2, proj_size=3, cell_clip=(-0.2, 0.2)))
    state = state_of(rnncompat.LSTM, 2, 3)
    _, run = export(module, (torch.randn(2, I), *state), ({0: "B"}, {1: "B"}, {1: "B"}))
    x, state = torch.randn(6, I), state_of(rnncompat.LSTM, 6, 3)
    with torch.no_grad():
        check(run(x, *state), module(x, *state))
