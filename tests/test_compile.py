"""torch.compile and torch.export: every option in one graph, the same numbers, and a graph that does not grow."""

from __future__ import annotations

import io

import pytest
import torch
from compare import assert_same

import rnncompat
from rnncompat import InvalidValueError, RNNDescriptor, RNNState, RNNWeights, rnn_forward
from rnncompat.backends.call import call_of
from rnncompat.functional import Options, read_request

# torch's compilers warn of themselves: of .grad of tensors that are no leaves, of torch.jit, of their caches.
pytestmark = pytest.mark.filterwarnings("default")

F64 = torch.float64
B, I, H = 3, 5, 4
PLAIN = {"num_layers": 2, "bidirectional": True}

NETWORKS = {
    "rnn_relu": ("rnn_relu", I, PLAIN),
    "rnn_tanh": ("rnn_tanh", I, {"bias": "recurrent"}),
    "lstm": ("lstm", I, PLAIN),
    "gru": ("gru", I, {**PLAIN, "bias": "input"}),
    "projection and clip": ("lstm", I, {"proj_size": 2, "cell_clip": (-0.3, 0.3), "num_layers": 2}),
    "skip, no bias": ("gru", H, {"input_mode": "skip", "bias": "none"}),
}
CALLS = {
    "dense": {},
    "lengths": {"lengths": lambda steps: torch.tensor([steps, 0, steps // 2])},
    "mask": {"mask": lambda steps: torch.rand(steps, B) < 0.6},
    "resets": {"resets": lambda steps: torch.rand(steps, B) < 0.3, "reset_to": "initial"},
    "every state": {"return_states": "all", "lengths": lambda steps: torch.full((B,), steps - 1)},
    "batch first": {
        "batch_first": True,
        "padding_value": 2.5,
        "mask": lambda steps: torch.rand(B, steps) < 0.6,
    },
}


COMBINATIONS = [
    # Each pair in the default environment; each network and each call at least twice on every version.
    pytest.param(name, call, marks=[] if (i + j) % 3 == 0 else [pytest.mark.thorough], id=f"{name}-{call}")
    for i, name in enumerate(NETWORKS)
    for j, call in enumerate(CALLS)
]


def results(function, descriptor, weights, x, state, options):
    """Outputs, final states and every gradient of a call."""
    x, h = x.detach().requires_grad_(), state.h.detach().requires_grad_()
    c = None if state.c is None else state.c.detach().requires_grad_()
    flat = weights.flat.detach().requires_grad_()
    found = [t for t in function(flat, x, h, c, options) if t is not None]
    leaves = [t for t in (flat, x, h, c) if t is not None]
    return [*found, *torch.autograd.grad(sum((t * t).sum() for t in found), leaves)]


def network(name):
    cell, inputs, options = NETWORKS[name]
    descriptor = RNNDescriptor(cell, inputs, H, **options)
    return descriptor, RNNWeights.init(descriptor, dtype=F64)


def arguments(descriptor, call, steps):
    """x, a state, and what *call* gives for that many steps."""
    options = {name: value(steps) if callable(value) else value for name, value in CALLS[call].items()}
    shape = (B, steps) if options.get("batch_first") else (steps, B)
    drawn = [
        torch.randn(descriptor.num_pseudo_layers, B, size, dtype=F64) for size in (descriptor.state_size, H)
    ]
    state = RNNState(drawn[0], drawn[1] if descriptor.has_cell_state else None)
    return torch.randn(*shape, descriptor.input_size, dtype=F64), state, options


@pytest.mark.parametrize(("name", "call"), COMBINATIONS)
def test_compiled_calls_give_the_same_in_one_graph_for_all_lengths(name, call):
    descriptor, weights = network(name)

    def run(flat, x, h, c, options):
        state = RNNState(h, c)
        output, after = rnn_forward(descriptor, RNNWeights(descriptor, flat), x, state, **options)
        return output, after.h, after.c

    torch._dynamo.reset()
    from torch._dynamo.testing import CompileCounterWithBackend  # noqa: PLC0415  # torch 1.13 has none

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(run, fullgraph=True, backend=counter)
    for steps in (6, 9, 2):
        x, state, options = arguments(descriptor, call, steps)
        expected = results(run, descriptor, weights, x, state, options)
        assert_same(expected, results(compiled, descriptor, weights, x, state, options))
    assert counter.frame_count <= 2
    assert len({len(graph.graph.nodes) for graph in counter.graphs[1:]}) == 1
    assert len(counter.graphs[-1].graph.nodes) < 100


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_compiled_modules_and_steps(kind):
    module = getattr(rnncompat, kind)(I, H, 2, dtype=F64)
    call = torch.compile(module, fullgraph=True, backend="aot_eager")
    step = torch.compile(module.step, fullgraph=True, backend="aot_eager")
    x, lengths = torch.randn(6, B, I, dtype=F64), torch.tensor([6, 0, 4])
    assert_same(module(x, lengths=lengths)[0], call(x, lengths=lengths)[0])
    with torch.no_grad():  # given a state that is no leaf, torch's compiler warns of itself
        _, state = module(x)
    y, after = module.step(x[0], state)
    again, after_again = step(x[0], state)
    assert_same(y, again)
    assert_same(after, after_again)
    call(x)[0].sum().backward()
    by_compiled = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x)[0].sum().backward()
    assert_same([p.grad for p in module.parameters()], by_compiled)


def test_a_length_out_of_range_is_refused_when_the_graph_runs():
    module = rnncompat.GRU(I, H)
    compiled = torch.compile(lambda x, n: module(x, lengths=n)[0], fullgraph=True, backend="aot_eager")
    x = torch.randn(6, B, I)
    compiled(x, torch.tensor([6, 0, 1]))
    with pytest.raises(InvalidValueError, match=r"lengths\[1\] is 7, but the input has T = 6 steps"):
        compiled(x, torch.tensor([6, 7, 1]))


def test_compiled_lists():
    module = rnncompat.LSTM(I, H, dtype=F64)
    rows = [torch.randn(steps, I, dtype=F64) for steps in (3, 0, 5)]
    compiled = torch.compile(lambda *rows: module(list(rows))[0], fullgraph=True, backend="aot_eager")
    assert_same(module(rows)[0], compiled(*rows))


def test_compiled_dropout_drops_anew_and_its_gradient_fits_its_output():
    module = rnncompat.LSTM(I, H, 2, dropout=0.5, dtype=F64)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    x = torch.randn(6, B, I, dtype=F64, requires_grad=True)
    first, second = compiled(x)[0], compiled(x)[0]
    assert not torch.equal(first, second)
    direction, step = torch.randn_like(x), 1e-6

    def total(values):
        torch.manual_seed(5)
        return compiled(values)[0].sum()

    (gradient,) = torch.autograd.grad(total(x), x)
    slope = (total(x + step * direction) - total(x - step * direction)) / (2 * step)
    torch.testing.assert_close((gradient * direction).sum(), slope, rtol=1e-5, atol=1e-8)


def test_compiled_by_inductor():
    descriptor, weights = network("gru")

    def run(x, lengths):
        return rnn_forward(descriptor, weights, torch.tanh(x), lengths=lengths)[0] * 2

    x, lengths = torch.randn(6, B, I, dtype=F64), torch.tensor([6, 0, 4])
    assert_same(run(x, lengths), torch.compile(run, fullgraph=True)(x, lengths))


@pytest.mark.parametrize(("name", "call"), COMBINATIONS)
def test_the_operator_keeps_its_promises(name, call):
    """Schema, fake tensors, autograd and functionalization, by torch's own checks."""
    descriptor, weights = network(name)
    x, state, options = arguments(descriptor, call, 4)
    _, request = read_request(descriptor, weights.by_layer(), x.requires_grad_(), state, Options(**options))
    leaves = [
        type(w)(*(None if t is None else t.detach().requires_grad_() for t in w)) for w in request.weights
    ]
    checked = torch.library.opcheck(
        torch.ops.rnncompat.run.default, tuple(call_of(request._replace(weights=tuple(leaves)), "auto"))
    )
    assert set(checked.values()) == {"SUCCESS"}


class Net(torch.nn.Module):
    """Two layers in both directions, with lengths, as a user would wrap them."""

    def __init__(self, kind):
        super().__init__()
        self.rnn = getattr(rnncompat, kind)(I, H, 2, bidirectional=True)

    def forward(self, x, lengths):
        output, state = self.rnn(x, lengths=lengths)
        return output, state if isinstance(state, torch.Tensor) else state.h


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_exported_programs_take_other_sizes_and_lengths(kind):
    net = Net(kind).eval()
    steps, batch = torch.export.Dim("T", min=2, max=99), torch.export.Dim("B", min=2, max=99)
    example = torch.randn(7, 3, I), torch.tensor([7, 0, 3])
    program = torch.export.export(net, example, dynamic_shapes=({0: steps, 1: batch}, {0: batch}))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    x, lengths = torch.randn(9, 5, I), torch.tensor([9, 1, 0, 4, 5])
    assert_same(net(x, lengths), loaded(x, lengths), 1e-6)
    with pytest.raises(InvalidValueError, match=r"lengths\[0\] is 10"):
        loaded(x, torch.tensor([10, 1, 0, 4, 5]))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_traced_programs_take_other_sizes_and_lengths(kind):
    net = Net(kind).eval()
    traced = torch.jit.trace(net, (torch.randn(7, 3, I), torch.tensor([7, 0, 3])))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    loaded = torch.jit.load(file)
    x, lengths = torch.randn(9, 5, I), torch.tensor([9, 1, 0, 4, 5])
    assert_same(net(x, lengths), loaded(x, lengths), 1e-6)
    loaded(x, lengths)[0].sum().backward()
    net(x, lengths)[0].sum().backward()
    for ours, theirs in zip(loaded.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    with pytest.raises(RuntimeError, match=r"lengths\[0\] is 10"):
        loaded(x, torch.tensor([10, 1, 0, 4, 5]))
