"""Every link between our documents leads somewhere, and no promise stands alone."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from plots import FOLDER, SOURCE, drawn

import rnncompat
from rnncompat.legacy.registry import REGISTRY
from rnncompat.versions import GATES

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def anchors(path):
    """The anchors that a Markdown file offers, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        known = anchors(there) if anchor and there.suffix == ".md" and there.exists() else {anchor}
        if not there.exists() or anchor not in known:
            dead.append(target)
    assert not dead


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_the_docs_name_every_gate(gate):
    major, minor = gate.since
    row = f"| {gate.what} | {major}.{minor} | {gate.before} |"
    assert row in (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "name",
    [f"rnncompat.{name}" for name in rnncompat.__all__ if name != "__version__"]
    + [f"rnncompat.legacy.{name}" for name in REGISTRY],
)
def test_the_api_page_has_every_public_name(name):
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert re.search(rf"\b{re.escape(name)}\b|\b{name.rsplit('.', 1)[1]}\b", text)


TESTED = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)|\[✓\]\((tests/[\w/]+\.py) \"(test_\w+)\"\)")


def rows_of(text):
    """The rows of the tables of a Markdown text, cell by cell."""
    return [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:2] == "| "
    ]


def assert_tests_exist(text):
    found = TESTED.findall(text)
    assert found
    for name, path, path_of_tick, name_of_tick in found:
        source = (ROOT / (path or path_of_tick)).read_text(encoding="utf-8")
        assert re.search(rf"^def {name or name_of_tick}\(", source, re.MULTILINE), name or name_of_tick


def test_every_need_has_a_row_and_its_tests_exist():
    text = (ROOT / "docs" / "user-needs.md").read_text(encoding="utf-8")
    rows = {int(row[0]): row for row in rows_of(text) if row[0].isdigit()}
    assert list(rows) == [*range(1, 27), *range(41, 64)]
    for row in rows.values():
        assert all(row)
        assert TESTED.search(row[-1])
    assert_tests_exist(text)


def test_every_tick_of_the_readme_leads_to_its_test():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.partition("## Beside torch.nn")[2].partition("## Work on it")[0]
    rows = [row for row in rows_of(table) if row[1] and row[1] != "rnncompat"]
    assert len(rows) > 30
    for _, ours, theirs in rows:
        assert TESTED.match(ours) or ours.startswith("✗")
        assert theirs
    assert_tests_exist(table)


def test_the_plots_are_those_of_the_table():
    expected = drawn(SOURCE.read_text(encoding="utf-8"))
    assert expected == {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    for svg in expected.values():
        ET.fromstring(svg)  # noqa: S314  # ours
        assert "slower" in svg or not re.search(r">0\.\d\d<", svg)
