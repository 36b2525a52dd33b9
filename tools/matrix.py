"""Runs the environments of a label of tox.ini, one at a time, each removed after its run.

    python tools/matrix.py matrix                 a label
    python tools/matrix.py compat -m compat       with arguments for pytest
    python tools/matrix.py --env py312-torch26    one environment

All at once would fill over 40 GB; one alone takes up to 7. An interpreter that is missing is a skip,
and said so; an environment that fails does not stop the rest. Ends with a line for each and exits
with 1 if any failed or none ran.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from functools import cache

from records import FAILED, PASSED, REPORTS, ROOT, SKIPPED, Record, free_space, from_run

WORK = ROOT / ".tox"
CACHE = WORK / "uv-cache"
TOX = [sys.executable, "-m", "tox"]

# uv does not read pip's settings; whoever gave pip a source of wheels means uv too.
SETTINGS = {
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
}


def settings() -> dict[str, str]:
    """The environment that tox runs in."""
    handed = {uv: os.environ[pip].replace(" ", ",") for pip, uv in SETTINGS.items() if os.environ.get(pip)}
    return {**handed, **os.environ, "UV_CACHE_DIR": str(CACHE), "UV_PYTHON_DOWNLOADS": "never"}


def environments(*which: str) -> dict[str, str]:
    """Names of the environments of ``-m LABEL`` or ``-e NAME``, each with the Python it asks for."""
    command = [*TOX, "config", *which, "-k", "base_python"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"\[testenv:([^\]]+)\]\nbase_python = (\S+)", told))


@cache
def missing(python: str) -> str:
    """Why there is no interpreter for *python*, a path or such as ``py312``; empty if there is one."""
    named = re.fullmatch(r"py(\d)(\d+)", python)
    if named is None:
        return ""
    version = ".".join(named.groups())
    path = shutil.which(f"python{version}")
    if path is None:
        return f"no python{version} on PATH"
    ask = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    told = subprocess.run(
        ask, capture_output=True, text=True, check=False
    )  # a launcher may find nothing to launch
    return "" if told.stdout.strip() == version else f"python{version} on PATH does not run"


def run(env: str, python: str, arguments: list[str]) -> Record:
    """Runs one environment and removes it."""
    why = missing(python)
    if why:
        return Record(env, SKIPPED, why)
    (REPORTS / f"{env}.xml").unlink(missing_ok=True)
    print(f"== {env}, {free_space()}", flush=True)
    start = time.monotonic()
    command = [
        *TOX,
        "run",
        "--runner",
        "uv-venv-runner",
        "-e",
        env,
        *(["--", *arguments] if arguments else []),
    ]
    code = subprocess.run(command, cwd=ROOT, env=settings(), check=False).returncode
    record = from_run(env, code=code, seconds=time.monotonic() - start, selection=" ".join(arguments))
    for folder in (WORK / env, CACHE):
        shutil.rmtree(folder, ignore_errors=True)
    return record


def main(which: str, *arguments: str) -> int:
    """Runs the environments of a label, or of ``--env NAME``; 0 if none failed and at least one ran."""
    if which == "--env":
        which, *arguments = arguments
        found = environments("-e", which)
    else:
        found = environments("-m", which)
    records = []
    for env, python in found.items():
        records.append(run(env, python, list(arguments)))
        records[-1].save()
    print(f"\n{which}:")
    print(*records, sep="\n", flush=True)
    results = {record.result for record in records}
    return 0 if PASSED in results and FAILED not in results else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
