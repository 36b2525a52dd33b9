"""Two ways to do the same work, side by side: timed in turn in one process, printed as rows of a table.

Each row compares medians of *process CPU time*: wall time is useless on a shared machine. A ratio above 1 means
that rnncompat is faster. The goal of each row is printed beside it, missed goals included.
"""

import argparse
import datetime as dt
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import rnncompat


@dataclass
class Row:
    """One comparison: *other* and *ours* do the same work.

    Attributes:
        goal: the least ratio that was promised.
        training: time the call and its backward pass from ones, instead of the call in inference mode.
        grad: the calls bring their own backward pass.
    """

    group: str
    label: str
    other: Callable[[], Any]
    ours: Callable[[], Any]
    goal: float
    training: bool = False
    grad: bool = False


def measure(row: Row, budget: float) -> tuple[float, float]:
    """Medians in ms of both sides, run in turn for about *budget* seconds of CPU time."""
    runs = [with_backward(run) if row.training else run for run in (row.other, row.ours)]
    with torch.inference_mode(not (row.training or row.grad)):
        other, ours = medians(runs, budget)
    return other, ours


def with_backward(run: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """The call *run* and its backward pass."""

    def step() -> None:
        output = run()
        output.backward(torch.ones_like(output))

    return step


def medians(
    runs: list[Callable[[], Any]],
    budget: float,
    clock: Callable[[Callable[[], Any], int], float] | None = None,
) -> tuple[float, ...]:
    """As :func:`measure`, for calls that are ready to be timed, by :func:`timed` or another *clock*."""
    clock = clock or timed
    sides: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    once = max(sum(clock(run, 1) for run in runs), 1e-6)
    inner = max(1, int(2e-3 / once))  # so that one sample is well above the clock's grain
    for _ in range(max(3, min(200, int(budget / once / inner)))):
        for run, times in zip(runs, sides, strict=True):
            times.append(clock(run, inner) * 1e3)
    return tuple(statistics.median(times) for times in sides)


def timed(run: Callable[[], Any], times: int) -> float:
    """Process CPU time of one call in seconds, the mean of *times*."""
    begin = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - begin) / times


def machine() -> str:
    """What the numbers belong to."""
    model = (
        next(
            (
                line.split(":")[1].strip()
                for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
                if line.startswith("model name")
            ),
            platform.processor(),
        )
        if Path("/proc/cpuinfo").exists()
        else platform.processor()
    )
    threads = torch.get_num_threads()
    return (
        f"{dt.datetime.now(dt.timezone.utc).date().isoformat()}, {model}, {threads} thread{'s' * (threads > 1)}, {torch.backends.cpu.get_cpu_capability()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}, rnncompat {rnncompat.__version__}"
    )


def compare(groups: Iterable[Callable[[], Iterator[Row]]], description: str) -> None:
    """Runs the rows of *groups* that the command line asks for, and prints the table."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a fifth of the time for each row")
    parser.add_argument("--only", default="", help="only rows whose group or label contains this")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lines = [
        machine(),
        "",
        "| group | what | other, ms | ours, ms | ratio | goal | |",
        "|---|---|---|---|---|---|---|",
    ]
    print(lines[0], flush=True)
    for row in (row for group in groups for row in group()):
        if options.only not in f"{row.group} {row.label}":
            continue
        other, ours = measure(row, 0.6 if options.quick else 3.0)
        verdict = "" if other / ours >= row.goal else "missed"
        lines.append(
            f"| {row.group} | {row.label} | {other:.4g} | {ours:.4g} | {other / ours:.2f} "
            f"| {row.goal:.2f} | {verdict} |"
        )
        print(lines[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
