"""What the files under ``tests/formats`` hold.

``python tests/support/saved.py FOLDER`` writes those of the installed torch; each environment of the matrix does
so into ``.tox/formats``, and ``make formats`` takes them from there. A safetensors file does not depend on torch:
one is enough.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import torch

import rnncompat
from rnncompat import RNNDescriptor, RNNState, RNNWeights, SequenceBatch, legacy
from rnncompat.convert.safetensors import save_weights

F64 = torch.float64
T, B, I, H, P = 6, 5, 2, 4, 3


def counted(*shape):
    """Numbers that no generator need draw again; builds of torch differ in their last bit."""
    size = torch.Size(shape).numel()
    return torch.sin(torch.arange(1.0, size + 1, dtype=F64)).reshape(shape)


def x():
    return counted(T, B, I)


def modules():
    """One module of each kind, with options that torch.nn does not have."""
    made = {
        "rnn": rnncompat.RNN(I, H, nonlinearity="relu", bias="input", dtype=F64),
        "lstm": rnncompat.LSTM(I, H, proj_size=P, cell_clip=(-1, 1), dtype=F64),
        "gru": rnncompat.GRU(I, H, bidirectional=True, batch_first=True, dtype=F64),
    }
    with torch.no_grad():
        for module in made.values():
            for parameter in module.parameters():
                parameter.copy_(counted(*parameter.shape))
    return {name: module.eval() for name, module in made.items()}


def state_dicts():
    return {name: module.state_dict() for name, module in modules().items()}


def values():
    """Everything of ours that is plain data."""
    descriptor = RNNDescriptor("lstm", I, H, num_layers=2, bias="recurrent", proj_size=P, dropout=0.25)
    batch = SequenceBatch.from_mask(x(), torch.arange(T)[:, None] % 2 == torch.arange(B) % 2)
    with legacy.legacy_warnings("quiet"):
        desc = legacy.RNNDesc[F64](legacy.CUDNN_GRU, I, H)
    desc.params.copy_(counted(*desc.params.shape))
    weights = RNNWeights(descriptor, counted(rnncompat.layout_of(descriptor).size).requires_grad_())
    state = RNNState(counted(2, B, P), counted(2, B, H))
    return {"descriptor": descriptor, "weights": weights, "state": state, "batch": batch, "desc": desc}


CONTENTS = {"state_dicts": state_dicts, "values": values, "modules": modules}
"""What each file holds, by its name."""


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in CONTENTS.items():
        torch.save(make(), folder / f"{name}.pt")
    (folder / "all.pickle").write_bytes(pickle.dumps({**values(), **modules()}, protocol=4))


if __name__ == "__main__":
    minor = ".".join(torch.__version__.split(".")[:2])
    release = Path(sys.argv[1]) / rnncompat.__version__
    write(release / f"torch-{minor}")
    weights = values()["weights"]
    save_weights(release / "weights.safetensors", weights.descriptor, weights)
