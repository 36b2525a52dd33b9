"""What the warning of a legacy call costs once it has been given.

    python benchmarks/legacy.py [--repeat N]

Calls ``ngates``, which does next to nothing, at one line: after the first warning, and with warnings off. Blocks of
both run in turn, and the medians of process CPU time are compared; the difference is the cost of a warning that is
not given again. The goal is below 1 µs.
"""

import argparse
import statistics
import time
import warnings

from rnncompat import legacy

CALLS = 20_000
GOAL = 1.0  # microseconds


def block() -> float:
    """Microseconds a call, in the mode that is set."""
    mode = legacy.CUDNN_LSTM
    start = time.process_time()
    for _ in range(CALLS):
        legacy.ngates(mode)
    return (time.process_time() - start) / CALLS * 1e6


def cost(repeat: int) -> tuple[float, float]:
    """Medians of the calls that have warned and of those with warnings off."""
    warned, quiet = [], []
    for _ in range(repeat):
        warned.append(block())
        with legacy.legacy_warnings("quiet"):
            quiet.append(block())
    return statistics.median(warned), statistics.median(quiet)


def main() -> None:
    """Prints one line of the table in docs/benchmarks.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=31)
    repeat = parser.parse_args().repeat
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        block()  # the first warning
    warned, quiet = cost(repeat)
    missed = "" if warned - quiet < GOAL else "missed"
    print(
        f"| legacy warning | a call that has warned, against warnings off, µs | {quiet:.2f} | {warned:.2f} | "
        f"{warned - quiet:.2f} more | {GOAL:.2f} | {missed} |"
    )


if __name__ == "__main__":
    main()
