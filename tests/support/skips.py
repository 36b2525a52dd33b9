"""Every test that may be skipped, where, and why; a skip that does not stand here fails the run.

It is a pytest plugin: it puts the skips of the table on the tests, and turns any other into a failure.
"""

from __future__ import annotations

import os
import shutil
from importlib import metadata
from typing import NamedTuple

import pytest
import torch
from packaging.requirements import Requirement
from packaging.version import Version

from rnncompat.backends.cudnn.library import why_missing


class Skip(NamedTuple):
    """Tests that need something not everybody has."""

    tests: str  # beginning of their node ids
    needs: str  # a requirement as pip writes it, or a name of CAPABILITIES
    reason: str


CAPABILITIES = {
    "an NVIDIA GPU": torch.cuda.is_available,
    "cuDNN": lambda: why_missing() is None,
    "a C++ compiler": lambda: shutil.which(os.environ.get("CXX", "g++")) is not None,
    "int8 kernels": lambda: bool(set(torch.backends.quantized.supported_engines) - {"none"}),
    "tox": lambda: "TOX_ENV_NAME" in os.environ,
}

FLAT = "tests/test_flat_buffer.py::"
COMPILING = (
    "tests/test_upsample.py::test_compiled",
    "tests/test_versions.py::test_compiling",
    "tests/legacy/test_warnings.py::test_under_compile",
    "tests/legacy/test_flux_modules.py::test_compiled",
    "tests/test_compile.py::",
)
ENVIRONMENT = "tests/test_environment.py::"
ECOSYSTEM = "tests/ecosystem/"
CONVERT = "tests/convert/"

SKIPS = (
    Skip("tests/test_cudnn_setters.py::", "cuDNN", "this torch comes without cuDNN 9"),
    Skip(ENVIRONMENT + "test_torch_is_the_one", "tox", "not run by tox, so no name promises anything"),
    Skip(ENVIRONMENT + "test_python_is_the_one", "tox", "not run by tox, so no name promises anything"),
    Skip(ENVIRONMENT + "test_the_built_wheel", "tox", "not run by tox, so no wheel need be there"),
    Skip("tests/test_architecture.py::test_the_contracts_hold", "import-linter", "comes with torch213, lint"),
    Skip("tests/test_architecture.py::test_a_planted", "import-linter", "comes with torch213, lint"),
    Skip("tests/test_types.py::test_mypy", "mypy", "mypy comes with the environment types"),
    Skip("tests/test_types.py::test_pyright", "pyright", "pyright comes with the environment types"),
    Skip("tests/legacy/test_migrate.py::", "libcst", "LibCST comes with pip, not with Debian's torch"),
    Skip("tests/legacy/test_migrate_cells.py::", "libcst", "LibCST comes with pip, not with Debian's torch"),
    Skip(
        "tests/downstream/test_programs.py::test_the_tool",
        "libcst",
        "LibCST comes with pip, not with Debian's torch",
    ),
    Skip(
        CONVERT + "test_safetensors.py::",
        "safetensors",
        "safetensors comes with pip, not with Debian's torch",
    ),
    Skip(CONVERT + "test_command.py::", "safetensors", "safetensors comes with pip, not with Debian's torch"),
    Skip(CONVERT + "test_flax.py::test_flax_itself", "flax", "Flax comes with the environment convert"),
    Skip(CONVERT + "test_keras.py::test_keras_itself", "keras", "Keras comes with the environment convert"),
    Skip(CONVERT + "test_keras_file.py::", "h5py", "h5py comes with pip, not with Debian's torch"),
    Skip(CONVERT + "test_keras_models.py::", "h5py", "h5py comes with pip, not with Debian's torch"),
    Skip(
        CONVERT + "test_keras_models.py::test_keras_itself",
        "keras",
        "Keras comes with the environment convert",
    ),
    Skip(
        CONVERT + "test_keras_file.py::test_keras_itself", "keras", "Keras comes with the environment convert"
    ),
    *(
        Skip(f"{CONVERT}test_onnx_{part}.py::", library, "comes with torch213, convert")
        for part in ("file", "exports", "chains", "damage")
        for library in ("onnx", "onnxscript", "onnxruntime")
    ),
    Skip(CONVERT + "test_torch.py::test_bfloat16", "ml_dtypes", "ml_dtypes comes with onnx and with JAX"),
    Skip("tests/test_distribution.py::", "build", "build comes with the environment package"),
    Skip("tests/test_aten.py::test_torch_func", "torch>=2.0", "torch.func comes with torch 2.0"),
    Skip(FLAT + "test_functional_call", "torch>=2.0", "torch.func comes with torch 2.0"),
    Skip(FLAT + "test_loading_by_assignment", "torch>=2.1", "load_state_dict(assign=) comes with torch 2.1"),
    Skip(FLAT + "test_weight_norm", "torch>=2.1", "parametrizations.weight_norm comes with torch 2.1"),
    Skip(FLAT + "test_casts_that_swap", "torch>=2.3", "swapping tensors comes with torch 2.3"),
    Skip("tests/test_versions.py::test_transforms", "torch>=2.0", "torch.func comes with torch 2.0"),
    Skip("tests/test_derivatives.py::test_func", "torch>=2.0", "torch.func comes with torch 2.0"),
    Skip("tests/test_upsample.py::test_func", "torch>=2.0", "torch.func comes with torch 2.0"),
    Skip(
        "tests/test_upsample.py::test_compiled",
        "torch>=2.4",
        "one graph for a whole call comes with torch 2.4",
    ),
    Skip("tests/test_derivatives.py::test_batched_backward", "torch>=2.4", "torch does not tell before 2.4"),
    Skip("tests/test_compile.py::", "torch>=2.4", "one graph for a whole call comes with torch 2.4"),
    Skip(
        "tests/test_compile.py::test_compiled_by_inductor", "a C++ compiler", "inductor needs a C++ compiler"
    ),
    Skip(
        ECOSYSTEM + "test_training.py::test_functional_call", "torch>=2.0", "torch.func comes with torch 2.0"
    ),
    Skip(
        ECOSYSTEM + "test_training.py::test_weight_norm",
        "torch>=2.1",
        "parametrizations.weight_norm comes with torch 2.1",
    ),
    Skip(
        "tests/test_user_needs.py::test_dynamic", "int8 kernels", "this torch was built without int8 kernels"
    ),
    Skip(
        "tests/test_user_needs.py::test_the_copy", "int8 kernels", "this torch was built without int8 kernels"
    ),
    Skip(ECOSYSTEM + "test_processes.py::test_fsdp2", "torch>=2.7", "FSDP2 runs on a CPU since torch 2.7"),
    *(
        Skip(ECOSYSTEM + "test_onnx.py::", library, "comes with torch213, ecosystem")
        for library in ("onnx", "onnxscript", "onnxruntime")
    ),
    Skip(ECOSYSTEM + "test_libraries.py::test_skorch", "skorch", "comes with the environment ecosystem"),
    Skip(ECOSYSTEM + "test_libraries.py::test_opacus", "opacus", "comes with the environment ecosystem"),
    *(
        Skip(tests, needs, f"torch.compile: {needs}")
        for tests in COMPILING
        for needs in (
            "torch>=2.0",
            'torch>=2.1; python_version >= "3.11"',
            'torch>=2.4; python_version >= "3.12"',
            'torch>=2.6; python_version >= "3.13"',
            'torch>=2.10; python_version >= "3.14"',
        )
    ),
)


GPU = Skip("", "an NVIDIA GPU", "no CUDA device on this machine")
"""Of every test with the marker."""


def met(needs: str) -> bool:
    """Whether this machine and environment have what a row needs."""
    if needs in CAPABILITIES:
        return CAPABILITIES[needs]()
    wanted = Requirement(needs)
    if wanted.marker is not None and not wanted.marker.evaluate():
        return True
    try:
        found = Version(metadata.version(wanted.name))
    except metadata.PackageNotFoundError:
        return False
    # By release: Debian's 1.13.0a0 is below 1.13.
    return wanted.specifier.contains(".".join(map(str, found.release)))


def rows_for(item: pytest.Item) -> list[Skip]:
    """The rows of the table that speak of a test."""
    marked = [GPU] if item.get_closest_marker("gpu") else []
    return marked + [row for row in SKIPS if item.nodeid.startswith(row.tests)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the skips of the table on the tests."""
    for item in items:
        for row in rows_for(item):
            if not met(row.needs):
                item.add_marker(pytest.mark.skip(reason=row.reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Fails a test that was skipped without a row."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason not in [row.reason for row in rows_for(item)]:
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} was skipped ({reason}), but no row of tests/support/skips.py says so."
            )
    return report
