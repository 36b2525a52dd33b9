"""Keeps the outcome of ``tools/debian.sh``.

python tools/record_debian.py ENV skipped|failed REASON
python tools/record_debian.py ENV ran CODE SECONDS SELECTION
"""

from __future__ import annotations

import sys

from records import Record, from_run


def main(env: str, result: str, *rest: str) -> None:
    """Saves and shows the record."""
    if result == "ran":
        code, seconds, selection = rest
        record = from_run(env, code=int(code), seconds=float(seconds), selection=selection)
    else:
        record = Record(env, result, *rest)
    record.save()
    print(record)


if __name__ == "__main__":
    main(*sys.argv[1:])
