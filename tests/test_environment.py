"""A tox environment runs what its name says: that is what makes the matrix honest."""

from __future__ import annotations

import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
from packaging.version import Version

import rnncompat

NAME = os.environ.get("TOX_ENV_NAME", "")
in_tox = pytest.mark.skipif(not NAME, reason="not run by tox, so no name promises anything")


@in_tox
def test_torch_is_the_one_the_environment_names():
    major, minor = re.search(r"torch(\d)(\d+)", NAME).groups()
    assert Version(torch.__version__).release[:2] == (int(major), int(minor))


@in_tox
def test_python_is_the_one_the_environment_names():
    named = re.search(r"py(\d)(\d+)", NAME)
    assert named is None or sys.version_info[:2] == tuple(map(int, named.groups()))


@in_tox
def test_the_built_wheel_is_tested_and_not_the_checkout():
    assert Path(__file__).parents[1] not in Path(rnncompat.__file__).parents or ".tox" in rnncompat.__file__


def test_the_version_is_that_of_the_distribution_and_the_changelog():
    assert metadata.version("rnncompat") == rnncompat.__version__
    changelog = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{rnncompat.__version__}]" in changelog


def test_the_support_table_names_the_oldest_torch_that_the_metadata_demands():
    demanded = next(r for r in metadata.requires("rnncompat") if r.startswith("torch"))
    assert demanded == "torch>=1.13"
    assert "1.13" in (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
