"""The cell style against NumPy, finite differences, and one step at a time; and its life as torch modules."""

from __future__ import annotations

import copy
import io
import math
import pickle
from unittest import mock

import numpy as np
import numpy_step
import pytest
import torch
from cases import examples
from compare import assert_bitwise, assert_same
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

from rnncompat import InvalidTypeError, InvalidValueError, UnsupportedError, legacy
from rnncompat.legacy import flux
from rnncompat.legacy.flux import cell as flux_cell
from rnncompat.versions import TORCH_RELEASE

MODES = ["relu", "tanh", "lstm", "gru"]
I, H, B, T = 3, 5, 4, 7


def make_cell(mode):
    with legacy.legacy_warnings("quiet"):
        made = {
            "relu": lambda: legacy.RNNCell(I, H, torch.relu),
            "tanh": lambda: legacy.RNNCell(I, H),
            "lstm": lambda: legacy.LSTMCell(I, H),
            "gru": lambda: legacy.GRUCell(I, H),
        }[mode]()
    return made.double()


class Case:
    """A cell with random weights and initial state, data for it, and both as NumPy arrays."""

    def __init__(self, mode, seed=0):
        rng = np.random.default_rng(seed)
        self.mode, self.cell = mode, make_cell(mode)
        with torch.no_grad():
            for parameter in self.cell.parameters():
                parameter.copy_(torch.tensor(rng.normal(size=parameter.shape)))
        self.weights = [w.detach().numpy() for w in (self.cell.Wi, self.cell.Wh, self.cell.b)]
        self.h = self.cell.h.detach().numpy()
        self.c = self.cell.c.detach().numpy() if mode == "lstm" else None
        self.xs, self.dys = rng.normal(size=(T, I, B)), rng.normal(size=(T, H, B))

    @property
    def names(self):
        return ["Wi", "Wh", "b", "h", "c"][: 5 if self.mode == "lstm" else 4]

    def numpy(self):
        ys, c, dweights, dh, dc, dxs = numpy_step.through_time(
            self.mode, *self.weights, self.xs, self.h, self.c, self.dys
        )
        gradients = [*dweights.values(), dh, dc][: len(self.names)]
        return ys, ys[-1] if c is None else (ys[-1], c), gradients, dxs

    def recur(self):
        with legacy.legacy_warnings("quiet"):
            return legacy.Recur(self.cell)

    def gradients(self, ys, xs):
        """Of the outputs times dys, for the parameters and for the inputs."""
        wanted = [getattr(self.cell, name) for name in self.names]
        cotangents = [torch.tensor(dy) for dy in self.dys]
        result = torch.autograd.grad(list(ys), [*wanted, *xs], cotangents)
        return list(result[: len(wanted)]), list(result[len(wanted) :])


def leaves(arrays):
    return [torch.tensor(a, requires_grad=True) for a in arrays]


@examples(40)
@given(st.sampled_from(MODES), st.integers(0, 2**31))
def test_steps_through_time(mode, seed):
    case = Case(mode, seed)
    ys, state, gradients, dxs = case.numpy()
    xs = leaves(case.xs)
    with legacy.legacy_warnings("quiet"):
        m = case.recur()
        found = [m(x) for x in xs]
    assert_same(list(ys), found)
    assert_same(state, m.state)
    of_parameters, of_inputs = case.gradients(found, xs)
    assert_same(gradients, of_parameters)
    assert_same(list(dxs), of_inputs)


@examples(40)
@given(st.sampled_from(MODES), st.integers(0, 2**31))
def test_a_whole_sequence(mode, seed):
    case = Case(mode, seed)
    ys, state, gradients, dxs = case.numpy()
    x = torch.tensor(np.stack(case.xs, 2), requires_grad=True)
    with legacy.legacy_warnings("quiet"):
        m = case.recur()
        y = m(x)
    assert y.shape == (H, B, T)
    assert_same(np.stack(ys, 2), y, 1e-12)
    assert_same(state, m.state, 1e-12)
    of_parameters, (dx,) = case.gradients(y.unbind(2), [x])
    assert_same(gradients, of_parameters)
    assert_same(np.stack(dxs, 2), dx)


@pytest.mark.parametrize("mode", MODES)
def test_a_whole_sequence_is_one_call_and_steps_go_on_from_it(mode):
    case = Case(mode)
    ys, state, _, _ = case.numpy()
    with torch.no_grad(), mock.patch.object(flux_cell, "rnn_forward", wraps=flux_cell.rnn_forward) as whole:
        m = nn.Sequential(case.recur())
        first = m(torch.tensor(np.stack(case.xs[:4], 2)))
        second = m(torch.tensor(case.xs[4]))
        third = m(torch.tensor(np.stack(case.xs[5:], 2)))
        assert whole.call_count == 2
        chain = flux.Chain(case.recur(), flux.LSTM(H, 2).double(), flux.GRU(2, 6).double())
        assert chain(torch.tensor(np.stack(case.xs, 2))).shape == (6, B, T)
        assert whole.call_count == 2 + 3
    assert_same(np.stack(ys, 2), torch.cat([first, second[..., None], third], 2), 1e-12)
    assert_same(state, m[0].state, 1e-12)


def test_no_steps_leave_the_state_as_no_calls_do():
    m = Case("lstm").recur()
    assert m(torch.zeros(I, B, 0)).shape == (H, B, 0)
    assert m.state[1] is m.cell.c
    assert m(torch.zeros(I, 0)).shape == (H, 0)
    assert m.state[1].shape == (H, 0)


SHAPES = {
    "vector": ((I,), (H,)),
    "batch": ((I, B), (H, B)),
    "shared": ((I, B), (H,)),
    "one": ((I, B), (H, 1)),
}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("mode", [*MODES, "sin"])
def test_gradients_are_finite_differences(mode, shapes):
    torch.manual_seed(1)
    cell = legacy.RNNCell(I, H, torch.sin).double() if mode == "sin" else make_cell(mode)
    x_shape, h_shape = SHAPES[shapes]
    x = torch.randn(x_shape, dtype=torch.float64, requires_grad=True)
    state = [torch.randn(h_shape, dtype=torch.float64, requires_grad=True) for _ in cell.states]
    weights = [cell.Wi, cell.Wh, cell.b]

    def call(x, *rest):
        after, y = cell(tuple(rest[:2]) if mode == "lstm" else rest[0], x)
        return (y, *after) if mode == "lstm" else (y, after)

    assert torch.autograd.gradcheck(call, (x, *state, *weights))


@pytest.mark.parametrize("mode", ["lstm", "gru", "sin"])
def test_gradients_of_a_sequence_are_finite_differences(mode):
    m = flux.RNN(I, H, torch.sin).double() if mode == "sin" else Case(mode).recur()
    parameters = list(m.parameters())
    x = torch.randn(I, 2, 3, dtype=torch.float64, requires_grad=True)

    def call(x, *_):
        flux.reset(m)
        return m(x), *(m.state if mode == "lstm" else (m.state,))

    assert torch.autograd.gradcheck(call, (x, *parameters))


def test_another_function_takes_the_plain_formula():
    cell = legacy.RNNCell(I, H, torch.nn.functional.softplus).double()
    x, h = torch.randn(I, B).double(), torch.randn(H).double()
    after, y = cell(h, x)
    wi, wh, b = (w.detach().numpy() for w in (cell.Wi, cell.Wh, cell.b))
    expected = np.log1p(np.exp(wi @ x.numpy() + (wh @ h.numpy() + b)[:, None]))
    assert_same([expected] * 2, [y, after])
    assert y.data_ptr() != after.data_ptr()
    m = legacy.Recur(cell)
    xs = torch.randn(I, B, T).double()
    steps = [m(x) for x in xs.unbind(2)]
    kept = m.state
    flux.reset(m)
    assert_bitwise(torch.stack(steps, 2), m(xs))
    assert_bitwise(kept, m.state)
    assert "softplus" in repr(cell)


def test_a_function_with_weights_of_its_own_is_trained():
    m = flux.RNN(I, H, nn.PReLU())
    assert "cell.σ.weight" in m.state_dict()
    m(torch.ones(I)).sum().backward()
    assert m.cell.σ.weight.grad is not None


def test_fresh_cells_are_glorots_with_a_forget_bias_of_one():
    torch.manual_seed(3)
    cell = legacy.LSTMCell(30, 50)
    shapes = {name: tuple(p.shape) for name, p in cell.named_parameters()}
    assert shapes == {"Wi": (200, 30), "Wh": (200, 50), "b": (200,), "h": (50,), "c": (50,)}
    assert {p.dtype for p in cell.parameters()} == {torch.float32}
    for values, fans in ((cell.Wi, 230), (cell.Wh, 250), (cell.b[:50], 201), (cell.b[100:], 201)):
        bound = math.sqrt(6 / fans)
        assert 0.9 * bound < values.abs().max() <= bound
        assert values.min() < 0 < values.max()
    assert (cell.b[50:100] == 1).all()
    assert not cell.h.any()
    assert not cell.c.any()
    torch.manual_seed(3)
    assert_bitwise(list(cell.parameters()), list(legacy.LSTMCell(30, 50).parameters()))


def test_init_makes_the_weights():
    sizes = []

    def init(*shape):
        sizes.append(shape)
        return torch.full(shape, 2.0, dtype=torch.float64)

    cell = legacy.GRUCell(I, H, init)
    assert sizes == [(15, 3), (15, 5), (15,)]
    assert cell.h.dtype == torch.float64
    assert (legacy.LSTMCell(I, H, init).b == torch.tensor([2.0, 1.0, 2.0, 2.0]).repeat_interleave(H)).all()


@pytest.mark.parametrize("sizes", [(0, 5), (3, -1), (3, 2.5), ("3", 5)])
def test_sizes_are_checked(sizes):
    for make in (legacy.RNNCell, legacy.LSTMCell, legacy.GRUCell, flux.RNN, flux.LSTM, flux.GRU):
        with pytest.raises((InvalidValueError, InvalidTypeError), match=r"_size is"):
            make(*sizes)
    with pytest.raises(InvalidTypeError, match="σ is a str"):
        legacy.RNNCell(3, 5, "tanh")


@pytest.mark.parametrize(
    ("x", "text"),
    [
        ([1.0, 2.0, 3.0], "x is a list; expected a tensor"),
        (torch.ones(3, dtype=torch.complex64), "x is torch.complex64"),
        (torch.ones(()), r"x is of shape \[\]; expected \(3,\), \(3, B\)"),
        (torch.ones(4, 3), r"x is of shape \[4, 3\]; .*features first"),
        (torch.ones(3, 4, 5, 6), r"x is of shape \[3, 4, 5, 6\]"),
    ],
)
def test_wrong_inputs_are_refused_and_the_state_stays(x, text):
    m = flux.GRU(3, 5)
    m(torch.ones(3, 2))
    before = m.state
    with pytest.raises((InvalidTypeError, InvalidValueError), match=text):
        m(x)
    assert m.state is before


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ((torch.zeros(5), None), "c is a NoneType"),
        (torch.zeros(5), r"state is a Tensor; expected a pair \(h, c\)"),
        ((torch.zeros(4), torch.zeros(5)), r"h is of shape \[4\]; expected \(5,\) or \(5, B\)"),
        ((torch.zeros(5), torch.zeros(5, 3)), r"c is of shape \[5, 3\], left by another batch"),
    ],
)
def test_wrong_states_are_refused(state, text):
    with pytest.raises((InvalidTypeError, InvalidValueError), match=text):
        legacy.LSTMCell(3, 5)(state, torch.ones(3, 2))


def test_a_state_of_a_model_moved_by_hand_is_refused():
    with pytest.raises(InvalidTypeError, match=r"h is torch.float64 on cpu; expected torch.float32"):
        legacy.GRUCell(3, 5)(torch.zeros(5).double(), torch.ones(3))


def test_wrong_weights_are_refused():
    m = flux.GRU(3, 5)
    m.cell.Wi = nn.Parameter(m.cell.Wi.detach().t().contiguous())
    with pytest.raises(InvalidValueError):
        m(torch.ones(3))


def test_recur_takes_any_cell_with_a_state():
    """The example of the old documentation: an accumulator."""
    m = legacy.Recur(lambda h, x: (h + x, x), 0)
    assert [m(x) for x in (2, 3)] == [2, 3]
    assert [m(x) for x in range(1, 11)] == list(range(1, 11))
    assert m.state == 60
    legacy.reset(m)
    assert (m.state, m.init) == (0, 0)
    assert legacy.Recur(lambda h, x: (h + x, x), 0, 5).state == 5
    with pytest.raises(InvalidTypeError, match="cell is a int"):
        legacy.Recur(3, 0)
    with pytest.raises(InvalidTypeError, match="init is missing, and cell is a function"):
        legacy.Recur(lambda h, x: (h, x))


def test_an_initial_state_given_by_hand_is_trained_and_moves():
    trained = nn.Parameter(torch.ones(H))
    m = legacy.Recur(legacy.LSTMCell(I, H), (trained, torch.zeros(H)))
    m(torch.ones(I, B)).sum().backward()
    assert trained.grad.shape == (H,)
    assert any(p is trained for p in m.parameters())
    m.double()
    assert [s.dtype for s in m.init] == [torch.float64] * 2
    assert m(torch.ones(I)).dtype == torch.float64
    assert legacy.Recur(lambda h, x: (h * x, x), torch.ones(2)).init.shape == (2,)


def test_the_state_may_be_set_also_to_a_parameter():
    m = flux.GRU(I, H)
    m(torch.ones(I, B))
    m.state = m.cell.h
    assert m(torch.ones(I)).shape == (H,)
    m.state = torch.ones(H, 2)
    assert m(torch.ones(I, 2)).shape == (H, 2)
    assert [name for name, _ in m.named_parameters()] == ["cell.Wi", "cell.Wh", "cell.b", "cell.h"]


def test_reset_reaches_whatever_holds_a_recur():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(flux.LSTM(I, H), nn.Tanh())

    model, extra = Model(), flux.GRU(I, H)
    chain = flux.Chain(model.inner, lambda h: h)
    for reset in (legacy.reset, flux.reset_b):
        for m in (model.inner, extra):
            m(torch.ones(I, B))
        assert reset({"model": model, "more": [chain, (extra,)]}) is None
        assert extra.state is extra.cell.h
        assert model.inner[0].state == (model.inner[0].cell.h, model.inner[0].cell.c)
    with pytest.raises(InvalidTypeError, match="m is a function"):
        legacy.reset(lambda h: h)


def test_chain_holds_functions_and_can_be_sliced():
    m = flux.Chain(flux.RNN(I, H), torch.exp, nn.Tanh())
    x = torch.ones(I)
    first = m[:1](x)
    legacy.reset(m)
    assert_bitwise(first.exp().tanh(), m(x))
    assert "exp" in repr(m)
    with pytest.raises(InvalidTypeError, match="layer 1 is a int"):
        flux.Chain(m, 3)


@pytest.mark.parametrize("mode", MODES)
def test_copies_and_files_keep_the_state_and_no_graph(mode):
    m = Case(mode).recur()
    x = torch.ones(I, B).double()
    m(x)
    stream = io.BytesIO()
    torch.save(m.state_dict(), stream)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):  # noqa: S301  # our own bytes
        assert not any(s.requires_grad for s in (other.state if mode == "lstm" else [other.state]))
        assert other.cell is not m.cell
        assert_bitwise(m.state, other.state)
    fresh = legacy.Recur(make_cell(mode))
    fresh.load_state_dict(torch.load(io.BytesIO(stream.getvalue()), weights_only=True))
    legacy.reset(m)
    assert_bitwise(m(x), fresh(x))


def test_training_reaches_the_initial_state_too():
    m = flux.Chain(flux.LSTM(I, H), flux.GRU(H, 2))
    before = copy.deepcopy(m.state_dict())
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for _ in range(2):
        legacy.reset(m)
        m(torch.ones(I, B, T)).sum().backward()
        optimizer.step()
    assert not [name for name, value in m.state_dict().items() if torch.equal(value, before[name])]


def test_hooks_of_the_cell_run():
    """Pruning and weight norm set a weight in a hook before each call."""
    m = flux.GRU(I, H)
    plain = copy.deepcopy(m)
    prune.l1_unstructured(m.cell, "Wi", amount=10)
    with torch.no_grad():
        m.cell.Wi_orig.fill_(5)
        plain.cell.Wi.copy_(5 * m.cell.Wi_mask)
    assert_bitwise(plain(torch.ones(I)), m(torch.ones(I)))


def test_autocast_changes_nothing():
    for m in (flux.LSTM(I, H), flux.RNN(I, H, torch.sin)):
        x = torch.ones(I, B)
        expected = [m(x), m(torch.ones(I, B, T))]
        legacy.reset(m)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_bitwise(expected, [m(x), m(torch.ones(I, B, T))])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("batch", [None, B])
def test_to_new_prints_the_line_and_gives_the_same_numbers(mode, batch, capsys):
    case = Case(mode)
    m = case.recur()
    if batch:
        m(torch.tensor(case.xs[0]))
    new, state = m.to_new("layer")
    code = capsys.readouterr().out
    scope = {"rnncompat": __import__("rnncompat"), "torch": torch}
    exec(code, scope)  # noqa: S102  # it is what a user does with it
    assert repr(scope["layer"]) == repr(new)
    assert "bias='input'" in code
    x = torch.tensor(np.stack(case.xs, 2))
    output, after = new(x.permute(2, 1, 0), state)
    assert_same(m(x).detach(), output.permute(2, 1, 0).detach())
    expected = m.state if mode == "lstm" else (m.state,)
    found = after if mode == "lstm" else (after,)
    assert_same([s.t()[None].detach() for s in expected], [s.detach() for s in found])
    with torch.no_grad():
        new.weight_ih_l0.zero_()
    assert m.cell.Wi.any()


def test_to_new_refuses_what_the_core_has_not():
    with pytest.raises(UnsupportedError, match="σ is"):
        flux.RNN(I, H, torch.sin).to_new()
    with pytest.raises(UnsupportedError, match="cell is a function"):
        legacy.Recur(lambda h, x: (h, x), 0).to_new()


@torch.no_grad()  # dynamo itself warns where a module holds a tensor with a graph
def test_compiled_steps_and_sequences():
    m = nn.Sequential(flux.LSTM(I, H), flux.GRU(H, 2))
    x, xs = torch.randn(I, B), torch.randn(I, B, T)

    def call(x):
        return m(x)

    expected = [call(x), call(x), call(xs)]
    state = m[0].state
    legacy.reset(m)
    compiled = torch.compile(call, fullgraph=TORCH_RELEASE >= (2, 6), backend="eager")
    assert_same(expected, [compiled(x), compiled(x), compiled(xs)], 1e-6)
    assert_same(state, m[0].state, 1e-6)
