"""Modules shared by processes, sent to them, and trained in several at once: as in a single one."""

from __future__ import annotations

import copy

import pytest
import torch
import workers
from compare import assert_same
from native import NETWORKS, Native, twins
from torch import multiprocessing
from torch.utils.data import DataLoader
from workers import CASES, LENGTHS, SHARES, B, batch

from rnncompat import RNNState

pytestmark = pytest.mark.thorough


def load(path):
    return torch.load(path, weights_only=True)


def test_processes_see_each_others_changes_in_shared_memory(tmp_path):
    """A child that runs already sees what the parent changes, and the parent the child's step of training."""
    modules = {}
    for kind, make in NETWORKS.items():
        modules[kind] = make()
        modules[f"{kind}, packed"] = copy.deepcopy(modules[kind])
        modules[f"{kind}, packed"].flatten_parameters()
    for module in modules.values():
        module.share_memory()
    spawn = multiprocessing.get_context("spawn")
    ready, changed, queue = spawn.Event(), spawn.Event(), spawn.SimpleQueue()
    # As an argument, torch up to 2.0 passes a storage on once only: what shares one goes through a queue.
    passed = {name: module for name, module in modules.items() if "packed" not in name}
    child = spawn.Process(
        target=workers.share_memory, args=(passed, queue, ready, changed, tmp_path / "seen.pt"), daemon=True
    )
    child.start()
    queue.put({name: module for name, module in modules.items() if "packed" in name})
    assert ready.wait(workers.LIMIT)
    before = {}
    for name, module in modules.items():
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(1.5)
        before[name] = Native(module)
    changed.set()
    child.join(workers.LIMIT)
    assert child.exitcode == 0
    seen = load(tmp_path / "seen.pt")
    for name, module in modules.items():
        expected = before[name]
        output = expected(batch())[0]
        assert_same(output, seen[name])
        output.square().sum().backward()
        torch.optim.SGD(expected.parameters(), lr=0.1).step()
        assert_same(list(expected.parameters()), list(module.parameters()))
        assert_same(expected(batch())[0], module(batch())[0])
        assert not torch.allclose(output, module(batch())[0])


def loaded(dataset, **options):
    """What a process of a DataLoader makes of *dataset*."""
    return DataLoader(
        dataset, num_workers=1, multiprocessing_context="spawn", timeout=workers.LIMIT, **options
    )


def test_a_module_reads_in_the_process_of_a_data_loader():
    module = NETWORKS["lstm"]()
    output, state = next(iter(loaded(workers.Features(module), batch_size=B)))
    assert isinstance(state, RNNState)
    expected, (h, c) = Native(module)(batch(), lengths=LENGTHS)
    assert_same(expected.transpose(0, 1), output)
    assert_same((h.transpose(0, 1), c.transpose(0, 1)), tuple(state))


def test_modules_come_back_from_the_process_of_a_data_loader():
    modules = list(loaded(workers.Modules(), collate_fn=workers.first))
    assert len(modules) == len(NETWORKS)
    for index, module in enumerate(modules):
        expected = Native(workers.Modules()[index])
        assert_same(expected(batch())[0], module(batch())[0])
        assert_same(list(expected.parameters()), list(module.parameters()))


@pytest.fixture(scope="module")
def data_parallel(tmp_path_factory):
    return results(workers.data_parallel, tmp_path_factory)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    return results(workers.sharded, tmp_path_factory)


def results(function, tmp_path_factory):
    """What each of the two processes found."""
    folder = tmp_path_factory.mktemp(function.__name__)
    workers.run(function, str(folder), processes=len(SHARES))
    return [load(folder / f"{rank}.pt") for rank in range(len(SHARES))]


def assert_as_in_one_process(found, name):
    """Gradients of the second step and parameters after it are those of one process with the whole batch."""
    ours = workers.model_of(name)
    _, expected = twins(ours.rnn)
    expected.load_state_dict(ours.state_dict())
    workers.train(expected, torch.optim.SGD(expected.parameters(), lr=0.1), name)
    for rank in found:
        for key, value in expected.named_parameters():
            assert_same(value.grad, rank[name]["gradients"][key])
            assert_same(value.detach(), rank[name]["parameters"][key])
            assert not torch.equal(value, ours.get_parameter(key))


@pytest.mark.parametrize("name", CASES)
def test_ddp(data_parallel, name):
    """Nor does it warn, as it does of gradients in another order of memory than their parameters."""
    assert_as_in_one_process(data_parallel, name)
    assert [rank[name]["warnings"] for rank in data_parallel] == [[], []]


@pytest.mark.parametrize("name", CASES)
def test_fsdp2(sharded, name):
    assert_as_in_one_process(sharded, name)
    for key, value in workers.model_of(name).named_parameters():
        rows = [rank[name]["rows here"][key] for rank in sharded]
        assert sum(rows) == len(value)
        assert max(rows) < len(value) or len(value) == 1


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("tanh", "projected"))])
def test_fsdp2_steps(sharded, name):
    """One step at a time, each of which gathers the weights, and a backward through all of them."""
    for rank, rows in zip(sharded, SHARES, strict=True):
        model = twins(workers.model_of(name).rnn)[1]
        model.load_state_dict(rank[name]["parameters"])
        output, _ = model.rnn(batch()[:, rows])
        assert_same(output, rank[name]["stepped"])
    output, _ = model.rnn(batch())
    output.square().sum().backward()
    for key, value in model.rnn.named_parameters():
        for rank in sharded:
            assert_same(value.grad, len(SHARES) * rank[name]["step gradients"][key])


@pytest.mark.parametrize("name", CASES)
def test_fsdp2_finds_nothing_to_warn_of(sharded, name):
    """It warns where a module returns a view: changed in place, that would lose the hooks of FSDP2."""
    assert [rank[name]["warnings"] for rank in sharded] == [[], []]
