"""Backend ``cudnn`` against ``reference`` in float64 on the CPU; every option that it has."""

from __future__ import annotations

import gc
import itertools
import threading

import pytest
import torch
from compare import assert_bitwise, assert_same

import rnncompat
from rnncompat import RNNDescriptor, RNNWeights, UnsupportedError, explain, rnn_forward
from rnncompat.backends import cudnn, quick_call

pytestmark = pytest.mark.gpu

I, H, B, T = 3, 5, 4, 7
CELLS = ("rnn_relu", "rnn_tanh", "lstm", "gru")
BIASES = ("double", "input", "recurrent", "none")
LENGTHS = {"dense": None, "ragged": [3, 7, 0, 5], "short": [2, 0, 4, 1]}
EXTRA = {
    "skip": {"input_size": H, "input_mode": "skip"},
    "projection": {"proj_size": 2},
    "clip": {"cell_clip": (-0.3125, 0.1875)},
    "all": {"input_size": H, "input_mode": "skip", "proj_size": 2, "cell_clip": (-0.3125, 0.1875)},
}


def arguments(descriptor, seed=0):
    """Weights, x ``[T, B, I]`` and a state, in float64 on the CPU."""
    random = torch.Generator().manual_seed(seed)
    weights = RNNWeights.init(descriptor, dtype=torch.float64, generator=random)
    x = torch.randn(T, B, descriptor.input_size, dtype=torch.float64, generator=random)
    sizes = (descriptor.state_size, *([descriptor.hidden_size] if descriptor.has_cell_state else []))
    state = [
        torch.randn(descriptor.num_pseudo_layers, B, s, dtype=torch.float64, generator=random) for s in sizes
    ]
    return weights, x, state


def results(descriptor, device, backend, lengths=None, dtype=torch.float64, **options):
    """Output, final state and every gradient, on the CPU in float64."""
    weights, x, state = arguments(descriptor)
    if lengths is not None:
        for row, length in enumerate(lengths):
            x[length:, row] = torch.nan
    weights = RNNWeights(descriptor, weights.flat.detach().to(device, dtype).requires_grad_())
    x, *state = (t.to(device, dtype).requires_grad_() for t in (x, *state))
    given = tuple(state) if len(state) == 2 else state[0]
    output, after = rnn_forward(
        descriptor, weights, x, given, lengths=lengths, padding_value=0.5, backend=backend, **options
    )
    values = [output, *(s for s in after if s is not None)]
    factors = [
        torch.linspace(0.5, 1.5, v.numel(), device=device, dtype=dtype).reshape(v.shape) for v in values
    ]
    total = sum((v * f).sum() for v, f in zip(values, factors, strict=True))
    gradients = torch.autograd.grad(total, [x, *state, weights.flat])
    return [t.detach().cpu().double() for t in (*values, *gradients)]


def check(descriptor, lengths=None, dtype=torch.float64, tolerance=1e-10):
    expected = results(descriptor, "cpu", "reference", lengths)
    actual = results(descriptor, "cuda", "cudnn", lengths, dtype)
    assert_same(expected, actual, tolerance)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("cell", CELLS)
def test_the_grid(cell, bias, lengths):
    for layers, bidirectional in itertools.product((1, 2, 3), (False, True)):
        check(RNNDescriptor(cell, I, H, num_layers=layers, bidirectional=bidirectional, bias=bias), lengths)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.parametrize("cell", CELLS)
def test_skip_projection_and_clip(cell, extra, lengths):
    options = {"input_size": I, **EXTRA[extra]}
    if cell != "lstm" and {"proj_size", "cell_clip"} & options.keys():
        options = {"input_size": H, "input_mode": "skip"}  # the other cells have no more
    size = options.pop("input_size")
    for layers, bidirectional, bias in itertools.product((1, 2), (False, True), ("double", "input")):
        check(
            RNNDescriptor(
                cell, size, H, num_layers=layers, bidirectional=bidirectional, bias=bias, **options
            ),
            lengths,
        )


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float16, 3e-2), (torch.bfloat16, 2e-1)]
)
def test_other_dtypes(cell, dtype, tolerance, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    for lengths in LENGTHS.values():
        check(RNNDescriptor(cell, I, H, num_layers=2, bidirectional=True), lengths, dtype, tolerance)


def test_tf32_follows_torchs_switch(monkeypatch):
    descriptor = RNNDescriptor("lstm", 128, 256)
    weights = RNNWeights.init(descriptor, device="cuda")
    x = torch.randn(20, 32, 128, device="cuda")
    exact, _ = rnn_forward(descriptor, RNNWeights(descriptor, weights.flat.detach().double()), x.double())
    off_by = {}
    for allowed in (True, False):
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", allowed)
        output, _ = rnn_forward(descriptor, weights, x, backend="cudnn")
        off_by[allowed] = float((output.double() - exact).abs().max().detach())
        assert ("TF32" in str(explain(descriptor, x, weights=weights))) is allowed
    assert off_by[False] < 1e-6 < off_by[True]


def test_every_row_without_a_step():
    check(RNNDescriptor("lstm", I, H, num_layers=2), [0] * B)


def flags(seed, share):
    return torch.rand(T, B, generator=torch.Generator().manual_seed(seed)) < share


FLAGS = {
    "resets": {"resets": flags(0, 0.3)},
    "resets to the given state": {"resets": flags(1, 0.3), "reset_to": "initial"},
    "holes": {"mask": flags(2, 0.6)},
    "holes and resets": {"mask": flags(3, 0.6), "resets": flags(4, 0.3)},
    "lengths and resets": {"lengths": [3, 7, 0, 5], "resets": flags(5, 0.3)},
    "nothing real": {"mask": flags(6, 0.0), "resets": flags(7, 0.5)},
}


@pytest.mark.parametrize("given", FLAGS)
@pytest.mark.parametrize("cell", CELLS)
def test_masks_and_resets(cell, given):
    for layers, bidirectional, bias in itertools.product((1, 2), (False, True), ("double", "recurrent")):
        descriptor = RNNDescriptor(cell, I, H, num_layers=layers, bidirectional=bidirectional, bias=bias)
        expected = results(descriptor, "cpu", "reference", **FLAGS[given])
        assert_same(expected, results(descriptor, "cuda", "cudnn", **FLAGS[given]))


ALL = {**FLAGS, "dense": {}, "lengths": {"lengths": [3, 7, 0, 5]}}


@pytest.mark.parametrize("given", ALL)
@pytest.mark.parametrize("cell", CELLS)
def test_the_states_of_every_step(cell, given):
    for extra, bidirectional in itertools.product(
        ("plain", "skip", "projection", "clip", "all"), (False, True)
    ):
        options = dict(EXTRA.get(extra, {}))
        if extra != "plain" and cell != "lstm":
            continue
        size = options.pop("input_size", I)
        descriptor = RNNDescriptor(cell, size, H, num_layers=2, bidirectional=bidirectional, **options)
        expected = results(descriptor, "cpu", "reference", return_states="all", **ALL[given])
        assert_same(expected, results(descriptor, "cuda", "cudnn", return_states="all", **ALL[given]))


@pytest.mark.parametrize("given", ALL)
@pytest.mark.parametrize("cell", CELLS)
def test_more_steps_than_a_call_takes(cell, given, monkeypatch):
    for module in (cudnn.rows, cudnn.layers, cudnn.long):
        monkeypatch.setattr(module, "MOST_STEPS", 2)
    for bidirectional, states in itertools.product((False, True), ("last", "all")):
        descriptor = RNNDescriptor(cell, I, H, num_layers=2, bidirectional=bidirectional)
        expected = results(descriptor, "cpu", "reference", return_states=states, **ALL[given])
        assert_same(expected, results(descriptor, "cuda", "cudnn", return_states=states, **ALL[given]))


def test_a_hundred_thousand_steps():
    module = rnncompat.LSTM(I, H, bidirectional=True).double().cuda()
    x = torch.randn(100_000, 2, I, dtype=torch.float64, device="cuda", requires_grad=True)
    lengths = [100_000, 65_600]
    output, (h, _) = module(x, lengths=lengths, backend="cudnn")
    assert not output[65_600:, 1].any()
    assert_same(output[-1, 0, :H], h[0, 0])
    assert_same(output[0, :, H:], h[1])
    (dx,) = torch.autograd.grad(output[:, 1].sum(), x)
    assert dx[:65_600, 1].abs().amin(1).all()
    assert not dx[65_600:, 1].any()
    assert not dx[:, 0].any()
    end = module(x[65_000:65_600, 1:], module(x[:65_000, 1:], backend="cudnn")[1], backend="cudnn")[1]
    assert_same(h[0, 1], end.h[0, 0])


@pytest.mark.parametrize("given", ["dense", "lengths", "holes and resets"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_batch_that_lies_batch_first(cell, given):
    descriptor = RNNDescriptor(cell, I, H, num_layers=2, bidirectional=True)
    weights, x, state = arguments(descriptor)
    weights = RNNWeights(descriptor, weights.flat.detach().cuda().requires_grad_())
    x, *state = (t.cuda().requires_grad_() for t in (x, *state))
    first = x.detach().transpose(0, 1).contiguous().requires_grad_()
    state = tuple(state) if len(state) == 2 else state[0]
    options = dict(ALL[given])
    turned = {k: v.t() if k != "lengths" else v for k, v in options.items()}
    output, after = rnn_forward(descriptor, weights, x, state, backend="cudnn", **options)
    other, end = rnn_forward(descriptor, weights, first, state, backend="cudnn", batch_first=True, **turned)
    assert_same(output, other.transpose(0, 1))
    assert_same(tuple(after), tuple(end))
    dy = torch.randn_like(output)
    dx, dw = torch.autograd.grad(output, [x, weights.flat], dy)
    dx_first, dw_first = torch.autograd.grad(other, [first, weights.flat], dy.transpose(0, 1))
    assert_same(dx, dx_first.transpose(0, 1))
    assert_same(dw, dw_first)


QUICK = {
    "plain": {},
    "skip": {"input_size": H, "input_mode": "skip"},
    "without bias": {"bias": "none"},
    "one bias": {"bias": "recurrent", "num_layers": 2},
    "both ways": {"bidirectional": True, "num_layers": 2},
}


@pytest.mark.parametrize("made", QUICK)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_the_short_way_gives_the_bits_of_the_general_way(cell, made, batch_first):
    options = {"input_size": I, **QUICK[made]}
    descriptor = RNNDescriptor(cell, options.pop("input_size"), H, **options)
    weights = RNNWeights.init(descriptor, device="cuda")
    x = torch.randn(T, B, descriptor.input_size, device="cuda")
    h = torch.randn(descriptor.num_pseudo_layers, T if batch_first else B, H, device="cuda")
    layers_of = weights.by_layer()
    for state in (None, (h, h.flip(0).contiguous()) if cell == "lstm" else h):
        with torch.no_grad():
            quick = quick_call(descriptor, layers_of, x, state, batch_first)
            assert quick is not None
            expected = rnn_forward(descriptor, weights, x, state, batch_first=batch_first, backend="cudnn")
            assert_bitwise(expected, quick)
            assert_bitwise(expected, rnn_forward(descriptor, weights, x, state, batch_first=batch_first))


@pytest.mark.parametrize("frozen", ["nothing", "state", "weights", "x"])
@pytest.mark.parametrize("cell", CELLS)
def test_the_short_way_gives_the_gradients_of_the_general_way(cell, frozen):
    descriptor = RNNDescriptor(cell, I, H, num_layers=2, bidirectional=True)
    weights = RNNWeights.init(descriptor, device="cuda").requires_grad_(frozen != "weights")
    x = torch.randn(T, B, I, device="cuda", requires_grad=frozen != "x")
    h, c = (torch.randn(4, B, H, device="cuda", requires_grad=frozen != "state") for _ in range(2))
    for state in (None, (h, c) if cell == "lstm" else h):
        leaves = [t for t in (x, weights.flat, *([] if state is None else [h, c])) if t.requires_grad]
        runs = []
        for backend in ("auto", "cudnn"):  # by name is the general way
            output, after = rnn_forward(descriptor, weights, x, state, backend=backend)
            for total in (
                output.sum(),
                after.h.square().sum() + output[0].sum(),
                sum(s.sum() for s in after if s is not None),
            ):
                found = torch.autograd.grad(total, leaves, allow_unused=True, retain_graph=True)
                runs.append([output, *found])
        assert_bitwise(runs[:3], runs[3:])
    slope = torch.autograd.grad(rnn_forward(descriptor, weights, x)[0].sum(), leaves[0], create_graph=True)[0]
    assert slope.requires_grad


def test_what_the_short_way_leaves_alone():
    descriptor = RNNDescriptor("lstm", I, H)
    weights = RNNWeights.init(descriptor, device="cuda").requires_grad_(False)
    x, own = torch.randn(T, B, I, device="cuda"), weights.by_layer()
    h = torch.randn(1, B, H, device="cuda")
    apart = tuple(type(w)(*(None if t is None else t.clone() for t in w)) for w in own)
    assert quick_call(descriptor, own, x, (h, h), False) is not None
    assert quick_call(descriptor, apart, x, (h, h), False) is None
    assert quick_call(descriptor, own, x.double(), None, False) is None
    assert quick_call(descriptor, own, x[..., :2], None, False) is None
    assert quick_call(descriptor, own, x.transpose(0, 1), None, False) is None
    for state in (
        h,
        (h, None),
        (h[:, :1], h[:, :1]),
        (h.double(), h.double()),
        (h.cpu(), h.cpu()),
        (h, h, h),
    ):
        assert quick_call(descriptor, own, x, state, False) is None
    with pytest.raises(ValueError, match="The last axis holds the features"):
        rnn_forward(descriptor, weights, x[..., :2].contiguous())


@pytest.mark.parametrize("given", [{}, {"lengths": [3, 7, 0, 5]}, FLAGS["holes and resets"]], ids=str)
@pytest.mark.parametrize("cell", CELLS)
def test_dropout_is_that_of_the_reference(cell, given):
    descriptor = RNNDescriptor(cell, I, H, num_layers=3, bidirectional=True, dropout=0.4)
    found = []
    for backend in ("reference", "cudnn", "cudnn"):
        torch.manual_seed(5)
        found.append(results(descriptor, "cuda", backend, training=True, **given))
    assert_same(found[0], found[1])
    assert_bitwise(found[1], found[2])
    assert not torch.equal(found[1][0], results(descriptor, "cuda", "cudnn", **given)[0])


@pytest.mark.parametrize("cell", CELLS)
def test_the_same_call_gives_the_same_bits_and_a_graph_may_be_walked_twice(cell):
    descriptor = RNNDescriptor(cell, 32, 64, num_layers=2, bidirectional=True)
    weights = RNNWeights.init(descriptor, device="cuda")
    x = torch.randn(20, 8, 32, device="cuda", requires_grad=True)
    runs = []
    for _ in range(3):
        output, _ = rnn_forward(descriptor, weights, x, lengths=[20, 3, 0, 7, 20, 1, 9, 4])
        runs.append([output, *torch.autograd.grad(output.sum(), [x, weights.flat], retain_graph=True)])
        runs.append([output, *torch.autograd.grad(output.sum(), [x, weights.flat])])
    for run in runs[1:]:
        assert_bitwise(runs[0], run)


@pytest.mark.parametrize("backend", ["cudnn", "aten", "reference"])
@pytest.mark.parametrize("given", ALL)
def test_gradients_of_what_many_runs_share_have_the_same_bits_twice(given, backend):
    descriptor = RNNDescriptor("lstm", I, H, num_layers=2, bidirectional=True)
    for states in ("last", "all"):
        runs = [
            results(descriptor, "cuda", backend, dtype=torch.float32, return_states=states, **ALL[given])
            for _ in range(4)
        ]
        for run in runs[1:]:
            assert_bitwise(runs[0], run)


def test_torchs_own_operations_stand_in_where_the_library_cannot_be_bound(monkeypatch):
    descriptor = RNNDescriptor("gru", I, H, num_layers=2, bidirectional=True)
    expected = [results(descriptor, "cuda", "auto", **ALL[given]) for given in ALL]
    for module in (cudnn.backend, cudnn.quick):
        monkeypatch.setattr(module, "why_missing", lambda: "it is Sunday")
    cudnn.quick._prepare.cache_clear()
    assert_same(expected, [results(descriptor, "cuda", "auto", **ALL[given]) for given in ALL])
    told = explain(descriptor, torch.randn(T, B, I, device="cuda"))
    assert (told.backend, told.how) == ("aten", "layer 0: dense, layer 1: dense")
    assert told.reasons["cudnn"] == "it is Sunday"
    cudnn.quick._prepare.cache_clear()


@pytest.mark.parametrize("given", [{"lengths": [3, 7, 0, 5]}, FLAGS["holes and resets"]], ids=str)
@pytest.mark.parametrize("cell", CELLS)
def test_second_derivatives_lead_through_the_definition(cell, given):
    descriptor = RNNDescriptor(cell, I, H, bidirectional=True)

    def penalty(device, backend):
        weights, x, _ = arguments(descriptor)
        flat = weights.flat.detach().to(device).requires_grad_()
        x = x.to(device).requires_grad_()
        output, _ = rnn_forward(descriptor, RNNWeights(descriptor, flat), x, backend=backend, **given)
        (slope,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
        return [g.cpu() for g in torch.autograd.grad(slope.square().sum(), [x, flat])]

    assert_same(penalty("cpu", "reference"), penalty("cuda", "cudnn"))


def test_batched_backward_passes():
    descriptor = RNNDescriptor("lstm", I, H)
    weights, x, _ = arguments(descriptor)
    flat = weights.flat.detach().cuda().requires_grad_()
    output, _ = rnn_forward(descriptor, RNNWeights(descriptor, flat), x.cuda(), backend="cudnn")
    many = torch.randn(3, *output.shape, dtype=torch.float64, device="cuda")
    (at_once,) = torch.autograd.grad(output, flat, many, is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(output, flat, dy, retain_graph=True)[0] for dy in many]
    assert_same(torch.stack(one_by_one), at_once)


@pytest.mark.parametrize("cell", CELLS)
def test_autocast_computes_in_its_dtype(cell):
    descriptor = RNNDescriptor(cell, 32, 64, num_layers=2)
    weights = RNNWeights.init(descriptor, device="cuda")
    x = torch.randn(9, 4, 32, device="cuda")
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cuda", dtype=dtype):
            output, state = rnn_forward(descriptor, weights, x, backend="cudnn")
        assert output.dtype is state.h.dtype is dtype
        expected, _ = rnn_forward(descriptor, weights.to(dtype=dtype), x.to(dtype), backend="cudnn")
        assert_bitwise(expected, output)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_modules_agree_with_torch_nn_frozen_and_in_eval_too(kind):
    other = getattr(torch.nn, kind)(16, 32, 2, bidirectional=True).double().cuda()
    module = getattr(rnncompat, kind).from_torch(other).eval().requires_grad_(False)
    x = torch.randn(9, 4, 16, dtype=torch.float64, device="cuda", requires_grad=True)
    with torch.backends.cudnn.flags(enabled=False):
        expected = other(x)[0]
        (dx,) = torch.autograd.grad(expected.sum(), x)
    actual = module(x)[0]
    assert_same(expected, actual)
    assert_same(dx, torch.autograd.grad(actual.sum(), x)[0])


def test_weights_are_read_at_each_call_packed_or_not():
    module = rnncompat.LSTM(16, 32).cuda()
    x = torch.randn(5, 4, 16, device="cuda")
    before = module(x)[0]
    with torch.no_grad():
        module.weight_hh_l0.mul_(2)
    after = module(x)[0]
    module.bias_hh_l0 = torch.nn.Parameter(module.bias_hh_l0.detach().clone())  # leaves the buffer
    assert not torch.equal(before, after)
    assert_bitwise(after, module(x)[0])


def test_a_weight_changed_between_forward_and_backward_is_noticed():
    module = rnncompat.GRU(16, 32).cuda()
    output, _ = module(torch.randn(5, 4, 16, device="cuda"))
    with torch.no_grad():
        module.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_memory_is_flat_over_calls_of_changing_sizes():
    module = rnncompat.LSTM(16, 32).cuda()

    def train(count):
        for n in range(count):
            steps = 1 + n % 37
            lengths = [(n * k) % (steps + 1) for k in (1, 3, 7)]
            module(torch.randn(steps, 3, 16, device="cuda"), lengths=lengths)[0].sum().backward()
        module.zero_grad()
        gc.collect()
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()

    before = train(40)
    assert train(500) <= before


def test_streams_and_threads():
    module = rnncompat.GRU(32, 64, 2).cuda()
    x = torch.randn(30, 16, 32, device="cuda")
    expected = module(x)[0].detach()
    found = {}

    def work(name):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(stream):
            for _ in range(20):
                found[name] = module(x)[0].detach()
        stream.synchronize()

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for output in found.values():
        assert_bitwise(expected, output)


REFUSED = {
    "bounds": ({"cell_clip": (-0.3, 0.2)}, {}, "in float32"),
    "bias": ({"bias": "input"}, {"algorithm": "persist_static"}, "double bias only"),
    "lengths": ({}, {"algorithm": "persist_static", "lengths": [1, 2, 3, 4]}, "has no lengths"),
    "wide": ({}, {"algorithm": "persist_static_small_h"}, "H up to 128"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_cannot_do_is_refused_with_the_reason_and_served_by_another(case):
    made, called, reason = REFUSED[case]
    hidden = 200 if case == "wide" else H
    descriptor = RNNDescriptor("lstm", I, hidden, **made)
    dtype = torch.float64 if case == "bounds" else torch.float32
    weights = RNNWeights.init(descriptor, device="cuda", dtype=dtype)
    x = torch.randn(T, B, I, device="cuda", dtype=dtype)
    with pytest.raises(UnsupportedError, match=reason):
        rnn_forward(descriptor, weights, x, backend="cudnn", **called)
    if "algorithm" not in called:
        rnn_forward(descriptor, weights, x, **called)


@pytest.mark.parametrize("algorithm", ["persist_static", "persist_static_small_h"])
@pytest.mark.parametrize("cell", CELLS)
def test_an_algorithm_asked_for_is_obeyed(cell, algorithm):
    descriptor = RNNDescriptor(cell, 32, 64, num_layers=2)
    expected = RNNWeights.init(descriptor, dtype=torch.float64)
    weights = expected.to("cuda", torch.float32)
    x = torch.randn(9, 4, 32, dtype=torch.float64)
    output, _ = rnn_forward(descriptor, expected, x)
    actual, _ = rnn_forward(descriptor, weights, x.float().cuda(), algorithm=algorithm)
    assert_same(output, actual.cpu().double(), 1e-2)  # TF32


def test_it_is_the_first_choice_on_a_gpu():
    descriptor = RNNDescriptor("gru", I, H)
    x = torch.randn(T, B, I, device="cuda")
    told = explain(descriptor, x)
    assert told.backend == "cudnn"
