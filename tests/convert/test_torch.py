"""``torch.nn``: what it computes is expected, with every option that it has."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from cases import BIASES, CELLS, descriptors
from compare import assert_bitwise, assert_same
from hypothesis import given

import rnncompat
from rnncompat import (
    InvalidTypeError,
    InvalidValueError,
    RNNDescriptor,
    RNNWeights,
    UnsupportedError,
    layout_of,
    rnn_forward,
)
from rnncompat.convert.torch import from_torch, to_torch

I, H, P, T, B = 3, 5, 2, 7, 4
CLASSES = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
EVERY = [
    (cell, layers, bidirectional, bias, proj)
    for cell, layers, bidirectional, bias in itertools.product(CELLS, (1, 2, 3), (False, True), (False, True))
    for proj in ((0, P) if cell == "lstm" else (0,))
]


def torch_module(cell, layers=1, bidirectional=False, bias=True, proj=0):
    own = {"proj_size": proj} if cell == "lstm" else {}
    own |= {} if cell in CLASSES else {"nonlinearity": cell.removeprefix("rnn_")}
    made = CLASSES.get(cell, torch.nn.RNN)
    return made(I, H, layers, bidirectional=bidirectional, bias=bias, dtype=torch.float64, **own)


def forward(descriptor, weights, x):
    return rnn_forward(descriptor, weights, x, backend="reference")


@pytest.mark.parametrize(("cell", "layers", "bidirectional", "bias", "proj"), EVERY)
def test_all_that_torch_has_comes_in_and_goes_out(cell, layers, bidirectional, bias, proj):
    module = torch_module(cell, layers, bidirectional, bias, proj)
    state_dict = module.state_dict()
    descriptor, weights, done = from_torch(state_dict, cell=cell)
    assert done == ()
    assert descriptor == RNNDescriptor(
        cell, I, H, num_layers=layers, bidirectional=bidirectional, bias=bias, proj_size=proj
    )
    assert weights.flat.numel() == sum(tensor.numel() for tensor in state_dict.values())
    x = torch.randn(T, B, I, dtype=torch.float64)
    expected, state = module(x)
    output, ours = forward(descriptor, weights, x)
    assert_same(expected, output)
    assert_same(list(state) if cell == "lstm" else [state], [s for s in ours if s is not None])
    arrays, done = to_torch(descriptor, weights)
    assert done == ()
    assert list(arrays) == list(state_dict)
    assert_bitwise(list(state_dict.values()), list(arrays.values()))


@given(descriptors())
def test_what_goes_out_computes_the_same_in_torch(descriptor):
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    if descriptor.cell_clip or descriptor.input_mode.value == "skip":
        with pytest.raises(UnsupportedError, match=r"torch.nn has no (skip|clip)"):
            to_torch(descriptor, weights)
        return
    arrays, done = to_torch(descriptor, weights)
    added = {"double": (), "none": (), "input": "bias_hh", "recurrent": "bias_ih"}[descriptor.bias.value]
    assert done == ((f"added {added} of zeros",) if added else ())
    own = {"proj_size": descriptor.proj_size} if descriptor.cell.value == "lstm" else {}
    own |= {} if descriptor.cell.value in CLASSES else {"nonlinearity": descriptor.cell.value[4:]}
    module = CLASSES.get(descriptor.cell.value, torch.nn.RNN)(
        descriptor.input_size,
        descriptor.hidden_size,
        descriptor.num_layers,
        bidirectional=descriptor.bidirectional,
        bias=descriptor.bias.value != "none",
        dtype=torch.float64,
        **own,
    )
    module.load_state_dict(arrays)
    x = torch.randn(T, B, descriptor.input_size, dtype=torch.float64)
    assert_same(module(x)[0], forward(descriptor, weights, x)[0])


@given(descriptors())
def test_our_modules_are_read_by_the_names_they_lack(descriptor):
    weights = RNNWeights.init(descriptor, dtype=torch.float64)
    found, again, done = from_torch(
        dict(weights.named()), cell=descriptor.cell, cell_clip=descriptor.cell_clip
    )
    assert found == descriptor
    assert_bitwise(weights.flat, again.flat)
    said = " ".join(done)
    assert ("read as skip input" in said) == (descriptor.input_mode.value == "skip")
    assert ("no bias_hh: read as bias mode 'input'" in said) == (descriptor.bias.value == "input")
    assert ("no bias_ih: read as bias mode 'recurrent'" in said) == (descriptor.bias.value == "recurrent")


def test_a_state_dict_of_our_module():
    module = rnncompat.GRU(I, H, num_layers=2, bias="recurrent", bidirectional=True)
    descriptor, weights, _ = from_torch(module.state_dict())
    assert descriptor == module.descriptor
    x = torch.randn(T, B, I)
    assert_same(module(x)[0], forward(descriptor, weights, x)[0], tolerance=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("made", "cell"), [(torch.nn.RNNCell, "rnn_tanh"), (torch.nn.LSTMCell, None), (torch.nn.GRUCell, None)]
)
def test_cells_of_one_step(made, cell, bias):
    module = made(I, H, bias=bias, dtype=torch.float64)
    descriptor, weights, done = from_torch(module.state_dict(), cell=cell)
    assert done == ("names of a cell became those of layer 0",)
    x = torch.randn(1, B, I, dtype=torch.float64)
    expected = module(x[0])
    expected = expected[0] if isinstance(expected, tuple) else expected
    assert_same(expected, forward(descriptor, weights, x)[0][0])


@pytest.mark.parametrize("prefix", ["encoder.rnn", "encoder.rnn."])
def test_a_network_inside_a_model(prefix):
    model = torch.nn.ModuleDict(
        {
            "encoder": torch.nn.ModuleDict({"rnn": torch.nn.LSTM(I, H), "out": torch.nn.Linear(H, B)}),
            "decoder": torch.nn.GRUCell(H, P),
        }
    )
    descriptor, weights, _ = from_torch(model.state_dict(), prefix=prefix)
    assert descriptor == RNNDescriptor("lstm", I, H)
    assert_bitwise(model["encoder"]["rnn"].weight_hh_l0, weights["weight_hh_l0"])
    for wrong in ("", "encoder", "coder.rnn", "encoder.out"):
        with pytest.raises(InvalidValueError, match=r"prefix is .*'decoder.' or 'encoder.rnn.'"):
            from_torch(model.state_dict(), prefix=wrong)


def test_options_that_a_state_dict_does_not_hold():
    state_dict = torch.nn.LSTM(I, H, 2).state_dict()
    descriptor = from_torch(state_dict, cell="lstm", dropout=0.25, cell_clip=(-1, 2)).descriptor
    assert (descriptor.dropout, descriptor.cell_clip) == (0.25, (-1, 2))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
def test_the_dtype_stays_and_the_memory_is_new(kind):
    module = torch.nn.GRU(I, H, dtype=kind)
    _, weights, _ = from_torch(module.state_dict())
    assert (weights.flat.dtype, weights.flat.requires_grad, weights.flat.is_leaf) == (kind, True, True)
    before = weights.flat.clone()
    with torch.no_grad():
        module.weight_ih_l0.zero_()
    assert_bitwise(before, weights.flat)
    arrays, _ = to_torch(weights.descriptor, weights)
    with torch.no_grad():
        weights.flat.zero_()
    assert arrays["weight_hh_l0"].any()
    assert not any(tensor.requires_grad for tensor in arrays.values())


def test_numpy_arrays_as_other_libraries_give_them():
    plain = {name: tensor.numpy() for name, tensor in torch.nn.GRU(I, H).state_dict().items()}
    _, expected, _ = from_torch(plain)
    turned = {name: np.flip(np.flip(array).astype(">f4")) for name, array in plain.items()}
    for array in turned.values():
        array.flags.writeable = False
    assert_bitwise(expected.flat, from_torch(turned).weights.flat)


def test_bfloat16_arrays_of_other_libraries():
    import ml_dtypes  # noqa: PLC0415  # not everybody has it

    module = torch.nn.GRU(I, H, dtype=torch.bfloat16)
    plain = {
        name: tensor.float().numpy().astype(ml_dtypes.bfloat16)
        for name, tensor in module.state_dict().items()
    }
    assert_bitwise(from_torch(module.state_dict()).weights.flat, from_torch(plain).weights.flat)


def without(*names):
    return lambda named: {name: tensor for name, tensor in named.items() if name not in names}


def having(**added):
    return lambda named: {**named, **added}


GRU = torch.nn.GRU(I, H, 2, bidirectional=True).state_dict()


@pytest.mark.parametrize(
    ("change", "options", "error", "text"),
    [
        (without("weight_hh_l1"), {}, InvalidValueError, r"lacks \['weight_hh_l1'\] and has \[\] too many"),
        (without("bias_hh_l0"), {}, InvalidValueError, r"has \['bias_hh_l0_reverse', .* too many"),
        (without("weight_hh_l0"), {}, InvalidValueError, "expected weight_hh_l0 among the names"),
        (lambda n: {k.replace("l1", "l2"): v for k, v in n.items()}, {}, InvalidValueError, "without a gap"),
        (lambda n: {k.replace("l1", "l9999999999"): v for k, v in n.items()}, {}, InvalidValueError, "gap"),
        (
            lambda n: {k.replace("l0", "l00"): v for k, v in n.items()},
            {},
            InvalidValueError,
            "among the names",
        ),
        (having(weight_xx_l0=torch.ones(2)), {}, InvalidValueError, r"Under it lie \['weight_xx_l0'\]"),
        (having(weight_ih=torch.ones(2)), {}, InvalidValueError, "without a gap"),
        (having(bias_ih_l0=torch.ones(4)), {}, InvalidValueError, r"bias_ih_l0 is of shape \[4\].*\[15\]"),
        (having(weight_ih_l1=torch.ones(15, 5)), {}, InvalidValueError, r"weight_ih_l1 .* \[15, 10\]"),
        (having(weight_hh_l0=torch.ones(10, 5)), {}, InvalidValueError, r"weight_hh_l0 .* H = 5 and G = 1"),
        (having(weight_hh_l0=torch.ones(15, 0)), {}, InvalidValueError, "weight_hh_l0 is of shape"),
        (having(weight_hh_l0=torch.ones(15)), {}, InvalidValueError, "weight_hh_l0 .* two dimensions"),
        (having(weight_ih_l0=torch.ones(15, 0)), {}, InvalidValueError, "input_size is 0"),
        (
            having(bias_ih_l0=torch.ones(15).double()),
            {},
            InvalidTypeError,
            "bias_ih_l0 is torch.float64; expected one",
        ),
        (having(bias_ih_l0=torch.ones(15).int()), {}, InvalidTypeError, "bias_ih_l0 has dtype torch.int32"),
        (having(bias_ih_l0=torch.ones(15).to_sparse()), {}, InvalidTypeError, "has layout torch.sparse_coo"),
        (having(bias_ih_l0="no"), {}, InvalidTypeError, "bias_ih_l0 is a str, which torch cannot read"),
        (
            without(),
            {"cell": "lstm"},
            InvalidValueError,
            "cell is 'lstm'; expected 'gru': weight_hh_l0 has 3",
        ),
        (without(), {"cell": "mgu"}, InvalidValueError, "cell is 'mgu'; expected one of"),
        (without(), {"prefix": "a"}, InvalidValueError, r"in this state_dict ''. Under it lie no names"),
        (without(), {"cell_clip": (-1, 1)}, UnsupportedError, "only the LSTM"),
        (lambda n: {}, {}, InvalidValueError, "of which state_dict has none"),
        (lambda n: {0: torch.ones(2)}, {}, InvalidTypeError, "expected a mapping of names"),
        (lambda n: torch.nn.GRU(I, H), {}, InvalidTypeError, r"module.state_dict\(\)"),
    ],
)
def test_what_fits_no_network_is_refused_in_words(change, options, error, text):
    with pytest.raises(error, match=text):
        from_torch(change(GRU), **options)


def test_relu_and_tanh_cannot_be_told_apart():
    with pytest.raises(InvalidValueError, match="expected 'rnn_relu' or 'rnn_tanh'"):
        from_torch(torch.nn.RNN(I, H).state_dict())


def test_weights_must_be_those_of_the_descriptor():
    descriptor = RNNDescriptor("gru", I, H)
    with pytest.raises(InvalidValueError, match="weights are those of RNNDescriptor"):
        to_torch(descriptor, RNNWeights.init(RNNDescriptor("gru", H, I)))
    with pytest.raises(InvalidTypeError, match="weights is a Tensor; expected RNNWeights"):
        to_torch(descriptor, torch.ones(layout_of(descriptor).size))
    with pytest.raises(InvalidTypeError, match="descriptor is a str"):
        to_torch("gru", RNNWeights.init(descriptor))


@pytest.mark.parametrize("bias", BIASES)
def test_every_size_adds_up(bias):
    for cell, layers, bidirectional, proj in itertools.product(CELLS, (1, 2, 3), (False, True), (0, P)):
        if not proj or cell == "lstm":
            d = RNNDescriptor(
                cell, I, H, num_layers=layers, bidirectional=bidirectional, bias=bias, proj_size=proj
            )
            count = torch_module(cell, layers, bidirectional, bias != "none", proj)
            total = sum(tensor.numel() for tensor in to_torch(d, RNNWeights.init(d)).arrays.values())
            assert total == sum(parameter.numel() for parameter in count.parameters())
