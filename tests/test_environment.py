"""A tox environment runs what its name says: that is what makes the matrix honest."""

from __future__ import annotations

import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from packaging.version import Version
from support_table import pairs, refreshed

import rnncompat

ROOT = Path(__file__).parents[1]
NAME = os.environ.get("TOX_ENV_NAME", "")
RELEASE = Version(torch.__version__).release[:2]
MINORS = sorted({torch for _, torch in pairs()})


def lower_bounds():
    """The smallest versions that the metadata allows, of what a user gets with the package."""
    wanted = [Requirement(line) for line in metadata.requires("rnncompat")]
    return {r.name: r.specifier for r in wanted if r.marker is None}


def assert_oldest():
    for name, specifier in lower_bounds().items():
        (bound,) = specifier
        assert bound.operator == ">="
        assert Version(metadata.version(name)).release[:2] == Version(bound.version).release[:2], name
    assert sys.version_info[:2] == min(python for python, _ in pairs())


def assert_newest():
    assert MINORS[-1] == RELEASE, "torch has a newer release: add it to the table in tox.ini"


def assert_nightly():
    assert Version(torch.__version__).is_prerelease


def assert_named():
    major, minor = re.search(r"torch(\d)(\d+)$", NAME).groups()
    assert (int(major), int(minor)) == RELEASE


PROMISES = {"oldest": assert_oldest, "newest": assert_newest, "nightly": assert_nightly}
FIXED = ("types", "docs", "property", "downstream", "ecosystem", "convert", "package")
"""Environments that run on the default torch."""


def test_torch_is_the_one_the_environment_names():
    if NAME in FIXED:
        assert RELEASE == (2, 13)
    else:
        PROMISES.get(NAME, assert_named)()


def test_python_is_the_one_the_environment_names():
    named = re.match(r"py(\d)(\d+)-", NAME)
    assert sys.version_info[:2] == (tuple(map(int, named.groups())) if named else sys.version_info[:2])


def test_the_built_wheel_is_tested_and_not_the_checkout():
    assert ROOT not in Path(rnncompat.__file__).parents or ".tox" in rnncompat.__file__


def test_the_version_is_that_of_the_distribution_and_the_changelog():
    assert metadata.version("rnncompat") == rnncompat.__version__
    assert f"## [{rnncompat.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_table_of_tox_and_the_metadata_agree():
    bounds = lower_bounds()
    assert f">={'.'.join(map(str, MINORS[0]))}" == str(bounds["torch"])
    oldest = min(python for python, _ in pairs())
    assert metadata.metadata("rnncompat")["Requires-Python"] == f">={'.'.join(map(str, oldest))}"
    classifiers = metadata.metadata("rnncompat").get_all("Classifier")
    for major, minor in {python for python, _ in pairs()}:
        assert f"Programming Language :: Python :: {major}.{minor}" in classifiers


def test_every_pair_of_the_table_has_its_pins():
    text = (ROOT / "tox.ini").read_text(encoding="utf-8")
    for major, minor in MINORS:
        assert re.search(rf"torch{major}{minor}\b[^:\n]*: torch=={major}\.{minor}\.\*", text)


@pytest.mark.parametrize("name", ["README.md", "docs/compatibility.md"])
def test_the_support_tables_are_those_of_the_last_run(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert refreshed(name, text) == text
