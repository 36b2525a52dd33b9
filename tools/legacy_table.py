"""Writes the table of old names into docs/migrating.md from the registry.

python tools/legacy_table.py
"""

from __future__ import annotations

from pathlib import Path

from rnncompat.legacy.registry import REGISTRY, Kind, LegacyName

GUIDE = Path(__file__).parents[1] / "docs" / "migrating.md"
BEGIN, END = "<!-- begin names -->", "<!-- end names -->"

_WHAT = {Kind.CALL: "works and warns", Kind.CONSTANT: "works", Kind.STUB: "raises, naming the replacement"}
_TOOL = {"rewrite": "rewrites", "todo": "marks"}


def line(row: LegacyName) -> str:
    """The row of one old name."""
    cells = (
        f"[`{row.name}`](#{row.anchor})",
        _WHAT[row.kind],
        row.replacement,
        _TOOL[row.codemod],
        row.since,
        row.removal,
    )
    return f"| {' | '.join(cells)} |"


def table() -> str:
    """A row for each name of the registry, in its order."""
    head = "| old name | today | use instead | `migrate` | deprecated since | goes in |"
    return "\n".join([head, "|---|---|---|---|---|---|", *map(line, REGISTRY.values())])


def refreshed(text: str) -> str:
    """The guide with the table as the registry says."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    GUIDE.write_text(refreshed(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
