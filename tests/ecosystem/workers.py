"""What child processes run: they import it by name, and leave what they found in files for the parent to judge."""

from __future__ import annotations

import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from native import F64, NETWORKS, I, Model, gradients, parameters
from torch import multiprocessing
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

T, B = 6, 5
LENGTHS = [4, 6, 0, 2, 6]
SHARES = [slice(0, 2), slice(2, 5)]
"""Which rows of the batch each of the two processes gets: unlike numbers of them."""
LIMIT = 120.0
"""Seconds after which a process that does not end counts as hanging."""


def run(function, *args, processes=1):
    """Runs *function(rank, \\*args)* in processes of their own; fails if one fails or hangs."""
    context = multiprocessing.spawn(function, args, nprocs=processes, join=False, daemon=True)
    end = time.monotonic() + LIMIT
    try:
        while not context.join(timeout=1.0):
            assert time.monotonic() < end, f"{function.__name__} has not ended after {LIMIT} s"
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()


def batch(step=0):
    """The whole batch of a step of training, the same in every process."""
    return torch.randn(T, B, I, dtype=F64, generator=torch.Generator().manual_seed(step))


def share_memory(modules, queue, ready, changed, path):
    """Waits for the parent to change the weights, says what they give, then changes them itself."""
    torch.set_num_threads(1)
    modules = {**modules, **queue.get()}
    ready.set()
    assert changed.wait(LIMIT)
    outputs = {}
    for name, module in modules.items():
        outputs[name] = module(batch())[0]
        (outputs[name] ** 2).sum().backward()
        torch.optim.SGD(module.parameters(), lr=0.1).step()
    torch.save({name: output.detach() for name, output in outputs.items()}, path)


class Features(Dataset):
    """Rows that a module has read, in the process that loads them."""

    def __init__(self, module):
        self.module = module

    def __len__(self):
        return B

    def __getitem__(self, row):
        with torch.no_grad():
            return self.module(batch()[:, row], lengths=LENGTHS[row])


class Modules(Dataset):
    """Modules made and trained in the process that loads them."""

    def __len__(self):
        return len(NETWORKS)

    def __getitem__(self, index):
        torch.manual_seed(index)
        module = list(NETWORKS.values())[index]()
        module.flatten_parameters()
        with torch.no_grad():
            module.weight_hh_l0.add_(1)
        return module


def first(samples):
    """Instead of collating a batch."""
    return samples[0]


CASES = {
    "lstm": ("lstm", {}, {}),
    "lstm, lengths": ("lstm", {"lengths": LENGTHS}, {}),
    "gru, gradients in buckets": ("gru", {"lengths": LENGTHS}, {"gradient_as_bucket_view": True}),
    "projected, small buckets": ("projected", {}, {"bucket_cap_mb": 0.001}),
    "tanh, packed": ("tanh", {"lengths": LENGTHS}, {}),
    "relu, packed": ("relu", {}, {"static_graph": True}),
}
"""Network, options of the call, options of DistributedDataParallel."""


def model_of(name):
    """The model of a case, the same in every process."""
    kind, _, _ = CASES[name]
    torch.manual_seed(3)
    model = Model(NETWORKS[kind]())
    if "packed" in name:
        model.rnn.flatten_parameters()
    return model


def options_of(name, rows=slice(None)):
    """The options of the call of a case, for some rows of the batch."""
    _, options, _ = CASES[name]
    return {key: value[rows] for key, value in options.items()}


def train(call, optimizer, name, rows=slice(None), processes=1):
    """Two steps of training on some rows, whose loss counts so that the mean over processes is the whole."""
    for step in range(2):
        optimizer.zero_grad()
        call(batch(step)[:, rows], **options_of(name, rows)).sum().mul(processes / B).backward()
        optimizer.step()


def meet(rank, folder):
    """Joins the two processes."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=len(SHARES),
        timeout=timedelta(seconds=LIMIT / 2),
    )


def data_parallel(rank, folder):
    """Trains each case with DistributedDataParallel on this process's rows."""
    meet(rank, folder)
    found = {}
    for name, (_, _, options) in CASES.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = model_of(name)
            parallel = DistributedDataParallel(model, **options)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            train(parallel, optimizer, name, SHARES[rank], len(SHARES))
        found[name] = {
            "gradients": {key: value.clone() for key, value in gradients(model).items()},
            "parameters": parameters(model),
            "warnings": [str(warning.message) for warning in caught],
        }
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def whole(tensors):
    """The whole tensors of which each process holds some rows."""
    return {key: tensor.full_tensor() for key, tensor in tensors.items()}


def stepped(module, rows):
    """Outputs of a loop of steps, and the gradients of a loss of them."""
    module.zero_grad()
    state, outputs = None, []
    for x_t in batch()[:, rows]:
        y, state = module.step(x_t, state)
        outputs.append(y)
    output = torch.stack(outputs)
    output.square().sum().backward()
    return {"stepped": output.detach(), "step gradients": whole(gradients(module))}


def sharded(rank, folder):
    """Trains each case with fully_shard (FSDP2) on this process's rows, the network a unit of its own."""
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415  # not in every torch
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method  # noqa: PLC0415  # not in every torch

    meet(rank, folder)
    mesh = init_device_mesh("cpu", (len(SHARES),))
    found = {}
    for name in CASES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = model_of(name)
            fully_shard(model.rnn, mesh=mesh)
            fully_shard(model, mesh=mesh)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            train(model, optimizer, name, SHARES[rank], len(SHARES))
        found[name] = {
            "gradients": whole(gradients(model)),
            "parameters": whole(parameters(model)),
            "rows here": {key: len(value.to_local()) for key, value in model.named_parameters()},
            "warnings": [str(warning.message) for warning in caught],
        }
        if not model.rnn.bidirectional:
            register_fsdp_forward_method(model.rnn, "step")
            found[name].update(stepped(model.rnn, SHARES[rank]))
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
