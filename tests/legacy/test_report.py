"""``report`` counts every legacy call of a program at its line, and keeps out of the program's way."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rnncompat.legacy.report import FOUND

PROGRAM = """\
import sys
import threading

from rnncompat import legacy


def call():
    for _ in range(3):
        legacy.ngates(2)


class Own(legacy.RNNDesc):
    def __init__(self):
        super().__init__(legacy.CUDNN_GRU, 3, 2)


call()
thread = threading.Thread(target=call)
thread.start()
thread.join()
with legacy.legacy_warnings("quiet"):
    legacy.hBatch(Own().bias, Own().bias)
print("argv:", *sys.argv[1:], __name__)
end = sys.argv[1] if sys.argv[1:] else ""
if end == "raise":
    raise LookupError("the program's own")
sys.exit({"": None, "words": "bad words", "7": 7}[end])
"""
LINES = {("ngates", 9): 6, ("RNNDesc", 14): 2, ("hBatch", 22): 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "clean.py").write_text("print('clean')\n", encoding="utf-8")
    return folder


def run(folder, *arguments, **variables):
    return subprocess.run(  # noqa: S603  # our own program
        [sys.executable, "-m", "rnncompat.legacy", "report", *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "variables", [{}, {"RNNCOMPAT_LEGACY": "quiet"}, {"RNNCOMPAT_LEGACY": "error"}], ids=str
)
def test_every_call_is_counted_whatever_the_switches_say(folder, variables):
    done = run(folder, "--json", "calls.json", "--", "program.py", **variables)
    report = json.loads((folder / "calls.json").read_text(encoding="utf-8"))
    assert {(c["name"], c["line"]): c["count"] for c in report["calls"]} == LINES
    assert {c["file"] for c in report["calls"]} == {"program.py"}
    assert (report["total"], report["program_exit"]) == (9, 0)
    assert report["calls"][0]["replacement"] == "rnncompat.RNNDescriptor.gates"
    assert report["calls"][0]["guide"] == "docs/migrating.md#ngates"
    assert (done.returncode, done.stdout, done.stderr) == (0, "argv: __main__\n", "")


def test_the_text_names_place_count_and_replacement(folder):
    done = run(folder, "program.py")
    assert "program.py:9   6 x legacy.ngates(): use rnncompat.RNNDescriptor.gates\n" in done.stderr
    assert "9 legacy calls of 3 names at 3 places.\n" in done.stderr
    assert "LegacyRNNWarning" not in done.stderr
    assert "No legacy calls." in run(folder, "clean.py").stderr


def test_json_goes_to_standard_output_if_asked(folder):
    done = run(folder, "--json", "-", "clean.py")
    assert json.loads(done.stdout.removeprefix("clean\n")) == {"total": 0, "program_exit": 0, "calls": []}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("program.py",), 0),
        (("--fail-on-found", "program.py"), FOUND),
        (("--fail-on-found", "clean.py"), 0),
        (("--fail-on-found", "program.py", "7"), 7),
        (("program.py", "words"), 1),
        (("program.py", "raise"), 1),
        (("missing.py",), 1),
    ],
    ids=str,
)
def test_exit_codes(folder, arguments, code):
    assert run(folder, *arguments).returncode == code


def test_an_exception_is_shown_as_the_programs_own_and_the_report_follows(folder):
    done = run(folder, "--", "program.py", "raise", "--json")
    assert done.stdout == "argv: raise --json __main__\n"
    shown, report = done.stderr.split("LookupError: the program's own\n")
    assert shown.startswith('Traceback (most recent call last):\n  File "program.py", line 26, in <module>\n')
    assert "9 legacy calls" in report
    assert "bad words" in run(folder, "program.py", "words").stderr


def test_modules_run_as_python_does(folder):
    done = run(folder, "-m", "program", "7")
    assert (done.returncode, done.stdout) == (7, "argv: 7 __main__\n")
    assert "program.py:9   6 x" in done.stderr
