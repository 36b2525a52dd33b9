"""The doctor tells what is installed, finds healthy backends healthy and a wrong one wrong."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
import torch

import rnncompat
from rnncompat.__main__ import main
from rnncompat.backends import BACKENDS
from rnncompat.backends.aten import backsweep


def test_report():
    report = rnncompat.doctor()
    assert report.healthy
    assert report.versions["torch"] == torch.__version__
    tested = {(test.backend, test.device, test.dtype): test for test in report.tests}
    dtypes = [torch.float64, torch.float32]
    assert set(itertools.product(["reference", "aten"], ["cpu"], dtypes)) <= set(tested)
    assert tested["aten", "cpu", torch.float64].difference <= 1e-10
    assert tested["aten", "cpu", torch.float32].difference <= 1e-4
    assert "aten on cpu: right, largest difference" in str(report)
    assert "aten on cpu, float32: right, largest difference" in str(report)


def test_a_kernel_that_is_wrong_in_large_batches_only_is_found(monkeypatch):
    """As one of oneDNN's that torch 2.0 brings; a user's machine may bring another."""
    right, seen = backsweep.rows_product, []

    def wrong(a, b):
        seen.append(len(a))
        return right(a, b) * (1.01 if len(a) >= 300 else 1)

    monkeypatch.setattr(backsweep, "rows_product", wrong)
    report = rnncompat.doctor()
    assert max(seen) >= 300
    assert [str(test).split(":")[0] for test in report.tests if not test.healthy] == ["aten on cpu, float32"]


def test_a_backend_with_wrong_numbers_is_found(monkeypatch):
    right = BACKENDS["aten"].forward

    def wrong(request):
        output, state = right(request)
        return type(right(request))(output + 1e-6, state)

    monkeypatch.setattr(BACKENDS["aten"], "forward", wrong)
    report = rnncompat.doctor()
    assert not report.healthy
    assert "aten on cpu: WRONG" in str(report)
    assert main(["doctor"]) == 1


def test_a_backend_that_refuses_is_not_wrong(monkeypatch):
    monkeypatch.setattr(BACKENDS["aten"], "supports", lambda _: "it is Sunday")
    report = rnncompat.doctor()
    assert report.healthy
    assert "aten on cpu: not available" in str(report)
    assert "it is Sunday" in str(report)


def test_command_line():
    done = subprocess.run(
        [sys.executable, "-m", "rnncompat", "doctor"], capture_output=True, text=True, check=True
    )
    assert f"torch: {torch.__version__}" in done.stdout
    with pytest.raises(SystemExit, match="2"):
        main(["surgeon"])
