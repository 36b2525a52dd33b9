"""Importing the package does no work, and there is one name for each thing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import rnncompat

ROOT = Path(__file__).parents[1]


def run(code, *flags, cwd=None):
    return subprocess.run(  # noqa: S603  # our own code
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_importing_the_core_is_quiet_and_imports_no_legacy_module():
    code = """
import os, sys, torch, warnings
read = []
class Watched(dict):
    def __getitem__(self, key): read.append(key); return super().__getitem__(key)
    def get(self, key, default=None): read.append(key); return super().get(key, default)
os.environ = Watched(os.environ)
torch.cuda.is_available = torch.cuda.device_count = lambda: read.append("device")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import rnncompat
assert not caught, [str(w.message) for w in caught]
assert not read, read
assert not [m for m in sys.modules if m.startswith("rnncompat.legacy")]
assert not torch.cuda.is_initialized()
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_legacy_has_one_identity():
    done = run("import legacy", cwd=ROOT)
    assert "This package is rnncompat.legacy, but it was imported as 'legacy'" in done.stderr
    from rnncompat import legacy  # noqa: PLC0415  # after the subprocess, which must not see it

    assert legacy.RNNDesc.__module__ == "rnncompat.legacy.rnndesc"


def test_every_public_name_exists_once():
    assert len(rnncompat.__all__) == len(set(rnncompat.__all__))
    for name in rnncompat.__all__:
        assert getattr(rnncompat, name) is not None
