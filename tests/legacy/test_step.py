"""The old calls against a NumPy step at pairwise different sizes, in every shape they took."""

from __future__ import annotations

import numpy as np
import numpy_step
import pytest
import torch
from compare import assert_bitwise, assert_same
from hypothesis import given
from hypothesis import strategies as st

from rnncompat import legacy

MODES = {"relu": 0, "tanh": 1, "lstm": 2, "gru": 3}
SHAPES = ["vector", "column", "batch", "batch-vector-state", "batch-column-state"]
I, H, B = 3, 5, 4


class Step:
    """One old step with random weights and data; I, H, B and G*H pairwise different."""

    def __init__(self, mode, shapes, seed=0, cell=True):
        with legacy.legacy_warnings("quiet"):
            self.rnn = legacy.RNNDesc[torch.float64](MODES[mode], I, H)
        rng = np.random.default_rng(seed)
        rows = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}[mode] * H
        self.mode = mode
        self.weights = [rng.normal(size=s) for s in ((rows, I), (rows, H), (rows,))]
        x = {"vector": (I,), "column": (I, 1)}.get(shapes, (I, B))
        h = {"batch": (H, B), "batch-column-state": (H, 1)}.get(shapes, (H,))
        out = (H, *x[1:])
        self.x, self.h, self.c = rng.normal(size=x), rng.normal(size=h), rng.normal(size=h)
        self.dy, self.dho, self.dco = (rng.normal(size=out) for _ in range(3))
        self.has_c = mode == "lstm" and cell
        with legacy.legacy_warnings("quiet"):
            legacy.setweights(self.rnn, *map(torch.tensor, self.weights))

    def wide(self, array):
        """As ``(features, B)``, expanded."""
        columns = self.x.shape[1] if self.x.ndim == 2 else 1
        return np.broadcast_to(array if array.ndim == 2 else array[:, None], (len(array), columns))

    def numpy(self):
        c = self.wide(self.c) if self.has_c else None
        data = [self.wide(self.x), self.wide(self.h), c]
        dco = self.wide(self.dco) if self.has_c else 0.0
        forward = numpy_step.forward(self.mode, *self.weights, *data)
        return forward, numpy_step.backward(
            self.mode, *self.weights, *data, self.wide(self.dy), self.wide(self.dho), dco
        )

    def shaped(self, array):
        """A NumPy result ``(F, B)`` in the shape the old call gave."""
        return torch.tensor(array[:, 0] if self.x.ndim == 1 else array)

    @property
    def arguments(self):
        return [torch.tensor(a) for a in (self.x, self.h, *([self.c] if self.has_c else []))]

    @property
    def cotangents(self):
        return [torch.tensor(a) for a in (self.dy, self.dho, *([self.dco] if self.has_c else []))]


@given(st.sampled_from(list(MODES)), st.sampled_from(SHAPES), st.booleans(), st.integers(0, 2**31))
def test_values_and_gradients(mode, shapes, cell, seed):
    step = Step(mode, shapes, seed, cell)
    (y, co), gradients = step.numpy()
    with legacy.legacy_warnings("quiet"):
        outputs, back = legacy.pullback(step.rnn, *step.arguments)
        plain = legacy.forward(step.rnn, *step.arguments)
    expected = [y, y, co] if step.has_c else [y, y]
    assert_same([step.shaped(a) for a in expected], list(outputs))
    assert_bitwise(list(outputs), list(plain))
    result = back(*step.cotangents)
    assert_same(step.shaped(gradients["x"]), result.x)
    assert_same(step.shaped(gradients["h"]), result.h)
    for name in ("Wi", "Wh", "b"):
        assert_same(torch.tensor(gradients[name]), getattr(result, name))
    if step.has_c:
        assert_same(step.shaped(gradients["c"]), result.c)


@pytest.mark.parametrize("mode", MODES)
def test_train_flag_and_the_two_backward_halves(mode):
    step = Step(mode, "batch")
    _, gradients = step.numpy()
    reserve, outputs = (
        legacy.forward(step.rnn, *step.arguments, train=True)
        if step.has_c
        else legacy.forward(step.rnn, *step.arguments, None, True)
    )
    assert_bitwise(legacy.forwardTrain(step.rnn, *step.arguments)[1], outputs)
    x, h, *c = step.arguments
    if step.has_c:
        data = legacy.backwardData(step.rnn, outputs[0], *step.cotangents, h, c[0], reserve)
    else:
        data = legacy.backwardData(step.rnn, outputs[0], *step.cotangents, h, reserve)
    (dwi, dwh), db = legacy.backwardWeights(step.rnn, x, h, outputs[0], reserve)
    assert_same([gradients[n] for n in ("x", "h", "c")[: len(data)]], list(data))
    assert_same([gradients[n] for n in ("Wi", "Wh", "b")], [dwi, dwh, db])


@pytest.mark.parametrize("mode", MODES)
def test_autograd_reaches_data_state_and_what_setweights_copied(mode):
    step = Step(mode, "batch-column-state")
    _, gradients = step.numpy()
    weights = [torch.tensor(w, requires_grad=True) for w in step.weights]
    leaves = [t.requires_grad_() for t in step.arguments]
    legacy.setweights(step.rnn, *weights)
    outputs = legacy.forward(step.rnn, *leaves)
    for w in (step.rnn.weights[0], step.rnn.weights[1], step.rnn.bias):
        assert not w.requires_grad
    result = torch.autograd.grad(outputs, [*leaves, *weights], step.cotangents)
    dx, dh, *rest = result
    assert_same(gradients["x"], dx)
    assert_same(gradients["h"].sum(1, keepdims=True), dh)
    assert_same([gradients["Wi"].T, gradients["Wh"].T, gradients["b"]], list(rest[-3:]))


def test_backward_through_many_steps_that_refill_the_weights():
    """The old program sets the weights before every step; autograd must not mind."""
    step = Step("gru", "batch")
    weights = [torch.tensor(w, requires_grad=True) for w in step.weights]
    x, h = step.arguments
    start = h
    for _ in range(3):
        legacy.setweights(step.rnn, *weights)
        _, h = legacy.forward(step.rnn, x, h)
    result = torch.autograd.grad(h.sum(), weights)

    states = [start.numpy()]
    for _ in range(3):
        states.append(numpy_step.forward("gru", *step.weights, step.x, states[-1])[0])
    total = [np.zeros_like(w) for w in step.weights]
    dh = np.ones_like(step.h)
    for state in reversed(states[:-1]):
        g = numpy_step.backward("gru", *step.weights, step.x, state, None, 0.0, dh)
        dh = g["h"]
        total = [t + part for t, part in zip(total, (g["Wi"].T, g["Wh"].T, g["b"]), strict=True)]
    assert_same(total, list(result))


def test_float32_is_computed_in_float32():
    rnn = legacy.RNNDesc(legacy.CUDNN_GRU, I, H)
    y, ho = legacy.forward(rnn, torch.ones(I, B), torch.ones(H))
    assert y.dtype == ho.dtype == rnn.dtype == torch.float32


@pytest.mark.parametrize("mode", MODES)
def test_autocast_changes_nothing(mode):
    """The old interface knew none: a loop over steps goes on in the dtype of its descriptor."""
    with legacy.legacy_warnings("quiet"):
        rnn = legacy.RNNDesc[torch.float32](MODES[mode], I, H)
        rnn.params.normal_()
        x = torch.randn(I, B, requires_grad=True)
        start = [torch.randn(H, requires_grad=True) for _ in range(2 if mode == "lstm" else 1)]

        def two_steps():
            _, *state = legacy.forward(rnn, x, *start)
            y, *state = legacy.forward(rnn, x, *state)
            return [y, *state]

        expected = two_steps()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = two_steps()
        assert_bitwise(expected, found)
        gradients = [torch.autograd.grad(results[0].sum(), [x, *start]) for results in (expected, found)]
        assert_bitwise(*gradients)
