"""Compilers, CUDA graphs, processes and transforms around backend ``cudnn``."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from compare import assert_bitwise, assert_same

import rnncompat
from rnncompat import UnsupportedError
from rnncompat.backends.call import call_of
from rnncompat.functional import Options, read_request

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch._dynamo.*:FutureWarning"),
    # What torch says of the empty graph that it makes itself, and of leaves that another stream made.
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning"),
    pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream:UserWarning"),
]

I, H, B, T = 3, 5, 4, 7
MASK = torch.tensor(
    [[1, 0, 0, 1], [1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 0, 1], [1, 0, 0, 1], [0, 1, 0, 0], [1, 0, 0, 1]]
).bool()
RESETS = MASK.roll(1, 1)
GIVEN = {
    "dense": {},
    "lengths": {"lengths": torch.tensor([3, 7, 0, 5])},
    "mask": {"mask": MASK},
    "resets": {"resets": RESETS},
}


def network(**options):
    options = {"num_layers": 2, "bidirectional": True, "dtype": torch.float64, "device": "cuda", **options}
    return rnncompat.LSTM(I, H, **options)


def values():
    return torch.randn(T, B, I, dtype=torch.float64, device="cuda")


def gradients(module, output, x):
    return list(torch.autograd.grad(output.square().sum(), [x, *module.parameters()]))


@pytest.mark.parametrize("place", ["cpu", "cuda"])
@pytest.mark.parametrize("given", GIVEN)
def test_compiled_calls_run_on_it(given, place):
    torch._dynamo.reset()
    module = network()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    x = values().requires_grad_()
    options = {name: value.to(place) for name, value in GIVEN[given].items()}
    expected, actual = module(x, **options)[0], compiled(x, **options)[0]
    assert_same(expected, actual)
    assert_same(gradients(module, expected, x), gradients(module, actual, x))


def test_compiled_calls_take_any_number_of_steps():
    torch._dynamo.reset()
    module, graphs = network(), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(module, backend=backend, fullgraph=True, dynamic=True)
    for steps in (5, 7, 9):
        x = torch.randn(steps, B, I, dtype=torch.float64, device="cuda")
        assert_same(module(x)[0], compiled(x)[0])
    assert len(graphs) == 1


@pytest.mark.parametrize("place", ["cpu", "cuda"])
@pytest.mark.parametrize("given", GIVEN)
def test_the_operator_keeps_torchs_rules(given, place):
    module, x = network(), values().requires_grad_()
    options = Options(**{name: value.to(place) for name, value in GIVEN[given].items()})
    _, request = read_request(module.descriptor, module.layers(), x, None, options)
    torch.library.opcheck(torch.ops.rnncompat.run.default, tuple(call_of(request, "auto")))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_reduced_overhead_for_several_networks_in_one_process(kind):
    """Each is compiled into CUDA graphs of its own, which share one pool of memory."""
    torch._dynamo.reset()
    for sizes in ((8, 16, 1, 5, 4), (16, 8, 2, 9, 3), (8, 8, 1, 3, 2)):
        inputs, hidden, num_layers, steps, batch = sizes
        module = getattr(rnncompat, kind)(inputs, hidden, num_layers).cuda()
        compiled = torch.compile(module, mode="reduce-overhead", fullgraph=True)
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.randn(steps, batch, inputs, device="cuda", requires_grad=True)
            output = compiled(x)[0].clone()
            assert_same(module(x)[0], output, 1e-5)
            output.sum().backward()
            module.zero_grad()  # they lie in the graph's memory, and the next step writes there
        with torch.no_grad():
            for _ in range(4):
                torch.compiler.cudagraph_mark_step_begin()
                x = torch.randn(steps, batch, inputs, device="cuda")
                assert_same(module(x)[0], compiled(x)[0].clone(), 1e-5)


def test_reduced_overhead_with_lengths_that_change():
    torch._dynamo.reset()
    module = rnncompat.GRU(8, 16).double().cuda()
    compiled = torch.compile(module, mode="reduce-overhead", fullgraph=True)
    with torch.no_grad():
        for lengths in ([3, 7, 0, 5], [7, 7, 7, 7], [0, 1, 2, 3], [5, 0, 0, 7]):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.randn(T, B, 8, dtype=torch.float64, device="cuda")
            there = torch.tensor(lengths, device="cuda")
            assert_same(module(x, lengths=lengths)[0], compiled(x, lengths=there)[0].clone())


def captured(run, ready=None):
    """A graph of *run*, and what it gave, after *ready* made the libraries ready, which *run* itself does."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        (ready or run)()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return graph, result


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("lengths", [None, [3, 7, 0, 5]], ids=["dense", "lengths"])
def test_a_captured_training_step_is_replayed(lengths, warm):
    module, x = network(), values().requires_grad_()

    def step(given=lengths):
        output = module(x, lengths=given, padding_value=0.5)[0]
        return [output, *gradients(module, output, x)]

    graph, result = captured(step, None if warm else lambda: step([1, 2, 7, 1]))
    for _ in range(3):
        with torch.no_grad():
            x.normal_()
        graph.replay()
        assert_bitwise(step(), result)


@pytest.mark.parametrize("given", ["lengths", "mask", "resets"])
def test_flags_on_the_gpu_are_read_by_each_replay(given):
    """cuDNN would have to be told of them, so the definition runs, which reads them where they lie."""
    module, x = network(), values()
    ((name, flags),) = GIVEN[given].items()
    flags = flags.cuda()
    with torch.no_grad():
        graph, (output, state) = captured(lambda: module(x, **{name: flags}))
        for _ in range(3):
            x.normal_()
            flags.copy_(flags.roll(1, -1))
            graph.replay()
            expected = module(x, **{name: flags}, backend="reference")
            assert_same(expected[0], output)
            assert_same(tuple(expected[1]), tuple(state))


@pytest.mark.parametrize("given", ["lengths", "mask", "resets"])
def test_cudnn_asked_for_refuses_flags_that_a_captured_graph_cannot_read(given):
    module, x = network(), values()
    options = {name: flags.cuda() for name, flags in GIVEN[given].items()}
    module(x, **options)
    with torch.no_grad(), pytest.raises(UnsupportedError, match="lengths that lie on the host"):
        captured(
            lambda: module(
                x, backend="cudnn" if torch.cuda.is_current_stream_capturing() else "auto", **options
            )
        )


def test_transforms_find_their_own_way():
    module = network(num_layers=1)
    x = values()
    dx = torch.randn_like(x)
    weights = dict(module.named_parameters())

    def run(x):
        return torch.func.functional_call(module, weights, (x,))[0]

    _, slope = torch.func.jvp(run, (x,), (dx,))
    step = 1e-6
    assert_same((run(x + step * dx) - run(x - step * dx)) / (2 * step), slope, 1e-6)
    rows = torch.func.vmap(run, in_dims=1, out_dims=1)(x)
    assert_same(run(x), rows)
    hessian = torch.func.hessian(lambda x: run(x).square().sum())(x[:2, :1])
    assert hessian.shape == (2, 1, I, 2, 1, I)
    assert_same(hessian.reshape(2 * I, -1), hessian.reshape(2 * I, -1).t())


FORK = """
import os, sys, torch, rnncompat
module = rnncompat.LSTM(3, 5).cuda().requires_grad_(False)
x = torch.randn(7, 4, 3, device="cuda")
y, state = module(x)
torch.cuda.synchronize()
child = os.fork()
if child == 0:
    for given in (None, state):
        try:
            module(x, given)
        except RuntimeError as error:
            print(error, flush=True)
        else:
            print("no error", flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert torch.equal(y, module(x)[0])
"""


def test_a_forked_process_is_refused_in_words():
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    told = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("fork") >= 2, told.stdout
    assert "no error" not in told.stdout


def test_interpreters_end_quietly_with_everything_in_use():
    program = (
        FORK.split("child = os.fork()", maxsplit=1)[0]
        + "graph = module(x.requires_grad_())[0].sum(); print('done')"
    )
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    assert (told.returncode, told.stdout.strip(), told.stderr) == (0, "done", "")
