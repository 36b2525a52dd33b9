"""What every format has in common: memory of its own on both sides, a leaf that learns, and nothing foreign imported."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
import torch
from compare import assert_bitwise

from rnncompat import RNNDescriptor, RNNWeights
from rnncompat.convert.flax import from_flax, to_flax
from rnncompat.convert.flux import from_flux, state_from_flux, to_flux
from rnncompat.convert.keras import from_keras, to_keras
from rnncompat.convert.keras_cudnn import from_keras_cudnn, to_keras_cudnn
from rnncompat.convert.knet import from_knet, from_rnnparams, to_knet, to_rnnparams
from rnncompat.convert.onnx import from_onnx, state_from_onnx, to_onnx
from rnncompat.convert.rnndesc import from_rnndesc, to_rnndesc
from rnncompat.convert.tensorflow import from_cudnn_rnn, to_basic_lstm, to_cudnn_rnn
from rnncompat.convert.torch import from_torch, to_torch

SIZES = {"cell": "gru", "input_size": 3, "hidden_size": 5}
BOTH_WAYS = {
    "torch": (to_torch, from_torch),
    "rnndesc": (to_rnndesc, lambda arrays: from_rnndesc(arrays, **SIZES)),
    "knet": (to_knet, lambda arrays: from_knet(arrays, **SIZES)),
    "rnnparams": (to_rnnparams, lambda arrays: from_rnnparams(arrays, cell="gru")),
    "flux": (to_flux, from_flux),
    "onnx": (to_onnx, from_onnx),
    "keras": (to_keras, from_keras),
    "keras_cudnn": (to_keras_cudnn, from_keras_cudnn),
    "cudnn_rnn": (to_cudnn_rnn, lambda arrays: from_cudnn_rnn(*arrays, cell="gru")),
    "flax": (to_flax, from_flax),
}


def tensors(arrays):
    """Every tensor in any structure."""
    if isinstance(arrays, torch.Tensor):
        return [arrays]
    if isinstance(arrays, (str, int)):
        return []
    inner = arrays.values() if isinstance(arrays, dict) else arrays
    return [tensor for one in inner for tensor in tensors(one)]


@pytest.mark.parametrize(("write", "read"), BOTH_WAYS.values(), ids=BOTH_WAYS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_memory_is_its_own_on_both_sides(write, read, dtype):
    descriptor = RNNDescriptor(**SIZES, bias="input")
    weights = RNNWeights.init(descriptor, dtype=dtype)
    arrays, _ = write(descriptor, weights)
    before = [tensor.clone() for tensor in tensors(arrays)]
    with torch.no_grad():
        weights.flat.zero_()
    assert_bitwise(before, tensors(arrays))
    assert {(tensor.dtype, tensor.device.type, tensor.requires_grad) for tensor in before} == {
        (dtype, "cpu", False)
    }
    again = read(arrays).weights
    values = again.flat.detach().clone()
    assert (again.flat.dtype, again.flat.requires_grad, again.flat.is_leaf) == (dtype, True, True)
    for tensor in tensors(arrays):
        tensor.zero_()
    assert_bitwise(values, again.flat.detach())


def test_one_array_does_not_bring_the_others_along():
    descriptor = RNNDescriptor("lstm", 70, 90)
    for write in (
        *(to_torch, to_flux, to_rnnparams, to_onnx),
        *(to_keras, to_keras_cudnn, to_cudnn_rnn, to_basic_lstm, to_flax),
    ):
        file = io.BytesIO()
        torch.save(tensors(write(descriptor, RNNWeights.init(descriptor)).arrays)[-1], file)
        assert file.tell() < 5000


def test_the_state_of_flux_is_its_own():
    h = torch.ones(5)
    state = state_from_flux({"h": h})
    h.zero_()
    assert bool(state.h.all())


def test_the_state_of_onnx_is_its_own():
    node = {
        "op_type": "RNN",
        "W": torch.zeros(1, 5, 3),
        "R": torch.zeros(1, 5, 5),
        "initial_h": torch.ones(1, 1, 5),
    }
    state = state_from_onnx(node)
    node["initial_h"].zero_()
    assert bool(state.h.all())


PROGRAM = """
import sys, torch
before = set(sys.modules)
from rnncompat.convert.file_format import file_formats
assert file_formats()
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))
"""


def test_no_other_framework_is_imported():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)  # noqa: S603  # ours
    assert set(done.stdout.split()) <= {"packaging", "rnncompat", "torch", "typing_extensions"}
