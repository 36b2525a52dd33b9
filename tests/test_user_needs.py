"""What people reported of other libraries and no other file tests; docs/user-needs.md lists all of it."""

from __future__ import annotations

import pytest
import torch
from anywhere import BACKENDS, rnn_forward
from cases import CELLS
from compare import assert_bitwise, assert_same
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import rnncompat
from rnncompat import RNNDescriptor, RNNWeights, UnsupportedError
from rnncompat.versions import GATES

I, H = 3, 4
MODULES = {
    "relu": lambda: rnncompat.RNN(I, H, nonlinearity="relu"),
    "tanh": lambda: rnncompat.RNN(I, H, 2),
    "lstm": lambda: rnncompat.LSTM(I, H, bidirectional=True),
    "projected": lambda: rnncompat.LSTM(I, H, proj_size=2),
    "gru": lambda: rnncompat.GRU(I, H, 2, bidirectional=True),
}


@pytest.fixture(params=MODULES)
def module(request):
    return MODULES[request.param]()


class NumbersWritten(TorchDispatchMode):
    """Counts the elements of all that torch's operations return: work, without a clock."""

    total = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for part in result if isinstance(result, (tuple, list)) else (result,):
            self.total += part.numel() if isinstance(part, torch.Tensor) else 0
        return result


@pytest.mark.parametrize("resets", [False, True], ids=["lengths", "resets"])
@pytest.mark.parametrize("cell", CELLS)
def test_training_on_rows_of_different_lengths_is_linear_in_the_number_of_steps(cell, resets):
    """torch's packed way fills a gradient of the whole sequence at every step: four times the work at twice T."""
    descriptor = RNNDescriptor(cell, I, H)
    weights = RNNWeights.init(descriptor)

    def work(steps):
        x = torch.randn(steps, 5, I)
        flags = torch.rand(steps, 5) < 0.05 if resets else None
        lengths = [steps, steps // 2, steps // 3, 0, steps - 1]
        with NumbersWritten() as written:
            rnn_forward(descriptor, weights, x, lengths=lengths, resets=flags)[0].sum().backward()
        return written.total

    assert work(400) < 2.5 * work(200)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cell", CELLS)
def test_a_call_does_not_depend_on_those_before(cell, backend):
    descriptor = RNNDescriptor(cell, I, H, num_layers=2, bidirectional=True)
    weights = RNNWeights.init(descriptor)

    def call(steps, batch):
        random = torch.Generator().manual_seed(steps)
        x = torch.randn(steps, batch, I, generator=random).requires_grad_()
        lengths = torch.randint(0, steps + 1, (batch,), generator=random)
        output, state = rnn_forward(descriptor, weights, x, lengths=lengths, backend=backend)
        return [output, state.h, *torch.autograd.grad(output.square().sum(), [x, weights.flat])]

    fresh = call(10, 3)
    for steps, batch in ((50, 2), (31, 7), (2, 1), (10, 4), (9, 3)):
        call(steps, batch)
        assert_bitwise(fresh, call(10, 3))


@pytest.mark.parametrize("cell", CELLS)
def test_more_steps_than_sixteen_bits_count(cell):
    descriptor = RNNDescriptor(cell, 1, 2)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    x = torch.randn(65537, 1, 1, dtype=torch.float64)
    with torch.no_grad():
        output, state = rnn_forward(descriptor, weights, x)
        first, middle = rnn_forward(descriptor, weights, x[:40000])
        second, end = rnn_forward(descriptor, weights, x[40000:], middle)
    assert_same(torch.cat([first, second]), output)
    assert_same(tuple(end), tuple(state))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cell", CELLS)
def test_a_batch_of_thousands_is_its_rows(cell, backend):
    descriptor = RNNDescriptor(cell, 32, 32)
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    x = torch.randn(5, 6464, 32, dtype=torch.float64, requires_grad=True)

    def call(rows):
        output, _ = rnn_forward(descriptor, weights, x[:, rows], backend=backend)
        return output, *torch.autograd.grad(output.square().sum(), [x, weights.flat])

    whole, dx, dw = call(slice(None))
    parts = [call(slice(begin, begin + 2000)) for begin in range(0, 6464, 2000)]
    assert_same(whole, torch.cat([output for output, _, _ in parts], 1))
    assert_same(dx, sum(grad for _, grad, _ in parts))
    assert_same(dw, sum(grad for _, _, grad in parts), 1e-8)


class Output(nn.Module):
    """A network in a model of one's own."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rnn(x)[0]


class WithResets(Output):
    def forward(self, x):
        return self.rnn(x, resets=x[..., 0] > 1)[0]


class FirstStep(Output):
    def forward(self, x):
        return self.rnn.step(x[0])[0]


@pytest.mark.filterwarnings("default")  # torch warns of TorchScript
def test_torchscript_is_refused_in_words_and_taken_by_the_copy_for_torch(module):
    x = torch.randn(5, 2, I)
    for model in (module, Output(module), nn.Sequential(module)):
        with pytest.raises(UnsupportedError, match=r"torch.jit.script cannot compile.*to_torch\(\)"):
            torch.jit.script(model)
    assert_same(module(x)[0], torch.jit.script(Output(module.to_torch()))(x), 1e-5)


@pytest.mark.filterwarnings("default")  # torch warns of TorchScript
@pytest.mark.parametrize("gradients", [True, False])
def test_traces_serve_other_sizes_or_are_refused_in_words(module, gradients):
    x, other = torch.randn(5, 2, I), torch.randn(8, 3, I)
    calls = [Output(module), WithResets(module), *([] if module.bidirectional else [FirstStep(module)])]
    with torch.set_grad_enabled(gradients):
        for call in calls:
            if GATES["tracing"].open:
                assert_same(call(other), torch.jit.trace(call, x)(other), 1e-5)
            else:
                with pytest.raises(UnsupportedError, match=r"torch.jit.trace would bake.*to_torch\(\)"):
                    torch.jit.trace(call, x)


@pytest.mark.filterwarnings("default")  # torch warns of its quantisation
def test_dynamic_quantisation_leaves_our_modules_in_floating_point(module):
    """Those with a projection too, where torch's own fail when they are called."""
    model = nn.ModuleDict({"rnn": module, "head": nn.Linear(H, H)})
    quantised = torch.ao.quantization.quantize_dynamic(model, dtype=torch.qint8)
    assert type(quantised["head"]) is not nn.Linear
    assert type(quantised["rnn"]) is type(module)
    x = torch.randn(5, 2, I)
    assert_bitwise(module(x), quantised["rnn"](x))


@pytest.mark.filterwarnings("default")  # torch warns of its quantisation
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_the_copy_for_torch_can_be_quantised(kind):
    module = MODULES[kind]()
    model = nn.ModuleDict({"rnn": module.to_torch()})
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.LSTM, nn.GRU}, dtype=torch.qint8)["rnn"]
    assert type(quantised) is not type(model["rnn"])
    x = torch.randn(5, 2, I)
    assert_same(module(x)[0], quantised(x)[0], 0.05)
