"""Every link between our documents leads somewhere, and no promise stands alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
