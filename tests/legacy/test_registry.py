"""The registry is complete, agrees with every place that repeats it, and removals are not forgotten."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest
from packaging.version import Version

import rnncompat
from rnncompat import UnsupportedError, legacy
from rnncompat.legacy.registry import REGISTRY, Kind

NEW_HERE = {"LegacyRNNWarning", "legacy_warnings", "LSTMGradients", "RNNGradients", "Reserve"}
"""Public in ``legacy`` but never an old name."""
NAMESPACES = {"knetlayers"}
"""Modules of ``legacy`` whose names have rows of their own."""
ALIASES = {"knet"}
"""Modules of ``legacy`` whose names ``legacy`` has too."""
ROOT = Path(__file__).parents[2]


def old(name):
    return attrgetter(name)(legacy)


def public_names():
    inner = {f"{space}.{name}" for space in NAMESPACES for name in old(space).__all__}
    return set(legacy.__all__) - NEW_HERE - NAMESPACES - ALIASES | inner


def test_every_public_name_has_a_row_and_every_row_a_name():
    assert public_names() == {n for n, row in REGISTRY.items() if row.kind is not Kind.STUB}
    for name in REGISTRY:
        assert old(name) is not None
    for space in ALIASES:
        assert {name: getattr(legacy, name) for name in old(space).__all__}.items() <= vars(
            old(space)
        ).items()


@pytest.mark.parametrize("row", REGISTRY.values(), ids=lambda row: row.name)
def test_the_removal_version_is_not_reached_and_keeps_semver(row):
    assert Version(rnncompat.__version__) < Version(row.removal)
    assert Version(row.removal).major > Version(row.since).major


@pytest.mark.parametrize(
    "row", [r for r in REGISTRY.values() if r.kind is Kind.CALL], ids=lambda row: row.name
)
def test_type_checkers_are_told_the_same(row):
    assert old(row.name).__deprecated__ == row.text


@pytest.mark.parametrize(
    "row", [r for r in REGISTRY.values() if r.kind is Kind.STUB], ids=lambda row: row.name
)
def test_a_stub_raises_and_names_the_replacement(row):
    with pytest.raises(UnsupportedError, match=re.escape(row.text)):
        old(row.name)(1, 2, seqlen=3)
    assert row.replacement in repr(old(row.name))


@pytest.mark.parametrize("row", REGISTRY.values(), ids=lambda row: row.name)
def test_the_guide_has_its_section_with_the_replacement(row):
    guide = (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")
    heading = f"\n### {row.name}\n"
    assert heading in guide
    assert row.anchor == re.sub(r"[^\w\- ]", "", row.name.lower())  # as GitHub makes them
    assert row.replacement in guide.split(heading)[1].split("\n### ")[0]


def test_replacements_exist():
    for row in REGISTRY.values():
        for dotted in re.findall(r"rnncompat\.([\w.]+\w)", row.replacement):
            target = rnncompat
            for part in dotted.split("."):
                target = getattr(target, part)
