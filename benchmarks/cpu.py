"""Times rnncompat against what a user of torch would pick instead, on one CPU thread.

    python benchmarks/cpu.py [--quick] [--only WORD] [--markdown FILE]

Each row runs both sides in one process, in turn, and compares medians of *process CPU time*: wall time is
useless on a shared machine. A ratio above 1 means that rnncompat is faster. The goal of each row is printed
beside it, missed goals included.
"""

import argparse
import datetime as dt
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import rnncompat
from rnncompat import legacy
from rnncompat.versions import TORCH_RELEASE

CELLS = {"LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU, "RNN": torch.nn.RNN}
CORE = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}
HALF_ON_CPU = TORCH_RELEASE >= (2, 2)  # before, torch.nn has no float16 on the CPU to compare with
SHAPES = [(50, 1, 64, 128), (1000, 4, 64, 64), (100, 32, 128, 256), (512, 16, 256, 512)]  # T, B, I, H


@dataclass
class Row:
    """One comparison: *other* and *ours* do the same work, in inference mode or with a backward pass from ones."""

    group: str
    label: str
    other: Callable[[], Any]
    ours: Callable[[], Any]
    goal: float
    training: bool = False


def pair(cell: str, inputs: int, hidden: int, **options: Any) -> tuple[Any, Any]:
    """A module of torch.nn and ours with the same weights."""
    other = CELLS[cell](inputs, hidden, **options)
    return other, getattr(rnncompat, cell).from_torch(other)


def dense_rows() -> Iterator[Row]:
    """Whole sequences without gaps."""
    for shape in SHAPES:
        steps, batch, inputs, hidden = shape
        for cell in CELLS:
            other, ours = pair(cell, inputs, hidden)
            x = torch.randn(steps, batch, inputs, requires_grad=True)
            small, large = batch <= 4, batch >= 16 and hidden >= 256
            goal = {True: 2.5, False: 1.05}[small] if cell != "LSTM" and (small or large) else 0.95
            a, b = lambda m=other, x=x: m(x)[0], lambda m=ours, x=x: m(x)[0]
            yield Row("dense inference", f"{cell} {shape}", a, b, 0.95)
            yield Row("dense training", f"{cell} {shape}", a, b, goal, training=True)
    shape = (100, 32, 128, 256)
    for cell in CELLS:
        other, ours = pair(cell, 128, 256, num_layers=2, bidirectional=True)
        x = torch.randn(100, 32, 128, requires_grad=True)
        a, b = lambda m=other, x=x: m(x)[0], lambda m=ours, x=x: m(x)[0]
        label = f"{cell} {shape}, 2 layers, 2 directions"
        yield Row("dense inference", label, a, b, 0.95)
        yield Row("dense training", label, a, b, 0.95, training=True)


def other_dense_rows() -> Iterator[Row]:
    """Dense sequences in other dtypes, and with a projection."""
    for shape in (SHAPES[0], SHAPES[2]):
        steps, batch, inputs, hidden = shape
        kinds: list[tuple[str, str, dict[str, Any]]] = [
            (cell, str(dtype), {"dtype": dtype})
            for cell in CELLS
            for dtype in (torch.float64, torch.bfloat16)
        ]
        kinds.append(("LSTM", f"projection to {hidden // 4}", {"proj_size": hidden // 4}))
        for cell, label, options in kinds:
            other, ours = pair(cell, inputs, hidden, **options)
            x = torch.randn(steps, batch, inputs, dtype=options.get("dtype"), requires_grad=True)
            a, b = lambda m=other, x=x: m(x)[0], lambda m=ours, x=x: m(x)[0]
            yield Row(
                "dense inference",
                f"{cell} {shape}, {label}",
                a,
                b,
                0.95,
            )
            yield Row("dense training", f"{cell} {shape}, {label}", a, b, 0.95, training=True)


def ragged_rows() -> Iterator[Row]:
    """Lengths uniform in T/4..T: torch packs, runs and pads; ours takes the padded tensor and the lengths."""
    cases = [(shape, cell, {}) for shape in SHAPES[1:] for cell in CELLS]
    cases.append(((100, 32, 128, 256), "LSTM", {"num_layers": 2, "bidirectional": True}))
    for (steps, batch, inputs, hidden), cell, options in cases:
        other, ours = pair(cell, inputs, hidden, **options)
        x = torch.randn(steps, batch, inputs, requires_grad=True)
        lengths = torch.randint(steps // 4, steps + 1, (batch,), generator=torch.Generator().manual_seed(0))
        lengths[0] = steps

        def through_packing(m: Any = other, x: Any = x, lengths: Any = lengths) -> torch.Tensor:
            packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
            return pad_packed_sequence(m(packed)[0], total_length=len(x))[0]

        def direct(m: Any = ours, x: Any = x, lengths: Any = lengths) -> torch.Tensor:
            return m(x, lengths=lengths)[0]  # type: ignore[no-any-return]

        extra = ", 2 layers, 2 directions" if options else ""
        label = f"{cell} {(steps, batch, inputs, hidden)}{extra}"
        goal = 1.3 if options else 4.0 if steps >= 512 else 2.0
        yield Row("ragged inference", label, through_packing, direct, 1.0)
        yield Row("ragged training", label, through_packing, direct, goal, training=True)


def step_rows() -> Iterator[Row]:
    """One step of a small network, as in a control loop: torch.nn with T = 1 against ``step``."""
    for cell, goal in (("LSTM", 4.0), ("GRU", 1.8), ("RNN", 1.8)):
        for batch, inputs, hidden, wanted in ((1, 32, 64, goal), (32, 128, 256, 1.0)):
            other, ours = pair(cell, inputs, hidden)
            x = torch.randn(batch, inputs)
            h = torch.zeros(1, batch, hidden)
            state = rnncompat.RNNState(h, h.clone()) if cell == "LSTM" else h
            label = f"{cell} B={batch} I={inputs} H={hidden}"
            yield Row(
                "one step",
                label,
                lambda m=other, x=x, s=state: m(x[None], s),
                lambda m=ours, x=x, s=state: m.step(x, s),
                wanted,
            )
    for cell in CELLS:
        module = getattr(rnncompat, cell)(128, 128)
        x = torch.randn(100, 1, 128)

        def loop(m: Any = module, x: Any = x) -> None:
            state = None
            for x_t in x:
                _, state = m.step(x_t, state)

        label = f"{cell} T=100 B=1 H=128: sequence call against a loop of our own steps"
        goal = 5.0 if cell == "LSTM" else 1.0
        yield Row(
            "sequence call",
            label,
            loop,
            lambda m=module, x=x: m(x),
            goal,
        )


def legacy_rows() -> Iterator[Row]:
    """The old ``forward`` against torch's cell module; 1 / 1.4 is the goal."""
    for cell, mode in (("LSTM", 2), ("GRU", 3)):
        rnn = legacy.RNNDesc(mode, 128, 128)
        module = getattr(torch.nn, f"{cell}Cell")(128, 128)
        x, h = torch.randn(128), torch.zeros(128)
        states = (h, h.clone()) if cell == "LSTM" else (h,)
        theirs = tuple(s[None] for s in states)
        yield Row(
            "legacy step",
            f"legacy.forward {cell} H=128, one vector, against torch.nn.{cell}Cell",
            lambda m=module, x=x, s=theirs: m(x[None], s if len(s) == 2 else s[0]),
            lambda r=rnn, x=x, s=states: legacy.forward(r, x, *s),
            1 / 1.4,
        )


def option_rows() -> Iterator[Row]:
    """Options of ours against our own call without them, and float16 against torch's."""
    steps, batch, hidden = 64, 128, 256
    for cell in CELLS:
        module = getattr(rnncompat, cell)(hidden, hidden)
        x = torch.randn(steps, batch, hidden, requires_grad=True)
        resets = torch.rand(steps, batch, generator=torch.Generator().manual_seed(0)) < 0.05
        plain, cut = lambda m=module, x=x: m(x)[0], lambda m=module, x=x, r=resets: m(x, resets=r)[0]
        label = f"{cell} (64, 128, 256, 256), 5 % resets, against no resets"
        yield Row("resets", label + ", inference", plain, cut, 1 / 1.5)
        yield Row("resets", label + ", training", plain, cut, 1 / 1.5, training=True)
        every = lambda m=module, x=x: m(x, return_states="all")[0]  # noqa: E731  # beside its twin
        label = f"{cell} (64, 128, 256, 256), states of every step, against the last"
        yield Row("all states", label, plain, every, 1 / 3.5)
    if HALF_ON_CPU:
        for cell in CELLS:
            other, ours = pair(cell, 128, 256, dtype=torch.float16)
            x = torch.randn(100, 32, 128, dtype=torch.float16, requires_grad=True)
            a, b = lambda m=other, x=x: m(x)[0], lambda m=ours, x=x: m(x)[0]
            label = f"{cell} (100, 32, 128, 256)"
            yield Row("float16", label + " inference", a, b, 4.0)
            yield Row("float16", label + " training", a, b, 4.0, training=True)


GROUPS = (dense_rows, other_dense_rows, ragged_rows, step_rows, legacy_rows, option_rows)


def measure(row: Row, budget: float) -> tuple[float, float]:
    """Medians in ms of both sides, run in turn for about *budget* seconds of CPU time."""
    runs = [with_backward(run) if row.training else run for run in (row.other, row.ours)]
    with torch.inference_mode(not row.training):
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


def main() -> None:
    """Runs the rows asked for and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
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
    warnings.filterwarnings("ignore", message=".*projections is not supported with oneDNN.*")  # torch.nn's
    with legacy.legacy_warnings("quiet"):
        for group in GROUPS:
            for row in group():
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


if __name__ == "__main__":
    main()
