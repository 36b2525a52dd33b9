"""The tools of the version matrix report what was run, failures and skips included."""

from __future__ import annotations

import shutil
import sys

import matrix
import pytest
import records
import support_table
from records import FAILED, PASSED, SKIPPED, Record

XML = """<testsuites><testsuite tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}">
<properties><property name="python" value="3.11.7"/><property name="torch" value="2.9.1+cu128"/>
<property name="numpy" value="2.4.6"/></properties></testsuite></testsuites>"""


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """An empty folder for reports; nothing in the checkout is touched."""
    for module in (records, matrix):
        monkeypatch.setattr(module, "REPORTS", tmp_path)
    monkeypatch.setattr(matrix, "WORK", tmp_path / "tox")
    monkeypatch.setattr(matrix, "CACHE", tmp_path / "tox" / "cache")
    return tmp_path


def write(folder, env, **counts):
    (folder / f"{env}.xml").write_text(
        XML.format(**{"tests": 20, "failures": 0, "errors": 0, "skipped": 3} | counts), encoding="utf-8"
    )


def test_a_run_is_what_its_report_says(reports):
    write(reports, "good")
    record = records.from_run("good", code=0, seconds=1.6, selection="-m compat")
    assert (record.result, record.passed, record.failed, record.skipped) == (PASSED, 17, 0, 3)
    assert (record.python, record.torch, record.numpy) == ("3.11.7", "2.9.1+cu128", "2.4.6")
    assert (record.seconds, record.selection) == (2, "-m compat")
    record.save()
    assert records.load_reports() == [record]


@pytest.mark.parametrize(
    ("counts", "code", "reason"),
    [
        ({"failures": 2, "errors": 1}, 1, ""),
        ({}, 1, "a command after the suite failed"),
        (None, 1, "no test ran: the environment could not be made"),
        (None, 0, "no test ran: the environment could not be made"),
    ],
)
def test_a_failure_is_never_a_pass(reports, counts, code, reason):
    if counts is not None:
        write(reports, "bad", **counts)
    record = records.from_run("bad", code=code, seconds=1, selection="")
    assert (record.result, record.reason) == (FAILED, reason)
    assert record.failed == (3 if counts else 0)


@pytest.mark.parametrize("text", ["", "<testsuites><testsuite tests="])
def test_a_report_that_was_cut_short_is_a_failure_of_its_own_run_only(reports, text):
    (reports / "cut.xml").write_text(text, encoding="utf-8")
    record = records.from_run("cut", code=2, seconds=1, selection="")
    assert (record.result, record.passed, record.failed) == (FAILED, 0, 0)
    assert record.reason.startswith("the tests broke off: their report is not whole; ")
    assert record.reason.endswith(" GB of disk free")


def test_missing_interpreters_are_skips_with_a_reason(tmp_path, monkeypatch):
    launcher = tmp_path / "python3.98"
    launcher.write_text("#!/bin/sh\necho python3.98: command not found >&2; exit 127\n", encoding="utf-8")
    launcher.chmod(0o755)
    here = ".".join(map(str, sys.version_info[:2]))
    (tmp_path / f"python{here}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(
        shutil, "which", lambda name: str(tmp_path / name) if (tmp_path / name).exists() else None
    )
    matrix.missing.cache_clear()
    assert matrix.missing("py399") == "no python3.99 on PATH"
    assert matrix.missing(f"py{here.replace('.', '')}") == ""
    assert matrix.missing("py398") == "python3.98 on PATH does not run"
    assert matrix.missing("/usr/bin/python3") == ""
    assert matrix.run("py399-torch29", "py399", []) == Record(
        "py399-torch29", SKIPPED, "no python3.99 on PATH"
    )
    matrix.missing.cache_clear()


@pytest.mark.parametrize(
    ("results", "code"),
    [((PASSED, SKIPPED), 0), ((PASSED, FAILED), 1), ((SKIPPED, SKIPPED), 1), ((PASSED,), 0), ((FAILED,), 1)],
)
def test_the_run_fails_if_any_failed_or_none_ran(reports, monkeypatch, capsys, results, code):
    told = {f"env{k}": Record(f"env{k}", result, "because") for k, result in enumerate(results)}
    monkeypatch.setattr(matrix, "environments", lambda *which: dict.fromkeys(told, "py311"))
    monkeypatch.setattr(matrix, "run", lambda env, python, arguments: told[env])
    assert matrix.main("some") == code
    assert capsys.readouterr().out.splitlines()[-len(told) :] == [str(record) for record in told.values()]
    assert [record.env for record in records.load_reports()] == list(told)


def test_the_grid_shows_failures_and_what_was_not_run():
    ran = {"date": "2026-12-01", "passed": 17}
    kept = [
        Record("py311-torch29", PASSED, **ran),
        Record("py310-torch29", FAILED, failed=2, **ran),
        Record("py312-torch29", FAILED, "no test ran: the environment could not be made", date="2026-12-02"),
        Record("py313-torch29", SKIPPED, "no python3.13 on PATH"),
        Record("debian-sid", PASSED, python="3.14.10", torch="2.14.1+debian", **ran),
        Record("debian-trixie", SKIPPED, "needs root and debootstrap"),
    ]
    text = support_table.grid({record.env: record for record in kept})
    assert "| 2.9 | **2 failed** | 17 ✓ | **all failed** | not run | not run |" in text.splitlines()
    assert "| 1.13 | not run | not run | no wheel | no wheel | no wheel |" in text.splitlines()
    assert text.splitlines()[-1] == "Also run: `debian-sid`: torch 2.14.1+debian on Python 3.14.10, 17 ✓."
    assert "Run 2026-12-01 to 2026-12-02." in text


def test_the_newest_run_stands_and_a_skip_hides_nothing():
    old, new = (Record("py311-torch29", PASSED, date=f"2026-12-0{day}") for day in (1, 2))
    failed = Record("py311-torch29", FAILED, date="2026-12-03")
    skipped = Record("py311-torch29", SKIPPED, "no python3.11 on PATH")
    assert support_table.merged([old], [new]) == [new]
    assert support_table.merged([new], [failed]) == [failed]
    assert support_table.merged([new], [skipped]) == [new]
    assert support_table.merged([], [skipped]) == [skipped]


def test_pairs_are_sorted_newest_torch_first():
    names = ["py311-torch29", "oldest", "py310-torch210", "py313-torch210", "py311-torch113"]
    made = support_table.merged([], [Record(name, PASSED) for name in names])
    assert [record.env for record in made] == [names[2], names[3], names[0], names[4], names[1]]
