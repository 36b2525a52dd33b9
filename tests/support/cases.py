"""Hypothesis strategies: descriptors, lengths, masks, resets and states, with sizes pairwise different."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy_rnn
import torch
from hypothesis import settings
from hypothesis import strategies as st

from rnncompat import Cell, InputMode, RNNDescriptor, RNNState, RNNWeights

CELLS = [cell.value for cell in Cell]
BIASES = ["double", "input", "recurrent", "none"]


MORE = 10 if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else 1


def examples(count):
    """Settings of a property test: *count* random cases, ten times as many where they are explored."""
    return settings(max_examples=count * MORE)


@dataclass
class Case:
    """One call of ``rnn_forward``: everything random is drawn from *seed*."""

    descriptor: RNNDescriptor
    steps: int
    batch: int
    gaps: str  # "none", "lengths", "mask"
    resets: bool
    reset_to: str
    given_state: bool
    padding: float
    seed: int

    def __post_init__(self):
        random = torch.Generator().manual_seed(self.seed)
        d = self.descriptor

        def normal(*shape):
            return torch.randn(*shape, dtype=torch.float64, generator=random)

        self.x = normal(self.steps, self.batch, d.input_size)
        self.weights = RNNWeights.init(d, dtype=torch.float64, generator=random)
        with torch.no_grad():
            self.weights.flat.mul_(2)
        rows = (d.num_pseudo_layers, self.batch)
        self.h, self.c = normal(*rows, d.state_size), normal(*rows, d.hidden_size)
        self.lengths = torch.randint(0, self.steps + 1, (self.batch,), generator=random)
        self.mask = torch.rand(self.steps, self.batch, generator=random) < 0.6
        self.flags = torch.rand(self.steps, self.batch, generator=random) < 0.3

    @property
    def real(self):
        """[T, B]: which steps are real."""
        if self.gaps == "lengths":
            return torch.arange(self.steps)[:, None] < self.lengths
        return self.mask if self.gaps == "mask" else torch.ones(self.steps, self.batch, dtype=torch.bool)

    @property
    def state(self) -> Any:
        if not self.given_state:
            return None
        return RNNState(self.h, self.c if self.descriptor.has_cell_state else None)

    @property
    def options(self) -> dict[str, Any]:
        """Keywords of the call."""
        gaps = {"lengths": self.lengths} if self.gaps == "lengths" else {}
        gaps |= {"mask": self.mask} if self.gaps == "mask" else {}
        resets = {"resets": self.flags, "reset_to": self.reset_to} if self.resets else {}
        return {**gaps, **resets, "padding_value": self.padding}

    def expected(self):
        """Output, last h, last c, all h, all c by the NumPy oracle (c is zeros where the cell has none)."""
        d = self.descriptor
        net = numpy_rnn.Network(
            cell=d.cell.value,
            hidden=d.hidden_size,
            layers=d.num_layers,
            directions=d.num_directions,
            skip=d.input_mode is InputMode.SKIP,
            clip=d.cell_clip,
            weights={name: view.detach().numpy() for name, view in self.weights.named()},
        )
        zero = 0.0 if self.state is None else 1.0
        resets = (self.flags if self.resets else torch.zeros_like(self.flags)).numpy()
        return numpy_rnn.run(
            net,
            self.x.numpy(),
            self.h.numpy() * zero,
            self.c.numpy() * zero,
            self.real.numpy(),
            resets,
            self.reset_to,
            self.padding,
        )


@st.composite
def descriptors(draw, *, cells=CELLS, max_layers=3, plain=False):
    """Any descriptor, or a plain one; I, H, P, G*H pairwise different unless skip ties I to H."""
    cell = draw(st.sampled_from(cells))
    skip = not plain and draw(st.booleans())
    hidden = draw(st.sampled_from([3, 5]))
    extras = cell == "lstm" and not plain
    return RNNDescriptor(
        cell,
        hidden if skip else draw(st.sampled_from([1, 2, 7])),
        hidden,
        num_layers=draw(st.integers(1, max_layers)),
        bidirectional=draw(st.booleans()),
        bias=draw(st.sampled_from(BIASES)),
        input_mode="skip" if skip else "linear",
        proj_size=draw(st.sampled_from([0, 1, hidden - 1])) if extras else 0,
        cell_clip=draw(
            st.sampled_from([None, (-0.3125, 0.40625)])  # float32 keeps them as they are
        )
        if extras
        else None,
    )


@st.composite
def cases(draw, *, max_steps=8, **descriptor_options):
    """Any call; T and B differ from each other, zero included."""
    steps = draw(st.integers(0, max_steps))
    batch = draw(st.integers(0, 6).filter(lambda b: b != steps))
    return Case(
        descriptor=draw(descriptors(**descriptor_options)),
        steps=steps,
        batch=batch,
        gaps=draw(st.sampled_from(["none", "lengths", "mask"])),
        resets=draw(st.booleans()),
        reset_to=draw(st.sampled_from(["zeros", "initial"])),
        given_state=draw(st.booleans()),
        padding=draw(st.sampled_from([0.0, -7.5])),
        seed=draw(st.integers(0, 2**31)),
    )
