"""The modules against ``torch.nn``: signatures, initial values, results, gradients, state_dict, and our options."""

from __future__ import annotations

import copy
import inspect
import warnings

import pytest
import torch
from compare import assert_bitwise, assert_same
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNState,
    RNNWeights,
    SequenceBatch,
    UnsupportedError,
    rnn_forward,
    rnn_step,
)
from rnncompat.modules import GRU, LSTM, RNN

T, B, I, H, P = 6, 5, 2, 4, 3
LENGTHS = [4, 6, 1, 4, 3]
PAIRS = {
    "tanh": (RNN, nn.RNN, {}),
    "relu": (RNN, nn.RNN, {"nonlinearity": "relu"}),
    "lstm": (LSTM, nn.LSTM, {}),
    "projected": (LSTM, nn.LSTM, {"proj_size": P}),
    "gru": (GRU, nn.GRU, {}),
}
OURS = [
    (RNN, {"bias": "input"}),
    (GRU, {"bias": "recurrent", "num_layers": 2}),
    (GRU, {"input_mode": "skip", "bidirectional": True}),
    (LSTM, {"cell_clip": (-0.1, 0.2), "num_layers": 2}),
    (LSTM, {"bias": "none", "input_mode": "skip", "proj_size": P}),
]


def pair(kind, **options):
    """Our module and torch's with the same weights, in float64."""
    ours, theirs, more = PAIRS[kind]
    options = {**options, **more, "dtype": torch.float64}
    torch.manual_seed(3)
    expected = theirs(I, H, **options)
    torch.manual_seed(3)
    return ours(I, H, **options), expected


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def leaves(module, *axes):
    """A random initial state of leaves, as *module* takes it."""
    rows = (module.num_layers * (2 if module.bidirectional else 1), *axes)
    h = normal(*rows, module.proj_size or H).requires_grad_()
    return (h, normal(*rows, H).requires_grad_()) if module.mode == "LSTM" else h


def flat(value):
    """The tensors of a result in order, whatever it is nested in."""
    if isinstance(value, PackedSequence):
        return [value.data]
    return [value] if isinstance(value, torch.Tensor) else [t for part in value for t in flat(part)]


def gradients(module, x, state):
    """Result and gradients by x, the state and each parameter, for a loss that weighs every value differently."""
    results = flat(module(x, state))
    torch.manual_seed(9)
    loss = sum((result * torch.randn_like(result)).sum() for result in results)
    inputs = [*flat(x), *flat(state), *module.parameters()]
    return results, torch.autograd.grad(loss, inputs)


def given_input(kind, batch_first):
    if kind == "unbatched":
        return normal(T, I).requires_grad_(), ()
    x = normal(T, B, I)
    if kind == "packed":
        packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        return packed._replace(data=packed.data.requires_grad_()), (B,)
    return (x.transpose(0, 1) if batch_first else x).clone().requires_grad_(), (B,)


@pytest.mark.parametrize("given", ["padded", "packed", "unbatched"])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", PAIRS)
def test_results_states_and_gradients_are_those_of_torch_nn(
    kind, layers, bidirectional, bias, batch_first, given
):
    options = {"num_layers": layers, "bidirectional": bidirectional, "bias": bias, "batch_first": batch_first}
    ours, theirs = pair(kind, **options)
    x, axes = given_input(given, batch_first)
    state = leaves(theirs, *axes)
    assert_same(gradients(theirs, x, state), gradients(ours, x, state))
    assert_same(flat(theirs(x)), flat(ours(x)))
    assert isinstance(ours(x)[0], type(x))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", PAIRS)
def test_a_seed_gives_the_parameters_of_torch_nn(kind, bias, bidirectional):
    ours, theirs = pair(kind, num_layers=2, bias=bias, bidirectional=bidirectional)
    assert list(theirs.state_dict()) == list(ours.state_dict())
    assert_bitwise(list(theirs.parameters()), list(ours.parameters()))
    assert_bitwise(theirs.all_weights, ours.all_weights)
    for module in (ours, theirs):
        torch.manual_seed(5)
        module.reset_parameters()
    assert_bitwise(list(theirs.parameters()), list(ours.parameters()))


@pytest.mark.parametrize("kind", PAIRS)
def test_state_dicts_load_strictly_both_ways(kind):
    ours, theirs = pair(kind, num_layers=2)
    for source, target in ((ours, theirs), (theirs, ours)):
        source.reset_parameters()
        target.load_state_dict(source.state_dict(), strict=True)
        assert_bitwise(list(source.parameters()), list(target.parameters()))
    with pytest.raises(RuntimeError, match="weight_hh_l1"):
        ours.load_state_dict({k: v for k, v in theirs.state_dict().items() if k != "weight_hh_l1"})


@pytest.mark.parametrize("kind", PAIRS)
def test_copies_from_and_to_torch_keep_everything(kind):
    _, theirs = pair(kind, num_layers=2, batch_first=True, dropout=0.25, bias=False)
    theirs.eval().weight_hh_l1.requires_grad_(False)
    before = torch.get_rng_state()
    ours = PAIRS[kind][0].from_torch(theirs)
    back = ours.to_torch()
    assert torch.equal(before, torch.get_rng_state())
    assert type(back) is type(theirs)
    assert repr(ours) == repr(back) == repr(theirs)
    for copied in (ours, back):
        assert not copied.training
        assert (copied.mode, copied.dropout, copied.bias) == (theirs.mode, 0.25, False)
        for (name, value), source in zip(copied.named_parameters(), theirs.parameters(), strict=True):
            assert_bitwise(source, value)
            assert value.requires_grad == source.requires_grad, name
            assert value.data_ptr() != source.data_ptr()
    x = normal(B, T, I)
    assert_same(flat(theirs(x)), flat(back(x)))
    assert not PAIRS[kind][0].from_torch(theirs.train()).eval().training
    assert PAIRS[kind][0].from_torch(theirs.half()).weight_hh_l0.dtype == torch.float16


def test_what_torch_lacks_is_not_converted():
    for module, word in (
        (GRU(I, H, bias="input"), "bias is 'input'"),
        (GRU(H, H, input_mode="skip"), "input_mode is 'skip'"),
        (LSTM(I, H, cell_clip=(-1, 1)), "cell_clip is"),
    ):
        with pytest.raises(UnsupportedError, match=word):
            module.to_torch()
    with pytest.raises(InvalidTypeError, match=r"module is a GRU; expected a torch.nn.LSTM"):
        LSTM.from_torch(nn.GRU(I, H))


@pytest.mark.parametrize(("cls", "options"), OURS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_our_options_are_those_of_rnn_forward(cls, options, batch_first):
    size = H if "input_mode" in options else I
    module = cls(size, H, batch_first=batch_first, dtype=torch.float64, **options)
    weights = RNNWeights.from_named(module.descriptor, module.state_dict())
    x = normal(T, B, size)
    flags, real = torch.rand(T, B) < 0.3, torch.rand(T, B) < 0.7
    if batch_first:
        x, flags, real = x.transpose(0, 1), flags.t(), real.t()
    state = leaves(module, B)
    for more in (
        {"lengths": LENGTHS, "padding_value": -7.5},
        {"mask": real, "return_states": "all"},
        {"resets": flags, "reset_to": "initial", "backend": "reference"},
    ):
        output, after = rnn_forward(module.descriptor, weights, x, state, batch_first=batch_first, **more)
        expected = (output, tuple(after) if module.descriptor.has_cell_state else after.h)
        assert_bitwise(expected, module(x, state, **more))
    with pytest.raises(UnsupportedError, match="algorithm"):
        module(x, algorithm="persist_static", backend="reference")


def test_every_kind_of_input_comes_back_as_it_went_in():
    module = GRU(I, H, bidirectional=True, batch_first=True, dtype=torch.float64)
    x = normal(B, T, I)
    rows = [row[:n] for row, n in zip(x, LENGTHS, strict=True)]
    padded, h = module(x, lengths=LENGTHS)
    listed, h_list = module(rows)
    batch, h_batch = module(SequenceBatch.from_list(rows))
    assert_same([row[:n] for row, n in zip(padded, LENGTHS, strict=True)], listed)
    assert_same(padded.transpose(0, 1), batch.to_padded())
    assert_same([h, h], [h_list, h_batch])
    assert h.shape == (2, B, H)


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_steps_are_the_sequence_one_by_one(kind, batch_first):
    module, _ = pair(kind, num_layers=2, batch_first=batch_first)
    x = normal(T, B, I)
    whole, final = module(x.transpose(0, 1) if batch_first else x)
    state, outputs = None, []
    for x_t in x:
        y, state = module.step(x_t, state)
        outputs.append(y)
    assert type(state) is type(final)
    assert_same([whole, *flat(final)], [torch.stack(outputs, int(batch_first)), *flat(state)])
    weights = RNNWeights.from_named(module.descriptor, module.state_dict())
    y, after = rnn_step(module.descriptor, weights, x[0, 0])
    assert_bitwise((y, after.h), (module.step(x[0, 0])[0], flat(module.step(x[0, 0])[1])[0]))


def test_a_step_sees_what_hooks_compute():
    """Pruning computes the weight in a hook of the call, which a step does not go through."""
    module = prune.custom_from_mask(RNN(I, H, dtype=torch.float64), "weight_hh_l0", torch.rand(H, H) < 0.5)
    with torch.no_grad():
        module.weight_hh_l0_orig.add_(1)
    x, h = torch.randn(1, B, I, dtype=torch.float64), torch.randn(1, B, H, dtype=torch.float64)
    stepped = module.step(x[0], h)[0]
    assert_same(module(x, h)[0][0], stepped)
    assert module.step(x[0])[0].grad_fn is not None


def test_the_lstm_returns_a_state_that_unpacks_and_the_others_the_tensor():
    x = torch.randn(T, B, I)
    output, (h, c) = LSTM(I, H, proj_size=P)(x)
    assert isinstance(LSTM(I, H)(x)[1], RNNState)
    assert (output.shape, h.shape, c.shape) == ((T, B, P), (1, B, P), (1, B, H))
    assert isinstance(GRU(I, H)(x)[1], torch.Tensor)
    assert RNN(I, H, num_layers=2)(x, return_states="all")[1].shape == (T, 2, B, H)


@pytest.mark.parametrize("kind", PAIRS)
def test_dropout_acts_in_training_only_and_draws_torchs_masks(kind):
    ours, theirs = pair(kind, num_layers=3, dropout=0.4)
    x = normal(T, B, I)
    for module in (ours, theirs):
        torch.manual_seed(7)
        module.seen = module(x)[0]
    assert_same(theirs.seen, ours.seen)
    assert not torch.equal(ours.seen, ours(x)[0])
    assert_same(theirs.eval()(x)[0], ours.eval()(x)[0])
    plain, _ = pair(kind, num_layers=3)
    assert_same(plain(x)[0], ours(x)[0])
    first = ours.train().step(x[0])[0]
    assert not torch.equal(first, ours.step(x[0])[0])


@pytest.mark.parametrize("given", ["padded", "packed"])
@pytest.mark.parametrize("kind", PAIRS)
def test_what_is_frozen_or_in_eval_still_hands_gradients_on(kind, given):
    """A frozen network inside a trained one: gradients for its input and state; and with some weights frozen."""
    ours, theirs = pair(kind, num_layers=2, dropout=0.5)
    x, axes = given_input(given, False)
    state = leaves(theirs, *axes)
    for names in ([], ["weight_hh_l0", "bias_ih_l1"]):
        found = []
        for module in (theirs.eval(), ours.eval()):
            for name, parameter in module.named_parameters():
                parameter.requires_grad_(name in names)
            inputs = [*flat(x), *flat(state), *(module.get_parameter(name) for name in names)]
            total = sum((t * t).sum() for t in flat(module(x, state)))
            found.append(torch.autograd.grad(total, inputs))
        assert_same(*found)


@pytest.mark.parametrize("kind", PAIRS)
def test_the_first_arguments_are_torchs_in_torchs_order(kind):
    ours, theirs, _ = PAIRS[kind]
    positional = {
        nn.RNN: (I, H, 2, "relu", False, True, 0.5, True),
        nn.LSTM: (I, H, 2, False, True, 0.5, True, P),
        nn.GRU: (I, H, 2, False, True, 0.5, True),
    }[theirs]
    ours = ours(*positional, "cpu", torch.float64)
    # torch 1.13 takes nonlinearity by keyword only.
    given = dict(zip(inspect.signature(type(ours)).parameters, positional, strict=False))
    theirs = theirs(**given, dtype=torch.float64)
    assert repr(theirs) == repr(ours)
    for name in given:
        assert getattr(theirs, name) == getattr(ours, name)
    assert ours.mode == theirs.mode
    assert [tuple(p.shape) for p in theirs.parameters()] == [tuple(p.shape) for p in ours.parameters()]
    assert ours.weight_hh_l0.dtype == torch.float64


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(LSTM(I, H)) == repr(nn.LSTM(I, H)) == "LSTM(2, 4)"
    shown = repr(LSTM(H, H, bias="input", input_mode="skip", cell_clip=(-1, 1), proj_size=3))
    assert shown == "LSTM(4, 4, proj_size=3, bias='input', input_mode='skip', cell_clip=(-1.0, 1.0))"
    assert GRU(I, H, bias="double").bias is True
    assert GRU(I, H, bias="recurrent").bias == "recurrent"
    assert RNN(I, H, nonlinearity="relu").nonlinearity == "relu"


def test_errors_name_the_argument():
    for call, error, words in (
        (lambda: LSTM(0, H), InvalidValueError, "input_size is 0"),
        (lambda: LSTM(I, H, proj_size=H), InvalidValueError, "proj_size is 4"),
        (lambda: GRU(I, H, batch_first=1), InvalidTypeError, "batch_first is a int"),
        (lambda: GRU(I, H, bias="both"), InvalidValueError, "bias is 'both'"),
        (lambda: GRU(I, H, input_mode="skip"), InvalidValueError, "input_mode is 'skip'"),
        (lambda: RNN(I, H, nonlinearity="elu"), InvalidValueError, "nonlinearity is 'elu'"),
        (lambda: GRU(I, H)(torch.zeros(T, B, H)), InvalidValueError, r"x is of shape \[6, 5, 4\]"),
        (lambda: GRU(I, H)(torch.zeros(T, B, I).double()), InvalidTypeError, "x is torch.float64"),
        (lambda: LSTM(I, H)(torch.zeros(T, B, I), torch.zeros(1, B, H)), InvalidTypeError, "state is a"),
        (lambda: GRU(I, H)(torch.zeros(T, B, I), torch.zeros(B, 1, H)), InvalidValueError, "state.h is"),
        (lambda: GRU(I, H)(torch.zeros(T, B, I), backend="fast"), InvalidValueError, "backend is 'fast'"),
        (lambda: GRU(I, H).step(torch.zeros(T, B, I)), InvalidValueError, "x_t is of shape"),
        (
            lambda: GRU(I, H, bidirectional=True).step(torch.zeros(B, I)),
            UnsupportedError,
            "bidirectional",
        ),
    ):
        with pytest.raises(error, match=words):
            call()
    with pytest.raises(TypeError, match="proj_size"):
        GRU(I, H, proj_size=P)
    with pytest.raises(AttributeError, match="dropout"):
        GRU(I, H).dropout = 0.5
    with pytest.warns(UserWarning, match="num_layers is 1"):
        GRU(I, H, dropout=0.5)


def test_modules_work_inside_others_and_on_meta():
    model = nn.ModuleDict({"encoder": LSTM(I, H), "decoder": GRU(H, H)})
    other = copy.deepcopy(model)
    other.load_state_dict(model.state_dict())
    assert len(list(model.parameters())) == 8
    meta = GRU(I, H, device="meta")
    meta.flatten_parameters()
    assert meta.weight_hh_l0.is_meta
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        meta.to_empty(device="cpu").load_state_dict(nn.GRU(I, H).state_dict())
    assert not caught
    assert meta(torch.randn(T, B, I))[0].isfinite().all()


@pytest.mark.parametrize("name", ["weight_ih_l0", "bias_ih_l0", "bias_hh_l0", "weight_hh_l0"])
def test_mixed_weights_are_refused_by_a_call_and_by_a_step(name):
    module = GRU(2, 3)
    setattr(module, name, torch.nn.Parameter(getattr(module, name).detach().double()))
    for call in (
        lambda: module(torch.zeros(4, 5, 2)),
        lambda: module.step(torch.zeros(5, 2), torch.zeros(1, 5, 3)),
    ):
        with pytest.raises(InvalidTypeError, match="the weights mix"):
            call()
