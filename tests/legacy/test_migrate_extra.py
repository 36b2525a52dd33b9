"""Without LibCST the migration tool says what to install, and the rest goes on working."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["libcst"] = None  # as if it were not installed
from rnncompat.legacy.__main__ import main
sys.exit(main(["migrate", "--check", "."]))
"""


def test_a_missing_extra_is_named(tmp_path):
    done = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "migrate needs LibCST, which is not installed: pip install 'rnncompat[migrate]'\n"
