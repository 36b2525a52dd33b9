"""A skip is one of the list, or a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from skips import SKIPS, met

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("row", SKIPS, ids=lambda row: row.tests)
def test_every_row_speaks_of_a_test_and_says_why(row):
    path, _, name = row.tests.partition("::")
    assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8")
    assert row.reason


@pytest.mark.parametrize(
    ("version", "needs", "expected"),
    [
        ("1.13.0a0+gitunknown", "torch>=1.13", True),
        ("2.13.0+cpu", "torch==2.13.*", True),
        ("2.9.1", "torch>=2.10", False),
        ("2.10.0", "torch>=2.9", True),
    ],
)
def test_needs_are_read_by_release(monkeypatch, version, needs, expected):
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    assert met(needs) is expected


def test_what_is_not_installed_is_not_met():
    assert not met("no-such-distribution>=1")


PROGRAM = """
import pytest, skips

skips.SKIPS = (skips.Skip("test_it.py::test_listed", "no-such-distribution", "listed reason"),)

def test_listed():
    assert False

@pytest.mark.skip(reason="another reason")
def test_marked():
    assert False

def test_called():
    pytest.skip("in the middle")

def test_good():
    pass

@pytest.mark.xfail(reason="upstream", strict=True)
def test_expected():
    assert False
"""


def test_a_skip_without_a_row_fails_the_run(tmp_path):
    (tmp_path / "test_it.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "conftest.py").write_text('import test_it\npytest_plugins = ["skips"]\n', encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT / 'tests/support'} .\n", encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:warnings", "-rA"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error" in done.stdout
    assert "test_it.py::test_marked was skipped (another reason), but no row" in done.stdout
    assert "test_it.py::test_called was skipped (in the middle), but no row" in done.stdout
