"""What one environment of the matrix said: read from its report, kept as JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / ".tox" / "reports"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Record:
    """The outcome of one environment.

    Attributes:
        env: name of the environment.
        result: ``"passed"``, ``"failed"`` or ``"skipped"``.
        reason: why it was skipped, or how it failed.
        python, torch, numpy: versions that the tests themselves saw; empty if none ran.
        passed, failed, skipped: numbers of tests of the suite (doctests count by *result* only).
        selection: arguments given to pytest; empty for the whole suite.
        seconds: for making the environment and running everything in it.
        date, commit: when, and of what.
    """

    env: str
    result: str
    reason: str = ""
    python: str = ""
    torch: str = ""
    numpy: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    selection: str = ""
    seconds: int = 0
    date: str = ""
    commit: str = ""

    def __str__(self) -> str:
        if self.result == SKIPPED:
            return f"{self.env:16} skipped: {self.reason}"
        tests = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        versions = f"Python {self.python or '?'}, torch {self.torch or '?'}"
        return f"{self.env:16} {self.result}: {versions}: {tests}, {self.seconds} s {self.reason}".rstrip()

    def save(self) -> None:
        """Writes the record where :func:`load_reports` finds it."""
        REPORTS.mkdir(parents=True, exist_ok=True)
        path = REPORTS / f"{self.env}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> list[Record]:
    """The records of one file."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return [Record(**entry) for entry in (found if isinstance(found, list) else [found])]


def load_reports() -> list[Record]:
    """The records of the runs made in this checkout."""
    return [record for path in sorted(REPORTS.glob("*.json")) for record in load(path)]


def from_run(env: str, *, code: int, seconds: float, selection: str) -> Record:
    """The record of a run that ended with *code*, with what pytest's own report says."""
    report = REPORTS / f"{env}.xml"
    found = _read(report)
    result = PASSED if code == 0 and found else FAILED
    reason = "" if result == PASSED or found.get("failed") else _why(found, report)
    return Record(
        env,
        result,
        reason,
        **found,
        selection=selection,
        seconds=round(seconds),
        date=datetime.now(timezone.utc).date().isoformat(),
        commit=commit(),
    )


def free_space() -> str:
    """What the disk of the checkout has left; an environment with a CUDA build takes over 5 GB."""
    return f"{shutil.disk_usage(ROOT).free / 1e9:.1f} GB of disk free"


def _why(found: dict[str, object], report: Path) -> str:
    if found:
        return "a command after the suite failed"
    if report.exists():
        return f"the tests broke off: their report is not whole; {free_space()}"
    return "no test ran: the environment could not be made"


def _read(report: Path) -> dict[str, object]:
    """What a whole report says; nothing if there is none, or if its writer was cut short."""
    try:
        root = ET.parse(report).getroot()  # noqa: S314  # written by our own pytest
    except (FileNotFoundError, ET.ParseError):
        return {}
    suite = root.find("testsuite")
    assert suite is not None
    total, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    versions = {item.attrib["name"]: item.attrib["value"] for item in suite.iter("property")}
    names = ("python", "torch", "numpy")
    counts = {"passed": total - skipped - failed, "failed": failed, "skipped": skipped}
    return {**{name: versions.get(name, "") for name in names}, **counts}


def commit() -> str:
    """The commit that is checked out, with a + if files differ from it; empty where nobody can tell."""
    if shutil.which("git") is None:
        return ""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=10"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
