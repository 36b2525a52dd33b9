"""Times upsample_nearest against F.interpolate and repeat_interleave, forward alone and with a backward pass.

    python benchmarks/upsample.py [--device cuda] [--threads N] [--quick] [--only WORD] [--markdown FILE]

All sides of a row run in one process, in turn. On one CPU thread the numbers are medians of process CPU time,
on more of wall time, on a GPU of the time between two events around a queue of calls. A ratio above 1 means that
rnncompat is faster than F.interpolate. The goal of each row is printed beside it, missed goals included.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import side_by_side
import torch
from torch.nn import functional as F

from rnncompat import upsample_nearest

NARROW, WIDE, LAST, HOST = "narrow rows", "wide rows", "channels last", "host"
GOALS = {NARROW: 1.0, WIDE: 1 / 1.1, LAST: 1 / 1.1, HOST: 1 / 1.1}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}

CASES = (  # where a row has fewer than 64 entries it is narrow
    (NARROW, (64, 256, 4, 4), (2, 2)),
    (NARROW, (16, 128, 8, 8), (2, 2)),
    (NARROW, (8, 512, 14, 14), (2, 2)),
    (NARROW, (8, 64, 32, 32), (2, 2)),
    (NARROW, (8, 64, 32, 32), (1, 2)),
    (NARROW, (8, 64, 32, 32), (2, 1)),
    (NARROW, (4, 16, 40, 40), (3, 3)),
    (NARROW, (4, 64, 16, 16), (4, 4)),
    (NARROW, (1, 8, 32, 32), (8, 8)),
    (NARROW, (1, 3, 32, 32), (2, 2)),
    (NARROW, (32, 64, 25), (2,)),
    (NARROW, (32, 64, 25), (3,)),
    (NARROW, (4, 64, 16), (64,)),
    (NARROW, (2, 16, 8, 16, 16), (2, 2, 2)),
    (NARROW, (1, 8, 32, 32, 32), (2, 2, 2)),
    (WIDE, (2, 16, 128, 128), (2, 2)),
    (WIDE, (1, 3, 512, 512), (2, 2)),
    (WIDE, (16, 64, 64, 64), (2, 2)),
    (WIDE, (1, 3, 512, 512), (3, 3)),
    (WIDE, (4, 16, 64, 64), (4, 4)),
    (WIDE, (32, 256, 100), (2,)),
    (WIDE, (64, 32, 500), (3,)),
    (WIDE, (1, 1, 100_000), (2,)),
    (WIDE, (1, 4, 64, 64, 64), (2, 2, 2)),
    (LAST, (8, 64, 32, 32), (2, 2)),
    (LAST, (8, 512, 14, 14), (2, 2)),
    (LAST, (4, 16, 64, 64), (4, 4)),
    (LAST, (1, 3, 512, 512), (2, 2)),
    (HOST, (1, 3, 32), (2,)),
    (HOST, (1, 3, 32, 32), (2, 2)),
    (HOST, (1, 3, 8, 8, 8), (2, 2, 2)),
)  # "host", on a GPU only: wall time of calls whose work is nothing

Run = Callable[[], Any]


@dataclass
class Row:
    """One comparison: the three calls that do the same work."""

    group: str
    label: str
    interpolate: Run
    repeat: Run
    ours: Run


def rows(device: str) -> Iterator[Row]:
    """Every case in every dtype, forward alone and with a backward pass."""
    for group, shape, factors in CASES:
        if group == HOST and device == "cpu":
            continue
        for name, dtype in DTYPES.items():
            x = torch.randn(shape, device=device).to(dtype)
            if group == LAST:
                x = x.contiguous(memory_format=torch.channels_last)
            x.requires_grad_()
            calls = [
                lambda x=x, f=factors: F.interpolate(x, scale_factor=[float(n) for n in f], mode="nearest"),
                lambda x=x, f=factors: repeat_interleave(x, f),
                lambda x=x, f=factors: upsample_nearest(x, f),
            ]
            label = f"{shape} x {factors}, {name}"
            yield Row(group, label + ", forward", *(without_gradient(call) for call in calls))
            dy = torch.randn_like(calls[0]())
            yield Row(group, label + ", both", *(with_backward(call, x, dy) for call in calls))


def repeat_interleave(x: torch.Tensor, factors: tuple[int, ...]) -> torch.Tensor:
    """What people write by hand, the innermost axis first, as it is faster."""
    for axis, factor in reversed(list(enumerate(factors, 2))):
        x = x.repeat_interleave(factor, axis)
    return x


def without_gradient(run: Run) -> Run:
    """The call alone."""
    return torch.no_grad()(run)


def with_backward(run: Run, x: torch.Tensor, dy: torch.Tensor) -> Run:
    """The call and its backward pass."""
    return lambda: torch.autograd.grad(run(), x, dy)


def wall(run: Run, times: int) -> float:
    """Wall time of one call in seconds, the mean of *times*."""
    begin = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - begin) / times


def on_gpu(run: Run, times: int) -> float:
    """Time of one call in seconds between events on the GPU, the mean of 20 queued behind a pause.

    The pause is long enough for Python to fill the queue: what a call costs the host is timed by itself.
    """
    times = min(times, 20)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(times * 500_000)  # noqa: SLF001  # torch's own benchmarks use it; it has no public name
    begin.record()
    for _ in range(times):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / times / 1e3


def clock(device: str, group: str) -> Callable[[Run, int], float]:
    """What the numbers are measured with, after a call that is not: the side before it left other things in the cache."""
    on_cpu = side_by_side.timed if torch.get_num_threads() == 1 else wall
    timed = on_gpu if device == "cuda" and group != HOST else on_cpu if device == "cpu" else wall

    def warm(run: Run, times: int) -> float:
        run()
        return timed(run, times)

    return warm


def machine(device: str) -> str:
    """What the numbers belong to."""
    gpu = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}; " if device == "cuda" else ""
    return gpu + side_by_side.machine()


def main() -> None:
    """Runs the rows asked for and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1, help="threads on the CPU")
    parser.add_argument("--quick", action="store_true", help="a third of the time for each row")
    parser.add_argument("--only", default="", help="only rows whose group or label contains this")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    budget = (0.1 if options.quick else 0.3) / (6 if options.device == "cuda" else 1)
    lines = [
        machine(options.device),
        "",
        "| group | what | F.interpolate, ms | repeat_interleave, ms | ours, ms | ratio | goal | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for row in rows(options.device):
        if options.only not in f"{row.group} {row.label}":
            continue
        runs = [row.interpolate, row.repeat, row.ours]
        theirs, repeat, ours = side_by_side.medians(runs, budget, clock(options.device, row.group))
        goal = GOALS[row.group]
        verdict = "" if round(theirs / ours, 2) >= round(goal, 2) else "missed"  # 1.00 is equal
        lines.append(
            f"| {row.group} | {row.label} | {theirs:.4g} | {repeat:.4g} | {ours:.4g} | {theirs / ours:.2f} "
            f"| {goal:.2f} | {verdict} |"
        )
        print(lines[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
