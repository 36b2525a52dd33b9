"""Compares the public interface with that of the last release: ``tox run -e api``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def last_tag() -> str:
    """The newest tag of a release that HEAD descends from; empty if there is none."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def main() -> int:
    """0 if nothing public was lost or changed since the last release, or if there is none."""
    tag = last_tag()
    if not tag:
        print("There is no tag v* yet: nothing is released, so nothing can break.")
        return 0
    print(f"Against {tag}:", flush=True)
    command = [sys.executable, "-m", "griffe", "check", "rnncompat", "--search", ".", "--against", tag]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
