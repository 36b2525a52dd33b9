"""ONNX models that torch's two exporters write."""

from __future__ import annotations

import warnings

import pytest
import torch
from compare import assert_bitwise
from onnx_export import EXPORTERS, WARNINGS
from onnx_files import B, H, I, T, check

import rnncompat
from rnncompat import (
    InvalidValueError,
    RNNDescriptor,
    rnn_forward,
)
from rnncompat.convert.file_format import Reading
from rnncompat.convert.onnx import from_onnx, state_from_onnx
from rnncompat.convert.onnx_file import FILE, load_nodes

pytestmark = WARNINGS


class Call(torch.nn.Module):
    """A network, perhaps with a state that is given or learnt."""

    def __init__(self, rnn, learnt=None):
        super().__init__()
        self.rnn, self.learnt = rnn, learnt
        self.start = torch.nn.Parameter(torch.randn(rnn.num_layers, 1, H))

    def forward(self, x, h=None, c=None):
        if self.learnt == "expand":
            h = self.start.expand(-1, x.shape[1], -1).contiguous()
        if self.learnt == "repeat":
            h = self.start.repeat(1, x.shape[1], 1)
        if self.learnt == "full":
            h = torch.full((self.rnn.num_layers, x.shape[1], H), 0.5)
        output, last = self.rnn(x, h if c is None else (h, c))
        return (output, *last) if isinstance(last, tuple) else (output, last)


class Padded(torch.nn.Module):
    """One of our modules, with lengths."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x, lengths):
        output, last = self.rnn(x, lengths=lengths)
        return (output, *last) if isinstance(last, tuple) else (output, last)


class Packed(Padded):
    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0])[0]


@pytest.fixture(params=EXPORTERS)
def export(request, tmp_path):
    def exported(module, arguments, axes):
        file = str(tmp_path / "model.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says much of its own modules when it exports them
            EXPORTERS[request.param](module.eval(), arguments, axes, file)
        return file

    exported.name = request.param
    return exported


def run_exported(file, *values):
    import onnxruntime  # noqa: PLC0415

    session = onnxruntime.InferenceSession(file)
    names = [one.name for one in session.get_inputs()]
    return [
        torch.from_numpy(a)
        for a in session.run(None, {n: v.numpy() for n, v in zip(names, values, strict=True)})
    ]


TIME_FIRST, BATCH_FIRST = {0: "T", 1: "B"}, {0: "B", 1: "T"}


@pytest.mark.parametrize(
    ("kind", "layers", "options"),
    [
        ("LSTM", 1, {}),
        ("LSTM", 2, {"bidirectional": True}),
        ("LSTM", 3, {"batch_first": True, "dropout": 0.5}),
        ("LSTM", 2, {"bias": False}),
        ("GRU", 2, {"bidirectional": True, "batch_first": True}),
        ("GRU", 3, {"bias": False}),
        ("RNN", 2, {"bidirectional": True}),
        ("RNN", 2, {"nonlinearity": "relu"}),
    ],
)
def test_networks_of_torch(export, kind, layers, options):
    rnn = getattr(torch.nn, kind)(I, H, layers, **options)
    batch_first = options.get("batch_first", False)
    example = torch.randn(6, T, I) if batch_first else torch.randn(T, 6, I)
    file = export(Call(rnn), (example,), (BATCH_FIRST if batch_first else TIME_FIRST,))
    if kind == "RNN" and export.name == "dynamo":
        with pytest.raises(InvalidValueError, match=r"writes the steps of torch.nn.RNN out .* dynamo=False"):
            load_nodes(file)
        return
    descriptor, weights, _ = from_onnx(load_nodes(file))
    assert (descriptor.num_layers, descriptor.bidirectional) == (layers, "bidirectional" in options)
    assert descriptor.bias.value == ("none" if "bias" in options else "double")
    for name, tensor in rnn.state_dict().items():
        assert_bitwise(tensor, weights[name].detach())
    output, last = rnn_forward(descriptor, weights, example, batch_first=batch_first)
    check([output, *(part for part in last if part is not None)], run_exported(file, example))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_state_that_is_given(export, kind):
    states = [torch.randn(2, 6, H) for _ in range(2 if kind == "LSTM" else 1)]
    axes, x = (TIME_FIRST, *({1: "B"} for _ in states)), torch.randn(T, 6, I)
    file = export(Call(getattr(torch.nn, kind)(I, H, 2)), (x, *states), axes)
    nodes = load_nodes(file)
    assert not any("initial_h" in node or "initial_c" in node for node in nodes)
    descriptor, weights, done = FILE.read(file, Reading())
    assert "initial_h is state= of a call" in done
    assert ("initial_c is state= of a call, beside h" in done) == (kind == "LSTM")
    output, _ = rnn_forward(descriptor, weights, x, tuple(states) if len(states) == 2 else states[0])
    check([output], run_exported(file, x, *states)[:1])


@pytest.mark.parametrize("learnt", ["expand", "repeat", "full"])
def test_a_state_that_is_learnt(export, learnt):
    """It is a constant of the model, and comes back as one."""
    module, x = Call(torch.nn.GRU(I, H, 2), learnt), torch.randn(T, 6, I)
    file = export(module, (x,), (TIME_FIRST,))
    nodes = load_nodes(file)
    with pytest.raises(InvalidValueError, match="initial_h of node 1 is not zero"):
        from_onnx(nodes)
    state = state_from_onnx(nodes)
    assert_bitwise(torch.full((2, 1, H), 0.5) if learnt == "full" else module.start.detach(), state.h)
    weights_only = [{k: v for k, v in node.items() if k != "initial_h"} for node in nodes]
    descriptor, weights, _ = from_onnx(weights_only)
    output, last = rnn_forward(descriptor, weights, x, state)
    check([output, last.h], run_exported(file, x))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (rnncompat.LSTM, {"bidirectional": True}),
        (rnncompat.GRU, {"bias": "input"}),
        (rnncompat.RNN, {"nonlinearity": "relu"}),
    ],
)
def test_networks_of_ours_with_lengths(export, kind, options):
    module = Padded(kind(I, H, 2, **options))
    example = torch.randn(T, 6, I), torch.tensor([7, 2, 3, 1, 1, 4])
    file = export(module, example, (TIME_FIRST, {0: "B"}))
    descriptor, weights, done = FILE.read(file, Reading())
    assert "sequence_lens is lengths= of a call" in done
    x, lengths = torch.randn(9, 4, I), torch.tensor([9, 1, 0, 5])
    output, last = rnn_forward(descriptor, weights, x, lengths=lengths)
    check([output, *(part for part in last if part is not None)], run_exported(file, x, lengths))


class Fixed(torch.nn.Module):
    """A network with lengths that no caller gives."""

    def __init__(self, call):
        super().__init__()
        self.call, self.lengths = call, torch.tensor([7, 2, 3, 1])

    def forward(self, x):
        return self.call(x, self.lengths)


@pytest.mark.parametrize(
    ("export", "call", "kind", "constant"),
    [
        ("dynamo", Padded, rnncompat.GRU, [7, 2, 3, 1]),
        ("torchscript", Padded, rnncompat.GRU, [7, 2, 3, 1]),
        ("torchscript", Packed, torch.nn.GRU, [7, 3, 2, 1]),  # torch sorts the rows around the nodes
    ],
    indirect=["export"],
)
def test_constant_lengths_are_not_lost(export, call, kind, constant):
    module, x = Fixed(call(kind(I, H, 2))), torch.randn(T, 4, I)
    file = export(module, (x,), ({},))
    with pytest.raises(InvalidValueError, match=r"sequence_lens of node 1 is constant.* lengths="):
        FILE.read(file, Reading())
    nodes = load_nodes(file)
    assert [node.pop("sequence_lens").tolist() for node in nodes] == [constant] * 2
    descriptor, weights, _ = from_onnx(nodes)
    output, _ = rnn_forward(descriptor, weights, x, lengths=module.lengths)
    check([output], run_exported(file, x)[:1])


@pytest.mark.parametrize("export", ["torchscript"], indirect=True)
def test_a_packed_sequence(export):
    module = Packed(torch.nn.GRU(I, H, 2, bidirectional=True))
    file = export(module, (torch.randn(T, 3, I), torch.tensor([7, 2, 3])), (TIME_FIRST, {0: "B"}))
    descriptor, weights, done = FILE.read(file, Reading())
    assert "sequence_lens is lengths= of a call" in done
    for name, tensor in module.rnn.state_dict().items():
        assert_bitwise(tensor, weights[name].detach())
    x, lengths = torch.randn(9, 4, I), torch.tensor([9, 1, 2, 5])
    check([rnn_forward(descriptor, weights, x, lengths=lengths)[0]], run_exported(file, x, lengths))


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.LSTM(I, H, 2)
        self.decoder = torch.nn.GRU(H, H)

    def forward(self, x):
        return self.decoder(torch.relu(self.encoder(x)[0]))[0]


@pytest.mark.parametrize("export", ["torchscript"], indirect=True)
def test_one_of_several_networks_is_told_by_name(export):
    model = Two()
    file = export(model, (torch.randn(T, 6, I),), (TIME_FIRST,))
    for name, rnn in (("/encoder", model.encoder), ("/decoder/GRU", model.decoder)):
        descriptor, weights, _ = from_onnx(load_nodes(file, name=name))
        assert descriptor.num_layers == rnn.num_layers
        for key, tensor in rnn.state_dict().items():
            assert_bitwise(tensor, weights[key].detach())
    for name in ("", "/", "/head"):
        with pytest.raises(InvalidValueError, match=f"name is '{name}'; .* '/encoder/LSTM', '/decoder/GRU'"):
            load_nodes(file, name=name)


def test_constants_that_were_not_folded(tmp_path):
    file = str(tmp_path / "m.onnx")
    rnn = torch.nn.LSTM(I, H, 2, bidirectional=True)
    options = {} if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5) else {"dynamo": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Call(rnn).eval(), (torch.randn(T, B, I),), file, do_constant_folding=False, **options
        )
    descriptor, weights, _ = from_onnx(load_nodes(file))
    assert descriptor == RNNDescriptor("lstm", I, H, num_layers=2, bidirectional=True)
    for name, tensor in rnn.state_dict().items():
        assert_bitwise(tensor, weights[name].detach())
