"""Writes the support tables from the records of the last run of each environment.

    python tools/support_table.py

takes the reports of this checkout's runs into ``docs/matrix.json`` and writes the tables anew into README.md
and docs/compatibility.md, between their markers.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict

from records import PASSED, ROOT, SKIPPED, Record, load, load_reports

RECORDS = ROOT / "docs" / "matrix.json"
PAIR = re.compile(r"py(\d)(\d+)-torch(\d)(\d+)")
BEGIN, END = "<!-- begin {} -->", "<!-- end {} -->"

Pair = tuple[tuple[int, int], tuple[int, int]]


def pairs() -> list[Pair]:
    """Every (Python, torch) of the table in tox.ini."""
    text = (ROOT / "tox.ini").read_text(encoding="utf-8")
    table = text[text.index("    full =") : text.index("[testenv]")]
    rows = re.findall(r"py(\d)(\d+)-torch\{([\d,]+)\}", table)
    return [
        ((int(major), int(minor)), (int(torch[0]), int(torch[1:])))
        for major, minor, torches in rows
        for torch in torches.split(",")
    ]


def env_of(python: tuple[int, int], torch: tuple[int, int]) -> str:
    """The environment's name."""
    return f"py{python[0]}{python[1]}-torch{torch[0]}{torch[1]}"


def short(record: Record | None) -> str:
    """A cell of the small table."""
    if record is None or record.result == SKIPPED:
        return "not run"
    return f"{record.passed} ✓" if record.result == PASSED else f"**{record.failed or 'all'} failed**"


def grid(records: dict[str, Record]) -> str:
    """The small table: a row a torch, a column a Python."""
    known = pairs()
    pythons = sorted({python for python, _ in known})
    lines = [
        "| PyTorch | " + " | ".join(f"Python {a}.{b}" for a, b in pythons) + " |",
        "|---" * (len(pythons) + 1) + "|",
    ]
    for torch in sorted({torch for _, torch in known}, reverse=True):
        cells = [short(records.get(env_of(p, torch))) if (p, torch) in known else "no wheel" for p in pythons]
        lines.append(f"| {torch[0]}.{torch[1]} | " + " | ".join(cells) + " |")
    dates = sorted({r.date for r in records.values() if r.date}) or ["never"]
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    notes = (
        f"Run {when}. A number counts the tests of the suite that passed there; no wheel: PyTorch offers none for Linux "
        "and this Python; not run: the maintainers had no such interpreter, or no time."
    )
    others = [
        f"`{r.env}`: torch {r.torch} on Python {r.python}, {short(r)}"
        for r in records.values()
        if r.torch and not PAIR.fullmatch(r.env)
    ]
    also = ["", f"Also run: {'; '.join(others)}."] if others else []
    return "\n".join([*lines, "", notes, *also])


def details(records: dict[str, Record]) -> str:
    """The long table: a row a run."""
    lines = [
        "| environment | Python | torch | NumPy | result | passed | failed | skipped | tests | seconds | date | commit |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in records.values():
        result = f"{r.result}: {r.reason}" if r.reason else r.result
        if r.result == SKIPPED:
            lines.append(f"| {r.env} | | | | {result} | | | | | | | |")
            continue
        tests = f"`{r.selection}`" if r.selection else "all"
        lines.append(
            f"| {r.env} | {r.python} | {r.torch} | {r.numpy} | {result} | {r.passed} | {r.failed} | {r.skipped} "
            f"| {tests} | {r.seconds} | {r.date} | {r.commit} |"
        )
    return "\n".join(lines)


TABLES = {"README.md": {"support": grid}, "docs/compatibility.md": {"support": grid, "runs": details}}
"""Which tables stand in which file."""


def refreshed(name: str, text: str) -> str:
    """*text* of the file *name* with its tables as the kept records say."""
    records = {record.env: record for record in load(RECORDS)}
    for table, render in TABLES[name].items():
        begin, end = BEGIN.format(table), END.format(table)
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{render(records)}\n{end}{after}"
    return text


def order(record: Record) -> tuple[list[int], str]:
    """Newest torch first, then Python."""
    found = PAIR.fullmatch(record.env)
    numbers = [int(part) for part in found.groups()] if found else [0, 0, 0, 0]
    return [-numbers[2], -numbers[3], numbers[0], numbers[1]], record.env


def merged(kept: list[Record], new: list[Record]) -> list[Record]:
    """The newest outcome of each environment. A skip hides no older result; whatever ran does, a failure too."""
    records = {record.env: record for record in kept}
    records.update({r.env: r for r in new if r.result != SKIPPED or r.env not in records})
    return sorted(records.values(), key=order)


def main() -> None:
    """Takes in what is new and writes the tables."""
    records = merged(load(RECORDS) if RECORDS.exists() else [], load_reports())
    RECORDS.write_text(json.dumps([asdict(r) for r in records], indent=1) + "\n", encoding="utf-8")
    for name in TABLES:
        path = ROOT / name
        path.write_text(refreshed(name, path.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{len(records)} records in {RECORDS.relative_to(ROOT)}; tables written in {', '.join(TABLES)}")


if __name__ == "__main__":
    main()
