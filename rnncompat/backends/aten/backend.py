"""Backend ``aten``: layer after layer over packed rows, each by the runner that its facts choose."""

from __future__ import annotations

import torch

from ...descriptor import InputMode
from ...state import RNNState
from ...transforms import transforms_active
from ..base import Algorithm, Backend, Request, Result, ReturnStates
from ..dropout import apply_dropout
from ..plan import Plan, dense_plan, packed_plan
from ..precision import in_own_dtype
from .fused import dense, whole_network
from .layer import Layer, LayerResult
from .strategy import Strategy, facts_of, strategy_for

__all__ = ["AtenBackend"]

_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class AtenBackend(Backend):
    """torch's fused operations where they serve, hand-written loops where they do not."""

    name = "aten"

    def supports(self, request: Request) -> str | None:
        """Refuses other devices and dtypes, cuDNN's algorithms, and torch.func's transforms."""
        if request.algorithm is not Algorithm.AUTO:
            return f"it has no algorithm {request.algorithm.value!r}; algorithms are cuDNN's"
        if request.x.device.type not in ("cpu", "cuda"):
            return f"it runs on the CPU and on GPUs, and the input is on {request.x.device}"
        if request.x.dtype not in _DTYPES:
            return f"it has no {request.x.dtype}"
        if request.x.is_cuda and not request.dense and torch.cuda.is_current_stream_capturing():
            return (
                "its plans need values of lengths, masks and resets, which a graph being captured cannot read"
            )
        if transforms_active():
            return "its kernels have no rules for torch.func's transforms and forward-mode derivatives"
        return None

    def forward(self, request: Request) -> Result:
        """Runs a request layer by layer."""
        return in_own_dtype(_forward, request)

    def describe(self, request: Request) -> str:
        """The strategy of each layer, as ``explain`` shows it."""
        plan = _plan(request)
        if not plan.sizes:
            return "no step is real"
        names = [strategy.name for strategy in _strategies(request, plan)]
        return ", ".join(f"layer {k}: {name}" for k, name in enumerate(names))


def _plan(request: Request) -> Plan:
    if request.dense:
        steps, batch = request.x.shape[:2]
        return dense_plan(steps if batch else 0, batch)
    return packed_plan(request)


def _strategies(request: Request, plan: Plan) -> list[Strategy]:
    """The strategy of each layer; only a skip layer, the first, can differ from the rest."""
    d = request.descriptor
    first = strategy_for(facts_of(request, plan, 0))
    if d.input_mode is InputMode.LINEAR or d.num_layers == 1:
        return [first] * d.num_layers
    return [first] + [strategy_for(facts_of(request, plan, 1))] * (d.num_layers - 1)


def _forward(request: Request) -> Result:
    plan = _plan(request)
    if not plan.sizes:
        return _nothing_real(request)
    strategies = _strategies(request, plan)
    if not request.drops and all(strategy.run is dense for strategy in strategies):
        return whole_network(request)
    x = plan.pack(request.x)
    results: list[LayerResult] = []
    for k, strategy in enumerate(strategies):
        if k and request.drops:
            x = apply_dropout(x, plan.pack(request.drops[k - 1]))
        results.append(strategy.run(x, _layer(request, plan, k)))
        x = results[-1].output
    output = plan.unpack(x, request.padding_value)
    return Result(output, _states(request, plan, results))


def _layer(request: Request, plan: Plan, layer: int) -> Layer:
    d = request.descriptor
    rows = slice(layer * d.num_directions, (layer + 1) * d.num_directions)
    states = [s[rows].unbind(0) for s in request.state if s is not None]
    return Layer(d, plan, request.weights[rows], tuple(zip(*states, strict=True)))


def _states(request: Request, plan: Plan, results: list[LayerResult]) -> RNNState:
    if request.return_states is ReturnStates.LAST:
        final = [states for result in results for states in result.final]
        return RNNState(*(torch.stack(parts) for parts in zip(*final, strict=True)))
    every = [(k, states) for result in results for k, states in enumerate(result.every or [])]
    given = [s for s in request.state if s is not None]
    stacked = [
        torch.stack([plan.carried(s[i], given[i][n], k) for n, (k, s) in enumerate(every)], dim=1)
        for i in range(len(given))
    ]
    return RNNState(*stacked)  # [T, L*D, B, ·]


def _nothing_real(request: Request) -> Result:
    """Padding and the given state; every tensor stays in the graph, with a gradient of zero."""
    d = request.descriptor
    tensors = [request.x, *(t for w in request.weights for t in w)]
    sums = torch.stack([t.sum() for t in tensors if t is not None])
    anchor = sums.sum().masked_fill(torch.ones((), dtype=torch.bool, device=sums.device), 0)
    steps, batch = request.x.shape[:2]
    output = request.x.new_full((steps, batch, d.output_size), request.padding_value) + anchor
    state = RNNState(*(None if s is None else s.clone() for s in request.state))  # type: ignore[arg-type]  # h is set
    if request.return_states is ReturnStates.ALL:
        state = RNNState(*(None if s is None else s.expand(steps, *s.shape) for s in state))  # type: ignore[arg-type]  # h is set
    return Result(output, state)
