"""torch's two exporters to ONNX, called alike, and what they warn of."""

from __future__ import annotations

import pytest
import torch

from rnncompat.versions import TORCH_RELEASE

# What torch says of its own exporters.
WARNINGS = [
    pytest.mark.filterwarnings(f"ignore:{said}")
    for said in (
        "(?s).*legacy TorchScript-based ONNX export:DeprecationWarning",
        "The feature will be removed:DeprecationWarning",
        ".*LeafSpec:FutureWarning",
        ".*will not be used, since it shares:UserWarning",
        ".*torch.onnx._patch_torch._graph_op. is deprecated:FutureWarning",
        "unclosed file .*dedicated_log_torch_trace:ResourceWarning",
        "(?s).*dedicated_log_torch_trace:pytest.PytestUnraisableExceptionWarning",
    )
]


def by_dynamo(module, arguments, axes, file):
    sizes = {"T": torch.export.Dim("T", min=2, max=999), "B": torch.export.Dim("B", min=2, max=99)}
    shapes = tuple({axis: sizes[name] for axis, name in each.items()} for each in axes)
    program = torch.onnx.export(module, arguments, dynamo=True, dynamic_shapes=shapes, verbose=False)
    program.save(file)


def by_torchscript(module, arguments, axes, file):
    names = [f"given_{n}" for n in range(len(axes))]
    chosen = {"dynamo": False} if TORCH_RELEASE >= (2, 5) else {}
    torch.onnx.export(
        module, arguments, file, input_names=names, dynamic_axes=dict(zip(names, axes, strict=True)), **chosen
    )


EXPORTERS = {"dynamo": by_dynamo, "torchscript": by_torchscript}
"""Each takes a module, arguments, the axes of each that are named ``T`` or ``B``, and a file."""
