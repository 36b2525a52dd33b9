"""The old layer: every option against NumPy's recursion, gradients against torch.nn, and its conventions."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from compare import assert_bitwise, assert_same
from old_layers import LAYERS, B, H, Layer, T, X, columns, lengths_of

from rnncompat import InvalidTypeError, InvalidValueError, UnsupportedError, layout_of, legacy

RAGGED = [7, 5, 5, 2, 1]


@pytest.fixture(params=LAYERS, ids=str)
def layer(request):
    return request.param


@pytest.fixture(params=["relu", "tanh", "lstm", "gru"])
def kind(request):
    return request.param


def tensor(array):
    return None if array is None else torch.tensor(array)


def test_values_of_sequences_steps_and_vectors_from_every_start(layer):
    r = layer.old()
    for shape in ((), (B,), (B, T)):
        batch, steps = (*shape, 1, 1)[:2]
        x = layer.data(*shape)
        wide = x.reshape(layer.inputs, batch, steps)
        given = layer.states(batch)
        for h, c in ((None, None), given):
            r.h, r.c = (0 if state is None else tensor(state) for state in (h, c))
            y, *after = layer.numpy(wide, h, c)
            assert_same(y.reshape(-1, *shape), r(torch.tensor(x)))
            assert_same(after[0], r.h)
            assert r.c == 0 if after[1] is None else torch.allclose(r.c, tensor(after[1]), 1e-10, 1e-10)
            got = legacy.rnnforw(r, r.w, torch.tensor(x), tensor(h), tensor(c), hy=True, cy=True)
            assert_same([y.reshape(-1, *shape), *after, None], list(got))


def test_gradients_reach_the_flat_weights_the_input_and_both_states(layer):
    r, module = layer.old(), layer.torch()
    x = torch.tensor(layer.data(B, T), requires_grad=True)
    h, c = (None if s is None else torch.tensor(s, requires_grad=True) for s in layer.states(B))
    y, hy, cy, _ = legacy.rnnforw(r, r.w, x, h, c)
    turned = [v.detach().permute(2, 1, 0).requires_grad_() for v in (x, h, c) if v is not None]
    state = turned[1] if c is None else tuple(turned[1:])
    expected, after = module(turned[0], state)
    hs = after if isinstance(after, tuple) else (after,)
    weigh = [torch.randn(v.shape, dtype=v.dtype) for v in (expected, *hs)]
    sum((v * w).sum() for v, w in zip((expected, *hs), weigh, strict=True)).backward()
    results = [v for v in (y, hy, cy) if v is not None]
    sum((v.permute(2, 1, 0) * w).sum() for v, w in zip(results, weigh, strict=True)).backward()
    leaves = [v for v in (x, h, c) if v is not None]
    assert_same([v.grad for v in turned], [v.grad.permute(2, 1, 0) for v in leaves])
    assert_same(layer.flat_gradient(module), r.w.grad.flatten())
    assert r.w.grad.shape == r.w.shape


@pytest.mark.parametrize("sizes", [[B] * T, RAGGED], ids=["equal", "ragged"])
def test_packed_columns_give_each_sequence_its_own_end(layer, sizes):
    r = layer.old()
    x = layer.data(sum(sizes))
    padded, lengths = columns(x, sizes), lengths_of(sizes)
    h, c = layer.states(sizes[0])
    y, *after = layer.numpy(padded, h, c, lengths)
    got, *states, _ = legacy.rnnforw(r, r.w, torch.tensor(x), tensor(h), tensor(c), batchSizes=sizes)
    assert_same(y, torch.tensor(columns(got.detach().numpy(), sizes)))
    assert_same(after, states)
    r.h, r.c = tensor(h), tensor(c)
    assert_bitwise(got, r(torch.tensor(x), batchSizes=torch.tensor(sizes)))
    assert_bitwise(states[0], r.h)


def test_packed_training_gives_torchs_gradients(layer):
    r, module = layer.old(), layer.torch()
    x = torch.tensor(layer.data(sum(RAGGED)), requires_grad=True)
    y = r(x, batchSizes=RAGGED)
    rows = x.detach().t().requires_grad_()
    packed = torch.nn.utils.rnn.PackedSequence(rows, torch.tensor(RAGGED))
    expected = module(packed)[0].data
    weigh = torch.randn_like(expected)
    (expected * weigh).sum().backward()
    (y.t() * weigh).sum().backward()
    assert_same(rows.grad.t(), x.grad)
    assert_same(layer.flat_gradient(module), r.w.grad.flatten())


def test_three_dimensions_beside_batch_sizes_are_columns_in_time_order(kind):
    r = Layer(kind).old()
    x = torch.tensor(Layer(kind).data(B, T))
    y = r(x, batchSizes=[B] * T)
    assert y.shape == (H, B, T)
    assert_same(r(x), y)
    assert_same(r(x), r(x.transpose(1, 2).reshape(X, -1), batchSizes=[B] * T).view(H, T, B).transpose(1, 2))


@pytest.mark.parametrize("layers", [1, 2])
def test_two_calls_go_on_where_one_would_be_gradients_included(kind, layers):
    keep = {"h": 0, "c": 0} if kind == "lstm" else {"h": 0}
    whole, split = Layer(kind, layers).old(**keep), Layer(kind, layers).old(**keep)
    x = torch.tensor(Layer(kind).data(B, T))
    y = whole(x)
    parts = torch.cat([split(x[:, :, :4]), split(x[:, :, 4:])], 2)
    assert_same(y, parts)
    assert_same([whole.h, whole.c], [split.h, split.c])
    y.pow(2).sum().backward()
    parts.pow(2).sum().backward()
    assert_same(whole.w.grad, split.w.grad)


def test_none_forgets_zero_keeps_and_an_array_goes_on(kind):
    layer = Layer(kind)
    r, x = layer.old(), torch.tensor(layer.data(B, T))
    r(x)
    assert r.h is None
    assert r.c is None
    r.h = 0
    first = r(x)
    assert r.h.shape == (H, B, 1)
    assert r.c is None
    kept = r.h
    assert not torch.equal(r(x), first)
    r.h = kept[:, :, 0]  # trailing ones may be left out
    again = r(x)
    r.h = kept
    assert_bitwise(again, r(x))
    r.h = None
    assert_bitwise(first, r(x))


def test_a_cell_kept_alone_and_a_state_kept_alone():
    layer = Layer("lstm")
    x = torch.tensor(layer.data(B, T))
    y, h, c = layer.numpy(x.numpy())
    r = layer.old(c=0)
    assert_same(y, r(x))
    assert r.h is None
    assert_same(c, r.c)
    given = layer.states(B)[1]
    r.c = torch.tensor(given)
    assert_same(layer.numpy(x.numpy(), None, given)[0], r(x))
    r = layer.old(h=0)
    r(x)
    assert_same(h, r.h)
    assert r.c is None


def test_a_state_for_a_cell_without_one_is_refused_but_zero_is_harmless():
    layer = Layer("gru")
    x = torch.tensor(layer.data(B, T))
    r = layer.old(h=0, c=0)
    r(x)
    assert r.c == 0
    r.c = torch.zeros(H, B, 1, dtype=torch.float64)
    with pytest.raises(UnsupportedError, match=r"c is given, but the cell is 'gru'"):
        r(x)
    with pytest.raises(UnsupportedError, match=r"no cell state"):
        legacy.rnnforw(r, r.w, x, None, r.c)
    assert legacy.rnnforw(r, r.w, x, hy=True, cy=True)[2] is None


def test_states_held_are_part_of_the_graph_and_a_parameter_gets_its_gradient():
    r, x = Layer("lstm").old(), torch.tensor(Layer("lstm").data(B, T))
    start = torch.nn.Parameter(torch.zeros(H, B, 1, dtype=torch.float64))
    r.h, r.c = start, 0
    assert [name for name, _ in r.named_parameters()] == ["w"]
    r(x)
    r(x).sum().backward()
    assert start.grad.abs().sum() > 0
    assert r.h.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        r(x).sum().backward()
    r.h, r.c = r.h.detach(), r.c.detach()
    r(x).sum().backward()


def test_rnnforw_neither_reads_nor_changes_the_states_held():
    layer = Layer("lstm")
    r = layer.old(h=torch.ones(H, B, 1, dtype=torch.float64), c=0)
    held = r.h
    x = torch.tensor(layer.data(B, T))
    y, h, c, reserve = legacy.rnnforw(r, r.w, x)
    assert_same(layer.numpy(x.numpy())[0], y)
    assert h is c is reserve is None
    assert r.h is held
    assert r.c == 0
    given = layer.states(B)
    _, h, c, _ = legacy.rnnforw(r, r.w.detach(), x, *map(torch.tensor, given))
    assert_same(layer.numpy(x.numpy(), *given)[1:], (h, c))
    _, h, c, _ = legacy.rnnforw(r, r.w, x, torch.tensor(given[0]), hy=False, cy=True)
    assert h is None
    assert c.shape == (H, B, 1)
    for wrong in (r.w.clone(), r.w.flatten(), None):
        with pytest.raises(InvalidValueError, match=r"w is not r\.w"):
            legacy.rnnforw(r, wrong, x)
    with pytest.raises(InvalidTypeError, match="r is a Linear"):
        legacy.rnnforw(torch.nn.Linear(1, 1), r.w, x)


SIZES = {"relu": 14, "tanh": 14, "lstm": 56, "gru": 42}


def test_sizes_of_w(kind):
    assert legacy.RNN(3, 2, rnnType=kind).w.shape == (1, 1, SIZES[kind])
    skip = legacy.RNN(2, 2, rnnType=kind, skipInput=True)
    gates = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}[kind]
    assert skip.w.shape == (1, 1, gates * 2 * (2 + 2))


def test_published_offsets():
    """LSTM, X=3, H=2, two layers, both directions: 240 elements."""
    r = legacy.RNN(3, 2, numLayers=2, bidirectional=True)
    assert r.w.shape == (1, 1, 240)
    with torch.no_grad():
        r.w.copy_(torch.arange(240.0)[None, None])
    for place, offset, shape in (
        ((1, 1, 1), 0, (3, 2)),
        ((1, 5, 1), 24, (2, 2)),
        ((2, 1, 1), 40, (3, 2)),
        ((3, 1, 1), 80, (4, 2)),
        ((3, 5, 1), 112, (2, 2)),
        ((1, 1, 2), 176, (2,)),
        ((1, 5, 2), 184, (2,)),
        ((4, 8, 2), 238, (2,)),
    ):
        view = legacy.rnnparam(r, *place)
        assert view.shape == shape
        assert view.t().flatten().tolist() == list(range(offset, offset + view.numel()))


def test_w_is_the_cores_flat_layout(layer):
    r = layer.old()
    assert r.w.numel() == layout_of(r.descriptor).size
    for slot in layout_of(r.descriptor).slots:
        part = r.w.flatten()[slot.offset : slot.offset + slot.size]
        assert_same(layer.named[slot.name].ravel(), part)


def test_rnnparams_are_the_gates_of_torchs_matrices_transposed(layer):
    r = layer.old()
    expected = []
    for kind in ("weight", "bias"):
        for suffix in layer.suffixes:
            for side in ("ih", "hh"):
                whole = layer.named.get(f"{kind}_{side}{suffix}")
                gates = r.descriptor.gates
                parts = [None] * gates if whole is None else np.split(whole, gates)
                expected += [None if part is None else part.T for part in parts]
    assert_same(expected, legacy.rnnparams(r))
    assert_same(expected, legacy.rnnparams(r, r.w))
    assert_bitwise(legacy.rnnparam(r, 1, 2, 2), legacy.rnnparam(r, r.w, 1, 2, 2))


def test_parameters_are_live_views_that_gradients_flow_through():
    r = Layer("gru", 2).old()
    x = torch.tensor(Layer("gru").data(B, T))
    before = r(x)
    with torch.no_grad():
        legacy.rnnparam(r, 2, 6, 2).add_(1.0)
        legacy.rnnparam(r, 2, 4, 1)[1, 3] = 7.0
    assert not torch.equal(before, r(x))
    assert r.w.flatten()[-H:].tolist() == (Layer("gru", 2).named["bias_hh_l1"][-H:] + 1).tolist()
    legacy.rnnparam(r, 2, 4, 1)[1, 3].backward()
    place = r.w.grad.flatten().nonzero().item()
    assert r.w.flatten()[place] == 7
    assert_same(torch.tensor(1.0).double(), r.w.grad.sum())


@pytest.mark.parametrize(
    ("kind", "place", "name"),
    [
        ("lstm", (0, 1, 1), "layer"),
        ("lstm", (5, 1, 1), "layer"),
        ("lstm", (1, 9, 1), "id"),
        ("gru", (1, 7, 1), "id"),
        ("tanh", (1, 3, 1), "id"),
        ("relu", (1, 1, 3), "par"),
        ("relu", (1, 1, 0), "par"),
    ],
)
def test_wrong_places_are_refused(kind, place, name):
    r = legacy.RNN(3, 2, rnnType=kind, numLayers=2, bidirectional=True)
    with pytest.raises(InvalidValueError, match=rf"{name} is \d; expected a whole number from 1 to"):
        legacy.rnnparam(r, *place)
    with pytest.raises(InvalidTypeError, match="layer is a float"):
        legacy.rnnparam(r, 1.0, 1, 1)
    with pytest.raises(InvalidTypeError, match="6 arguments"):
        legacy.rnnparam(r, r.w, 1, 1, 1, 1)


def test_defaults_are_as_they_were():
    r, w = legacy.rnninit(3, 2)
    assert isinstance(r, legacy.RNN)
    assert w is r.w
    assert isinstance(w, torch.nn.Parameter)
    assert (r.h, r.c, r.inputSize, r.hiddenSize, r.numLayers) == (None, None, 3, 2, 1)
    assert (r.dropout, r.seed, r.inputMode, r.direction, r.algo) == (0, 0, 0, 0, 0)
    assert r.mode is legacy.CUDNN_LSTM
    assert r.dataType is torch.float32
    other = legacy.RNN(2, 2, rnnType="relu", skipInput=True, bidirectional=True, dtype=torch.float64)
    assert (other.inputMode, other.direction, other.dataType) == (1, 1, torch.float64)
    assert other.mode is legacy.CUDNN_RNN_RELU
    assert repr(r) == "RNN(RNNDescriptor('lstm', 3, 2))"


def test_initial_values_are_xavier_a_gate_zeros_and_ones():
    """Each gate's matrix is (in, H), so the bound is sqrt(6 / (in + H)), not that of the whole block."""
    r = legacy.RNN(30, 20, numLayers=2, bidirectional=True)
    for place, inputs in (((1, 1, 1), 30), ((2, 7, 1), 20), ((3, 4, 1), 40)):
        bound = (6 / (inputs + 20)) ** 0.5
        largest = legacy.rnnparam(r, *place).abs().max()
        assert 0.97 * bound < largest <= bound
    for layer in range(1, 5):
        for gate in range(1, 9):
            assert (legacy.rnnparam(r, layer, gate, 2) == (gate in (2, 6))).all()


def test_initial_values_come_from_the_functions_given_in_order():
    calls = []

    def record(name, value):
        def initial(dtype, size):
            calls.append((name, dtype, size))
            return torch.full(size, value, dtype=dtype)

        return initial

    r = legacy.RNN(
        3,
        2,
        winit=record("w", 2.0),
        binit=record("b", 3.0),
        finit=record("f", 4.0),
        dtype=torch.float64,
    )
    assert calls == [
        *[("w", torch.float64, (3, 2))] * 4,
        *[("w", torch.float64, (2, 2))] * 4,
        *[("b", torch.float64, (2,))] * 8,
        *[("f", torch.float64, (2,))] * 2,
    ]
    assert r.w.flatten()[:40].eq(2).all()
    assert [legacy.rnnparam(r, 1, i, 2)[0].item() for i in range(1, 9)] == [3, 4, 3, 3, 3, 4, 3, 3]
    with pytest.raises(InvalidValueError, match=r"winit gave shape \[1\]; expected .*\[3, 2\]"):
        legacy.RNN(3, 2, winit=lambda dtype, size: torch.ones(1))
    with pytest.raises(InvalidValueError, match="binit gave a float"):
        legacy.RNN(3, 2, binit=lambda dtype, size: 1.0)


def test_the_same_seed_of_torch_draws_the_same_weights():
    torch.manual_seed(7)
    one = legacy.RNN(3, 2)
    torch.manual_seed(7)
    assert_bitwise(one.w.detach(), legacy.RNN(3, 2).w.detach())


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rnnType": "LSTM"}, InvalidValueError, "rnnType is 'LSTM'; expected one of"),
        ({"algo": 7}, InvalidValueError, "algo is 7"),
        ({"algo": []}, InvalidValueError, "algo is"),
        ({"dropout": 1.5}, InvalidValueError, "dropout is 1.5"),
        ({"dropout": True}, InvalidValueError, "dropout is True"),
        ({"seed": -1}, InvalidValueError, "seed is -1"),
        ({"numLayers": 0}, InvalidValueError, "num_layers is 0"),
        ({"skipInput": True}, InvalidValueError, "skip"),
        ({"usegpu": True}, UnsupportedError, "usegpu is True; leave it out: device="),
        ({"dataType": torch.float64}, UnsupportedError, "leave it out: dtype="),
        ({"handle": 0}, UnsupportedError, "handle"),
        ({"atype": list}, UnsupportedError, "dtype= and device="),
    ],
)
def test_wrong_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        legacy.RNN(3, 2, **options)


def test_an_algorithm_that_nothing_here_has_is_refused():
    with pytest.raises(UnsupportedError, match="persist_static"):
        legacy.RNN(3, 2, algo=1)(torch.ones(3))


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (torch.ones(4, 5), InvalidValueError, r"\[4, 5\]; expected .* with X = 3: features first"),
        (torch.ones(()), InvalidValueError, "features first"),
        (torch.ones(3, 1, 1, 1), InvalidValueError, "features first"),
        ([1.0, 2.0, 3.0], InvalidTypeError, "x is a list"),
        (torch.ones(3).double(), InvalidTypeError, "float64"),
        (torch.ones(3).long(), InvalidTypeError, "int64"),
    ],
)
def test_wrong_inputs_are_refused(x, error, words):
    with pytest.raises(error, match=words):
        legacy.RNN(3, 2)(x)


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ([3, 4], InvalidValueError),
        ([4, 4], InvalidValueError),
        ([7, 0], InvalidValueError),
        ([], InvalidValueError),
        ([4.0, 3.0], InvalidTypeError),
        (7, InvalidTypeError),
        ("43", InvalidTypeError),
    ],
)
def test_wrong_batch_sizes_are_refused(sizes, error):
    with pytest.raises(error, match="batchSizes is"):
        legacy.RNN(3, 2)(torch.ones(3, 7), batchSizes=sizes)


def test_wrong_states_are_refused_and_the_one_held_is_kept():
    r = legacy.RNN(3, 2, bidirectional=True)
    x = torch.ones(3, 5, 4)
    held = torch.zeros(2, 5, 2)
    r.h, r.c = held, torch.zeros(2, 2, 5)
    with pytest.raises(InvalidValueError, match=r"c is of shape \[2, 2, 5\]; expected .*\(2, 5, 2\)"):
        r(x)
    assert r.h is held
    r.c = None
    for wrong in (1, 0.5, "0", [0], np.zeros(2)):
        r.h = wrong
        with pytest.raises(InvalidTypeError, match="h is"):
            r(x)
    r.h = held.double()
    with pytest.raises(InvalidTypeError, match="float64"):
        r(x)
    with pytest.raises(InvalidTypeError, match=r"h is a int"):
        legacy.rnnforw(r, r.w, x, 0)


def test_dropout_is_seeded_reproducible_and_leaves_torchs_numbers_alone():
    x = torch.ones(3, 5, 4)

    def calls(seed):
        r = legacy.RNN(3, 2, numLayers=2, dropout=0.5, seed=seed, winit=lambda t, s: torch.ones(s, dtype=t))
        return r(x), r(x)

    torch.manual_seed(1)
    one = calls(11)
    before = torch.get_rng_state()
    two = calls(11)
    assert_bitwise(one, two)
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(one[0], one[1])
    assert not torch.equal(one[0], calls(12)[0])
    torch.manual_seed(1)
    free = calls(0)
    torch.manual_seed(1)
    assert_bitwise(free, calls(0))
    assert not torch.equal(before, torch.get_rng_state())


def test_dropout_may_be_set_later():
    r = legacy.RNN(3, 2, numLayers=2, dropout=0.5)
    assert r.descriptor.dropout == 0.5
    r.dropout = 0
    assert r.descriptor.dropout == 0
    x = torch.ones(3, 5, 4)
    assert_bitwise(r(x), r(x))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])  # noqa: S301  # ours
def test_copies_hold_the_state_without_its_graph(copied):
    r = legacy.RNN(3, 2, h=0, c=0, numLayers=2, dropout=0.25, seed=3)
    x = torch.ones(3, 5, 4)
    r(x)
    other = copied(r)
    assert not other.h.requires_grad
    assert other.h.data_ptr() != r.h.data_ptr()
    assert_bitwise(r.h.detach(), other.h)
    with torch.no_grad():
        assert_bitwise(r(x), other(x))
    assert_bitwise(r(x), other(x))
    assert (other.seed, other.dropout) == (3, 0.25)


def test_moving_takes_the_state_along():
    r = legacy.RNN(3, 2, h=0)
    x = torch.ones(3, 5, 4)
    r(x)
    r.double()
    assert r.h.dtype == r.w.dtype == torch.float64
    assert r(x.double()).dtype == torch.float64
    assert list(r.state_dict()) == ["w"]


def test_autocast_was_unknown():
    r, x = legacy.RNN(3, 2), torch.randn(3, 5, 4)
    expected = r(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_bitwise(expected, r(x))


def test_the_successor_computes_the_same_and_its_code_is_printed(layer, capsys):
    r = layer.old()
    new = r.to_new()
    (line,) = capsys.readouterr().out.splitlines()
    scope = {}
    exec(f"import torch, rnncompat\n{line}", scope)  # noqa: S102  # the point is that it runs
    scope["layer"].load_state_dict(new.state_dict())
    x = torch.tensor(layer.data(B, T))
    for module in (new, scope["layer"]):
        output, _ = module(x.permute(2, 1, 0))
        assert_same(r(x), output.permute(2, 1, 0))
    assert new.weight_hh_l0.data_ptr() != r.w.data_ptr()


def test_the_successor_says_what_it_leaves_out(capsys):
    new = legacy.RNN(3, 2, numLayers=2, dropout=0.5, bidirectional=True).to_new()
    assert capsys.readouterr().out.splitlines() == [
        "# The old call also dropped its input: torch.nn.Dropout(0.5).",
        "layer = rnncompat.LSTM(3, 2, num_layers=2, dropout=0.5, bidirectional=True)",
    ]
    assert new.dropout == 0.5
    assert new.training
    assert not legacy.RNN(3, 2).eval().to_new().training


def test_empty_batches_and_sequences_work(kind):
    r = legacy.RNN(3, 2, rnnType=kind, h=0)
    assert r(torch.ones(3, 0, 4)).shape == (2, 0, 4)
    r.h = 0
    assert r(torch.ones(3, 5, 0)).shape == (2, 5, 0)
    assert not r.h.any()
