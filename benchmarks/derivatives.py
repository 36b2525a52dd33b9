"""Times what a training step costs by how it is asked for: first and second order, eager and compiled.

    python benchmarks/derivatives.py [--quick] [--only WORD] [--markdown FILE]

``side_by_side.py`` says how. Compiled rows need torch >= 2.4; they go through AOTAutograd without a code generator,
so no C++ compiler is needed, and what inductor would fuse around the call is not counted.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from side_by_side import Row, compare

import rnncompat
from rnncompat.versions import GATES

CELLS = {"LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU, "RNN": torch.nn.RNN}
SHAPE = STEPS, BATCH, INPUTS, HIDDEN = 50, 16, 128, 256


def pair(cell: str) -> tuple[Any, Any]:
    """A module of torch.nn and ours with the same weights."""
    other = CELLS[cell](INPUTS, HIDDEN)
    return other, getattr(rnncompat, cell).from_torch(other)


def example() -> torch.Tensor:
    """``[T, B, I]``, to be differentiated by."""
    return torch.randn(STEPS, BATCH, INPUTS, requires_grad=True)


def first_order_rows() -> Iterator[Row]:
    """An ordinary training step must not pay for the derivatives that it does not ask for."""
    for cell in CELLS:
        _, ours = pair(cell)
        x = example()

        def plain(m: Any = ours, x: Any = x) -> torch.Tensor:
            return m(x, backend="reference")[0]  # type: ignore[no-any-return]

        def fast(m: Any = ours, x: Any = x) -> torch.Tensor:
            return m(x)[0]  # type: ignore[no-any-return]

        label = f"{cell} {SHAPE}: the step as usual against the path that has every derivative"
        yield Row("first order", label, plain, fast, 1.2, training=True)


def penalty(module: Any, x: torch.Tensor) -> Callable[[], None]:
    """A step whose loss holds the gradient by the input, as in WGAN-GP."""

    def step() -> None:
        output = module(x)[0]
        (slope,) = torch.autograd.grad(output.sum(), x, create_graph=True)
        slope.pow(2).sum().backward()

    return step


def second_order_rows() -> Iterator[Row]:
    """A gradient penalty on both sides."""
    for cell in CELLS:
        other, ours = pair(cell)
        x = example()
        yield Row(
            "second order",
            f"{cell} {SHAPE}, gradient penalty",
            penalty(other, x),
            penalty(ours, x),
            1.0,
            grad=True,
        )


def compiled_rows() -> Iterator[Row]:
    """The compiled step against our own eager one; it runs the forward pass again in the backward pass."""
    if not GATES["tracing"].open:
        return
    for cell in CELLS:
        _, ours = pair(cell)
        x = example()
        compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
        eager, whole = lambda m=ours, x=x: m(x)[0], lambda m=compiled, x=x: m(x)[0]
        label = f"{cell} {SHAPE}, compiled against eager"
        yield Row("compiled", label + ", inference", eager, whole, 0.9)
        yield Row("compiled", label + ", training", eager, whole, 0.6, training=True)


if __name__ == "__main__":
    compare((first_order_rows, second_order_rows, compiled_rows), __doc__.splitlines()[0])
