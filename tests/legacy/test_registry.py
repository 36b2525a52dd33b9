"""The registry is complete, agrees with every place that repeats it, and removals are not forgotten."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import legacy_table
import pytest
from packaging.version import Version

import rnncompat
from rnncompat import UnsupportedError, legacy
from rnncompat.legacy.registry import REGISTRY, Kind, LegacyName
from rnncompat.legacy.stubs import removed_names

NAMESPACES = {row.namespace for row in REGISTRY.values()} - {""}
NEW_HERE = {
    "LegacyRNNWarning",
    "legacy_warnings",
    "LSTMGradients",
    "RNNGradients",
    "Reserve",
    "flux.FluxCell",
    "knet",
    *NAMESPACES,
}
"""Public in ``legacy`` but never an old name."""


def guide():
    return (Path(__file__).parents[2] / "docs" / "migrating.md").read_text(encoding="utf-8")


def named(name):
    """What a row speaks of."""
    return attrgetter(name)(legacy)


def public_names():
    """Those of the top level, and those that a namespace does not share with it or with another."""
    names, known = set(legacy.__all__), {id(getattr(legacy, name)) for name in legacy.__all__}
    for namespace in sorted(NAMESPACES):
        held = getattr(legacy, namespace)
        own = {name for name in held.__all__ if id(getattr(held, name)) not in known}
        names |= {f"{namespace}.{name}" for name in own}
        known |= {id(getattr(held, name)) for name in own}
    return names


def test_every_public_name_has_a_row_and_every_row_a_name():
    rows = {name for name, row in REGISTRY.items() if row.kind is not Kind.STUB}
    assert public_names() - NEW_HERE == rows - {name for name in rows if spells_another(name)}
    for name in REGISTRY:
        assert named(name) is not None


def spells_another(name):
    """A constant may be one of the top level under an older name."""
    return "." in name and any(named(name) is getattr(legacy, other) for other in legacy.__all__)


@pytest.mark.parametrize("row", REGISTRY.values(), ids=lambda row: row.name)
def test_the_removal_version_is_not_reached_and_keeps_semver(row):
    assert Version(rnncompat.__version__) < Version(row.removal)
    assert Version(row.removal).major > Version(row.since).major


@pytest.mark.parametrize(
    "row", [r for r in REGISTRY.values() if r.kind is Kind.CALL], ids=lambda row: row.name
)
def test_type_checkers_are_told_the_same(row):
    assert named(row.name).__deprecated__ == row.text


@pytest.mark.parametrize(
    "row", [r for r in REGISTRY.values() if r.kind is Kind.STUB], ids=lambda row: row.name
)
def test_a_stub_raises_and_names_the_replacement(row):
    with pytest.raises(UnsupportedError, match=re.escape(row.text)):
        named(row.name)(1, 2, seqlen=3)
    assert row.replacement in repr(named(row.name))


@pytest.mark.parametrize("row", REGISTRY.values(), ids=lambda row: row.name)
def test_the_guide_has_its_section_with_the_replacement(row):
    heading = f"\n### {row.name}\n"
    assert heading in guide()
    assert row.anchor == re.sub(r"[^\w-]", "", row.name.lower())
    assert row.replacement in guide().split(heading)[1].split("\n### ")[0]


def test_the_table_of_the_guide_is_what_the_registry_says():
    assert guide() == legacy_table.refreshed(guide())
    for row in REGISTRY.values():
        assert f"| [`{row.name}`](#{row.anchor}) |" in guide()


def test_after_its_time_a_name_says_what_to_use(monkeypatch):
    gone = LegacyName("oldest", "rnncompat.rnn_step()", "todo", since="0.0", removal="0.1")
    later = LegacyName("later", "rnncompat.rnn_step()", "todo", removal="1.0")
    monkeypatch.setitem(REGISTRY, "oldest", gone)
    monkeypatch.setitem(REGISTRY, "space.oldest", gone)
    monkeypatch.setitem(REGISTRY, "later", later)
    words = re.escape(
        "legacy.oldest was removed in 0.1; use rnncompat.rnn_step(). See docs/migrating.md#oldest"
    )
    with pytest.raises(UnsupportedError, match=words):
        legacy.oldest  # noqa: B018  # asking is the point
    with pytest.raises(UnsupportedError, match=words):
        from rnncompat.legacy import oldest  # noqa: F401, PLC0415
    with pytest.raises(UnsupportedError, match=words):
        removed_names("rnncompat.legacy.space", "space.")("oldest")
    for name in ("later", "never"):
        with pytest.raises(AttributeError, match=f"module 'rnncompat.legacy' has no attribute '{name}'"):
            getattr(legacy, name)


def test_replacements_exist():
    for row in REGISTRY.values():
        for dotted in re.findall(r"rnncompat\.([\w.]+\w)", row.replacement):
            target = rnncompat
            for part in dotted.split("."):
                target = getattr(target, part)
