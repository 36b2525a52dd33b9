"""Draws the ratios of the table of docs/benchmarks.md, from that table.

    python tools/plots.py

writes one SVG a plot into docs/plots/; tests/test_docs.py checks that they are those of the table. A bar is the time
of what a user of torch would pick instead divided by ours, on a logarithmic scale: to the right of the line at 1 ours
is faster, to the left, in another colour, slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from math import ceil, floor, log2
from typing import NamedTuple

from records import ROOT

SOURCE = ROOT / "docs" / "benchmarks.md"
FOLDER = ROOT / "docs" / "plots"

LEFT, WIDTH, RIGHT = 300, 400, 60  # pixels: labels, bars, numbers beyond the longest bar
BAR, GAP, HEAD, FOOT = 9, 8, 62, 26
KINDS = ("inference", "training")
COLOURS = {
    ("inference", True): "#8fbcdb",
    ("training", True): "#1f5f99",
    ("inference", False): "#f0b27a",
    ("training", False): "#c0561b",
}
"""By kind, and whether ours is at least as fast."""


class Row(NamedTuple):
    """One row of the table."""

    group: str
    what: str
    ratio: float

    @property
    def kind(self) -> str:
        """Inference, which one step without gradients is too, or training."""
        return "training" if "training" in f"{self.group} {self.what}" else "inference"

    @property
    def label(self) -> str:
        """What was measured, the same for inference and training."""
        what = re.sub(r" (inference|training)$", "", self.what).replace("torch.", "", 1)
        what = f"{what}, float16" if self.group == "float16" else what
        return re.sub(r", one vector, against .*", ", one vector", what)


def is_plain(row: Row) -> bool:
    """Whether it is float32 without projection."""
    return not re.search("float|projection", row.what)


PLOTS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "dense": ("Dense sequences, float32", lambda r: r.group.startswith("dense") and is_plain(r)),
    "ragged": ("Sequences of different lengths, float32", lambda r: r.group.startswith("ragged")),
    "dtypes": (
        "Other dtypes, and a projection",
        lambda r: r.group == "float16" or (r.group.startswith("dense") and not is_plain(r)),
    ),
    "steps": ("One step", lambda r: r.group in ("one step", "legacy step")),
}
"""By file name: the title, and which rows are drawn. The others do not compare with torch."""


def table(text: str) -> list[Row]:
    """The rows of the tables whose columns are group, what, two times, the ratio, the goal and its verdict."""
    rows: list[Row] = []
    heads: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells[:1] in (["group"], ["what"]):
            heads = cells
        elif line[:2] == "| " and len(cells) == len(heads) == 7 and heads[0] == "group":
            rows.append(Row(cells[0], cells[1], float(cells[4])))
    return rows


def rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    """A filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def words(x: float, y: float, text: str, more: str = "") -> str:
    """A line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>'


def legend(rows: list[Row]) -> list[str]:
    """Under the title: which colour is what, of those that occur."""
    found = {(row.kind, row.ratio >= 1) for row in rows}
    parts, x = [], float(LEFT)
    for kind, faster in filter(found.__contains__, COLOURS):
        text = kind if faster else f"{kind}, slower"
        parts += [rect(x, 29, 10, 10, COLOURS[kind, faster]), words(x + 14, 38, text)]
        x += 30 + 6 * len(text)
    return parts


def axis(low: int, high: int, bottom: float, place: Callable[[float], float]) -> list[str]:
    """Grid lines at the powers of two, the one at 1 in black."""
    parts = []
    for power in range(low, high + 1):
        x = place(2.0**power)
        colour = "#222" if power == 0 else "#ddd"
        parts.append(f'<line x1="{x:.1f}" y1="{HEAD - 6}" x2="{x:.1f}" y2="{bottom:.1f}" stroke="{colour}"/>')
        text = "1 = torch" if power == 0 else f"{2.0**power:g}"
        parts.append(words(x, bottom + 15, text, ' text-anchor="middle"'))
    return parts


def drawing(title: str, rows: list[Row]) -> str:
    """The SVG of some rows: a line a label, a bar a kind."""
    labels = list(dict.fromkeys(row.label for row in rows))
    kinds = [kind for kind in KINDS if any(row.kind == kind for row in rows)]
    low = min(-1, floor(log2(min(row.ratio for row in rows))))
    high = max(1, ceil(log2(max(row.ratio for row in rows))))
    step = len(kinds) * BAR + GAP
    bottom = HEAD + step * len(labels)

    def place(ratio: float) -> float:
        return LEFT + WIDTH * (log2(ratio) - low) / (high - low)

    parts = [words(LEFT, 18, title, ' font-weight="bold" font-size="14"'), *legend(rows)]
    parts += axis(low, high, bottom, place)
    for n, label in enumerate(labels):
        top = HEAD + step * n
        parts.append(words(LEFT - 10, top + step / 2, label, ' text-anchor="end"'))
        for row in (row for row in rows if row.label == label):
            y = top + kinds.index(row.kind) * BAR
            begin, end = sorted((place(1), place(row.ratio)))
            parts.append(rect(begin, y, end - begin, BAR - 1, COLOURS[row.kind, row.ratio >= 1]))
            parts.append(words(max(end, place(1)) + 4, y + BAR - 1, f"{row.ratio:.2f}", ' font-size="9"'))
    width, height = LEFT + WIDTH + RIGHT, bottom + FOOT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="11" fill="#222">'
    )
    heading = f"<title>{escape(title)}: how many times as fast as torch</title>"
    return "\n".join([head, heading, rect(0, 0, width, height, "#fff"), *parts, "</svg>\n"])


def drawn(text: str) -> dict[str, str]:
    """The SVG files, by name, for the text of docs/benchmarks.md."""
    rows = table(text)
    return {f"{name}.svg": drawing(title, list(filter(take, rows))) for name, (title, take) in PLOTS.items()}


def main() -> None:
    """Writes the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, svg in drawn(SOURCE.read_text(encoding="utf-8")).items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
        print(f"docs/plots/{name}")


if __name__ == "__main__":
    main()
