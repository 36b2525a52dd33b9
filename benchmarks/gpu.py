"""Times our modules against torch.nn on an NVIDIA GPU: forward, a training step, and peak memory.

    python benchmarks/gpu.py [--quick] [--only WORD] [--markdown FILE]

Both sides run in one process, in turn, with the same weights. Times are medians of wall time up to the end of the
work on the GPU, host included, as an eager caller sees it; rows marked "captured" replay CUDA graphs of both. A
ratio above 1 means that rnncompat is faster. First stands what one step costs on the host, over calls in a row.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import side_by_side
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import rnncompat

CELLS = {"LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU}
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SHAPES = [  # T, B, I, H, layers, both directions
    (1, 1, 128, 128, 1, False),
    (1, 64, 512, 512, 1, False),
    (100, 1, 256, 256, 1, False),
    (128, 64, 256, 256, 2, True),
    (512, 32, 1024, 1024, 2, False),
    (100, 256, 512, 512, 4, False),
]
GOAL = 0.95
HOST_GOAL = 1 / 0.9

Run = Callable[[], torch.Tensor]


@dataclass
class Row:
    """Two ways to the same output, and whether a backward pass is timed too."""

    label: str
    other: Run
    ours: Run
    training: bool
    captured: bool = False


def rows() -> Iterator[Row]:
    """Every shape in every dtype, then ragged batches."""
    for cell, make in CELLS.items():
        for shape in SHAPES:
            steps, batch, inputs, hidden, layers, both = shape
            for name, dtype in DTYPES.items():
                other = make(inputs, hidden, layers, bidirectional=both, dtype=dtype, device="cuda")
                ours = getattr(rnncompat, cell).from_torch(other)
                x = torch.randn(steps, batch, inputs, dtype=dtype, device="cuda", requires_grad=True)
                a, b = lambda m=other, x=x: m(x)[0], lambda m=ours, x=x: m(x)[0]
                for training in (False, True):
                    yield Row(f"{cell} {shape} {name}", a, b, training)
                    if cell == "LSTM" and name != "bfloat16":
                        yield Row(f"{cell} {shape} {name}, captured", a, b, training, captured=True)
    yield from batch_first_rows()
    yield from dropout_rows()
    yield from ragged_rows()
    yield from state_rows()
    yield from reset_rows()


def batch_first_rows() -> Iterator[Row]:
    """Input that lies batch-first, which torch turns round and we hand over as it is."""
    for name, dtype in DTYPES.items():
        other = torch.nn.LSTM(256, 256, batch_first=True, dtype=dtype, device="cuda")
        ours = rnncompat.LSTM.from_torch(other)
        x = torch.randn(64, 128, 256, dtype=dtype, device="cuda", requires_grad=True)
        a, b = lambda m=other, x=x: m(x)[0], lambda m=ours, x=x: m(x)[0]
        for training in (False, True):
            yield Row(f"LSTM (128, 64, 256, 256) {name}, batch first", a, b, training)


def dropout_rows() -> Iterator[Row]:
    """Dropout between layers: a call a layer and masks of torch's generator, against one call of the library."""
    for steps, batch, hidden, layers in ((128, 64, 256, 2), (100, 256, 512, 4)):
        for name, dtype in DTYPES.items():
            other = torch.nn.LSTM(hidden, hidden, layers, dropout=0.3, dtype=dtype, device="cuda")
            ours = rnncompat.LSTM.from_torch(other)
            x = torch.randn(steps, batch, hidden, dtype=dtype, device="cuda", requires_grad=True)
            a, b = lambda m=other, x=x: m(x)[0], lambda m=ours, x=x: m(x)[0]
            yield Row(f"LSTM ({steps}, {batch}, {hidden}, {hidden}, {layers}) {name}, dropout", a, b, True)


def state_rows() -> Iterator[Row]:
    """The states of every step, against our own call without them."""
    for cell in CELLS:
        module = getattr(rnncompat, cell)(256, 256, 2, device="cuda")
        x = torch.randn(128, 64, 256, device="cuda", requires_grad=True)
        a = lambda m=module, x=x: m(x)[0]  # noqa: E731  # beside its twin
        b = lambda m=module, x=x: m(x, return_states="all")[0]  # noqa: E731  # its twin
        for training in (False, True):
            yield Row(f"{cell} (128, 64, 256, 256, 2) float32, all states against the last", a, b, training)


def reset_rows() -> Iterator[Row]:
    """Episodes that begin inside a sequence, against our own call without them."""
    for cell in CELLS:
        for name, dtype in DTYPES.items():
            module = getattr(rnncompat, cell)(256, 256, dtype=dtype, device="cuda")
            x = torch.randn(64, 128, 256, dtype=dtype, device="cuda", requires_grad=True)
            resets = (torch.rand(64, 128, generator=torch.Generator().manual_seed(0)) < 0.05).cuda()
            a, b = lambda m=module, x=x: m(x)[0], lambda m=module, x=x, r=resets: m(x, resets=r)[0]
            for training in (False, True):
                yield Row(f"{cell} (64, 128, 256, 256) {name}, 5 % resets against none", a, b, training)


def ragged_rows() -> Iterator[Row]:
    """Lengths uniform in T/4..T on the GPU: torch packs, runs and pads."""
    steps, batch, inputs, hidden = 256, 64, 256, 256
    lengths = torch.randint(steps // 4, steps + 1, (batch,), generator=torch.Generator().manual_seed(0))
    lengths[0] = steps
    for name, dtype in DTYPES.items():
        other = torch.nn.LSTM(inputs, hidden, dtype=dtype, device="cuda")
        ours = rnncompat.LSTM.from_torch(other)
        x = torch.randn(steps, batch, inputs, dtype=dtype, device="cuda", requires_grad=True)

        def packed(m: Any = other, x: Any = x) -> torch.Tensor:
            rows = pack_padded_sequence(x, lengths, enforce_sorted=False)
            return pad_packed_sequence(m(rows)[0], total_length=steps)[0]

        direct = lambda m=ours, x=x: m(x, lengths=lengths)[0]  # noqa: E731  # beside its twin
        for training in (False, True):
            yield Row(
                f"LSTM ({steps}, {batch}, {inputs}, {hidden}) {name}, lengths", packed, direct, training
            )


def timed(run: Callable[[], Any]) -> float:
    """Milliseconds of one call, the GPU's work included."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e3


def whole(run: Run, training: bool) -> Callable[[], Any]:
    """The call, in inference mode or with its backward pass."""

    def step() -> None:
        if training:
            output = run()
            output.backward(torch.ones_like(output))
        else:
            with torch.inference_mode():
                run()

    return step


def captured(step: Callable[[], Any]) -> Callable[[], Any]:
    """A CUDA graph of *step*, to be replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay  # type: ignore[no-any-return]


def host_rows(budget: float) -> Iterator[str]:
    """Microseconds of the host for one step in inference mode, nobody waiting for the GPU in between."""
    for cell, make in CELLS.items():
        for batch, hidden in ((1, 128), (64, 512)):
            for name, dtype in DTYPES.items():
                other = make(hidden, hidden, dtype=dtype, device="cuda")
                ours = getattr(rnncompat, cell).from_torch(other)
                x = torch.randn(1, batch, hidden, dtype=dtype, device="cuda")
                with torch.inference_mode():
                    state = other(x)[1]
                    calls = [lambda m=m, s=s, x=x: m(x, s) for s in (None, state) for m in (other, ours)]
                    times = side_by_side.medians(calls, budget, host_time)
                for given, (a, b) in (("", times[:2]), (", state given", times[2:])):
                    missed = "missed" if a / b < HOST_GOAL else ""
                    label = f"{cell} (1, {batch}, {hidden}, {hidden}) {name}{given}"
                    yield f"| {label} | {a * 1e3:.4g} | {b * 1e3:.4g} | {a / b:.2f} | {missed} |"


def host_time(run: Callable[[], Any], times: int) -> float:
    """Seconds of the host for one of a hundred calls or more in a row."""
    times = max(times, 100)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        run()
    end = time.perf_counter()
    torch.cuda.synchronize()
    return (end - begin) / times


def peak(run: Callable[[], Any]) -> float:
    """Most MiB that a call allocates beyond what is there before it."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def measure(row: Row, budget: float) -> tuple[float, float, float, float]:
    """Medians of both sides in turn, and their peak memory."""
    sides = [whole(run, row.training) for run in (row.other, row.ours)]
    sides = [captured(side) for side in sides] if row.captured else sides
    for side in sides:
        for _ in range(3):
            side()
    once = sum(map(timed, sides)) / 1e3
    times: tuple[list[float], list[float]] = [], []
    for _ in range(max(5, min(100, int(budget / once)))):
        for side, own in zip(sides, times, strict=True):
            own.append(timed(side))
    return (*map(statistics.median, times), *([math.nan, math.nan] if row.captured else map(peak, sides)))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the time for each row")
    parser.add_argument("--only", default="", help="only rows whose label contains this")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    torch.manual_seed(0)
    lines = [
        f"{torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}; {side_by_side.machine()}",
        "",
        "| one step on the host | torch.nn, µs | ours, µs | ratio | |",
        "|---|---|---|---|---|",
        *(host_rows(0.05 if options.quick else 0.3) if options.only in "host" else ()),
        "",
        "| what | torch.nn, ms | ours, ms | ratio | torch.nn, MiB | ours, MiB | |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for row in rows():
        label = f"{row.label}, {'training' if row.training else 'inference'}"
        if options.only not in label:
            continue
        other, ours, other_memory, our_memory = measure(row, 0.1 if options.quick else 0.5)
        missed = "missed" if other / ours < GOAL else ""
        sizes = "| |" if row.captured else f"| {other_memory:.4g} | {our_memory:.4g} |"
        lines.append(f"| {label} | {other:.4g} | {ours:.4g} | {other / ours:.2f} {sizes} {missed} |")
        print(lines[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
