"""The code that goes into a migrated file once, where the new code calls it."""

from __future__ import annotations

import libcst as cst

__all__ = ["HELPERS", "is_ours"]

_STEP_GRADIENTS = '''
RNNGradients = collections.namedtuple("RNNGradients", "x h Wi Wh b")
LSTMGradients = collections.namedtuple("LSTMGradients", "x h c Wi Wh b")


def step_gradients(weights, x, states, *incoming):
    """Gradients of one step, features first as x and states; of the states at the width of the batch.

    incoming: the gradients of the output and of each new state; what is no tensor counts as zeros.
    """
    wide = [s.t().expand(*x.t().shape[:-1], -1).t() for s in states]  # [H] or [H, B]
    leaves = [t.detach().requires_grad_() for t in (x, *wide, weights.flat)]
    with torch.enable_grad():
        now = weights.with_flat(leaves[-1])
        old = rnncompat.RNNState(*(s.t()[None] for s in leaves[1:-1]))
        output, new = rnncompat.rnn_step(now.descriptor, now, leaves[0].t(), old)
        results = [output, *(s[0] for s in new[: len(states)])]
    given = [g.t() if isinstance(g, torch.Tensor) else torch.zeros_like(r) for r, g in zip(results, incoming)]
    *inputs, flat = torch.autograd.grad(results, leaves, given)
    named = weights.with_flat(flat)
    made = RNNGradients if len(states) == 1 else LSTMGradients
    return made(*inputs, named["weight_ih_l0"].t(), named["weight_hh_l0"].t(), named["bias_ih_l0"])
'''

_STEP_CELL = '''
class StepCell(torch.nn.Module):
    """A cell, ``state, y = cell(state, x)``, with features first: x [I], [I, B] or, a whole sequence, [I, B, T].

    Parameters are Wi, Wh, b and the initial state, h or (h, c). kind: as of rnncompat.RNNDescriptor.
    """

    def __init__(self, kind, inputs, hidden, init=None):
        super().__init__()
        self.descriptor = rnncompat.RNNDescriptor(kind, inputs, hidden, bias="input")
        rows, init = self.descriptor.gates * hidden, init or self.glorot_uniform
        self.Wi = torch.nn.Parameter(init(rows, inputs))
        self.Wh = torch.nn.Parameter(init(rows, hidden))
        self.b = torch.nn.Parameter(init(rows))
        self.names = ("h", "c") if kind == "lstm" else ("h",)
        for name in self.names:
            setattr(self, name, torch.nn.Parameter(self.b.detach().new_zeros(hidden)))
        if kind == "lstm":
            with torch.no_grad():
                self.b[hidden : 2 * hidden] = 1  # forget

    @staticmethod
    def glorot_uniform(*sizes):
        limit = (6 / (sum(sizes) if len(sizes) > 1 else 1 + sizes[0])) ** 0.5
        return torch.empty(*sizes).uniform_(-limit, limit)

    def hidden(self):
        """The initial state."""
        parts = tuple(getattr(self, name) for name in self.names)
        return parts if len(parts) > 1 else parts[0]

    def weights(self):
        named = {"weight_ih_l0": self.Wi, "weight_hh_l0": self.Wh, "bias_ih_l0": self.b}
        return rnncompat.RNNWeights.from_named(self.descriptor, named)

    def forward(self, state, x):
        parts = state if isinstance(state, (tuple, list)) else (state,)
        run = rnncompat.rnn_forward if x.dim() == 3 else rnncompat.rnn_step
        with torch.autocast(x.device.type, enabled=False):
            steps = x.to(self.Wi).permute(*reversed(range(x.dim())))  # [T, B, I], [B, I] or [I]
            old = rnncompat.RNNState(*(s.t()[None] for s in parts))
            output, new = run(self.descriptor, self.weights(), steps, old)
        after = tuple(s[0].t().clone() for s in new[: len(parts)])
        return after if len(after) > 1 else after[0], output.permute(*reversed(range(x.dim())))
'''

_STATEFUL = '''
class Stateful(torch.nn.Module):
    """A cell that holds its state between calls: ``m(x)`` gives y; ``m.reset()`` goes back to the initial state.

    The state keeps its graph: reset it, or ``m.state = m.state.detach()``, before the next backward pass.
    """

    def __init__(self, cell):
        super().__init__()
        self.cell = cell
        self.kept = None

    @property
    def state(self):
        return self.cell.hidden() if self.kept is None else self.kept

    @state.setter
    def state(self, value):
        self.kept = value

    def reset(self):
        self.kept = None

    def forward(self, x):
        self.kept, y = self.cell(self.state, x)
        return y

    def _apply(self, fn, *args, **options):  # m.to(...), m.double()
        self.reset()
        return super()._apply(fn, *args, **options)
'''

_RESET_STATES = '''
def reset_states(model):
    """Resets every module that has a cell and a reset, such as Stateful, in a module, list or mapping."""
    if isinstance(model, torch.nn.Module):
        for module in model.modules():
            if hasattr(module, "cell") and hasattr(module, "reset"):
                module.reset()
    else:
        for part in list(model.values()) if hasattr(model, "values") else list(model):
            reset_states(part)
'''

_AS_MODULE = '''
def as_module(layer):
    """A module as it is, and a function as a module."""
    if isinstance(layer, torch.nn.Module):
        return layer
    module = torch.nn.Module()
    module.forward = layer
    return module
'''

HELPERS: dict[str, str] = {
    "StepCell": _STEP_CELL.lstrip(),
    "Stateful": _STATEFUL.lstrip(),
    "reset_states": _RESET_STATES.lstrip(),
    "as_module": _AS_MODULE.lstrip(),
    "step_gradients": _STEP_GRADIENTS.lstrip(),
}
"""The source of each by its name."""


def is_ours(module: cst.Module, name: str) -> bool:
    """Whether a file has this helper: a class or function on the top level whose docstring begins as ours."""
    return any(
        isinstance(made, (cst.ClassDef, cst.FunctionDef))
        and made.name.value == name
        and (made.get_docstring() or "?").splitlines()[0] in HELPERS[name]
        for made in module.body
    )
