"""The doctor tells what is installed, finds healthy backends healthy and a wrong one wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import rnncompat
from rnncompat.__main__ import main
from rnncompat.backends import BACKENDS


def test_report():
    report = rnncompat.doctor()
    assert report.healthy
    assert report.versions["torch"] == torch.__version__
    tested = {(test.backend, test.device): test for test in report.tests}
    assert {("reference", "cpu"), ("aten", "cpu")} <= set(tested)
    assert tested["aten", "cpu"].difference <= 1e-10
    assert "aten on cpu: right, largest difference" in str(report)


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
