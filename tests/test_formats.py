"""What any torch and any release wrote loads in every other one, with the same numbers, for ever."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import saved
import torch
from compare import assert_same

from rnncompat import LSTM, RNNDescriptor, RNNState, RNNWeights, SequenceBatch, UnsupportedError, rnn_forward
from rnncompat.versions import GATES

FILES = Path(__file__).parent / "formats"
WRITTEN = sorted(folder.relative_to(FILES).as_posix() for folder in FILES.glob("*/torch-*"))


@pytest.fixture(params=[*WRITTEN, "here"])
def folder(request, tmp_path):
    """Files written under one release of the package and one torch."""
    if request.param != "here":
        return FILES / request.param
    saved.write(tmp_path)
    return tmp_path


def assert_equal_modules(loaded):
    for name, expected in saved.modules().items():
        found = loaded[name]
        assert type(found) is type(expected)
        assert found.descriptor == expected.descriptor
        assert (found.batch_first, found.training) == (expected.batch_first, expected.training)
        assert_same(list(expected.state_dict().values()), list(found.state_dict().values()))
        x = saved.x()
        assert_same(expected(x)[0], found(x)[0])
        if not found.bidirectional:
            assert_same(expected.step(x[0])[0], found.step(x[0])[0])


def assert_equal_values(loaded):
    expected = saved.values()
    assert loaded.keys() == expected.keys()
    assert loaded["descriptor"] == expected["descriptor"]
    weights, state, batch = loaded["weights"], loaded["state"], loaded["batch"]
    assert (type(weights), type(state), type(batch)) == (RNNWeights, RNNState, SequenceBatch)
    assert weights.flat.requires_grad
    assert weights.flat.is_leaf
    assert_same(expected["weights"].flat, weights.flat)
    assert_same(tuple(expected["state"]), tuple(state))
    assert_same([expected["batch"].data, expected["batch"].mask], [batch.data, batch.mask])
    output, _ = rnn_forward(loaded["descriptor"], weights, batch, state)
    again, _ = rnn_forward(expected["descriptor"], expected["weights"], expected["batch"], expected["state"])
    assert_same(again.data, output.data)
    desc = loaded["desc"]
    assert (type(desc), desc.mode) == (type(expected["desc"]), expected["desc"].mode)
    assert_same(expected["desc"].params, desc.params)


def test_state_dicts(folder):
    loaded = torch.load(folder / "state_dicts.pt", weights_only=True)
    fresh = saved.modules()
    for name, module in fresh.items():
        for parameter in module.parameters():
            torch.nn.init.zeros_(parameter)
        module.load_state_dict(loaded[name])
    assert_equal_modules(fresh)


def test_values(folder):
    assert_equal_values(torch.load(folder / "values.pt", weights_only=False))


def test_values_as_harmless_files(folder):
    if GATES["files"].open:
        assert_equal_values(torch.load(folder / "values.pt", weights_only=True))
    else:
        with pytest.raises(pickle.UnpicklingError, match=r"(?i)weights.only|unsupported"):
            torch.load(folder / "values.pt", weights_only=True)


def test_modules(folder):
    assert_equal_modules(torch.load(folder / "modules.pt", weights_only=False))


def test_pickles(folder):
    loaded = pickle.loads((folder / "all.pickle").read_bytes())  # noqa: S301  # ours
    modules = {name: loaded.pop(name) for name in saved.modules()}
    assert_equal_modules(modules)
    assert_equal_values(loaded)


def test_a_descriptor_of_a_newer_version_is_refused_in_words():
    restore, (options,) = RNNDescriptor("gru", 2, 3).__reduce__()
    with pytest.raises(UnsupportedError, match=r"'attention'.*written by a newer version, or damaged"):
        restore({**options, "attention": True})
    with pytest.raises(UnsupportedError, match="damaged"):
        restore({"cell": "gru"})
    with pytest.raises(ValueError, match="hidden_size is 0"):
        restore({**options, "hidden_size": 0})


def test_what_follows_from_the_descriptor_is_not_saved():
    module = LSTM(3, 4)
    copy = pickle.loads(pickle.dumps(module))  # noqa: S301  # ours
    assert copy.names == module.names
    assert copy.__getstate__().keys() == module.__getstate__().keys()
    assert not {"names", "_names_by_layer"} & module.__getstate__().keys()
