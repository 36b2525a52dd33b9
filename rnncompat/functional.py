"""``rnn_forward`` and ``rnn_step``: check everything once, choose a backend, run it, give the kind back."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from .autocast import cast_for_autocast
from .backends import Algorithm, Request, ResetTo, ReturnStates, draw_dropout, quick_call, quick_step, run
from .descriptor import RNNDescriptor
from .errors import (
    InvalidTypeError,
    InvalidValueError,
    UnsupportedError,
    bad_shape,
    bad_type,
    check_choice,
)
from .inputs import Input, as_column, read_input
from .layout import layout_of
from .sequence import SequenceBatch
from .state import RNNState, StateLike, full_state
from .steps import check_flags
from .transforms import shapes_are_settled
from .versions import is_jit_tracing, is_traced
from .weights import LayerWeights, RNNWeights

__all__ = ["Options", "read_request", "rnn_forward", "rnn_step", "run_layers", "step_layers"]

Layers = tuple[LayerWeights, ...]

X = TypeVar("X", Tensor, PackedSequence, SequenceBatch, list[Tensor])
"""What kind goes in comes out."""


class Options(NamedTuple):
    """The options of a call of :func:`rnn_forward`, which says what each means; not checked yet."""

    lengths: Any = None
    mask: Any = None
    resets: Any = None
    reset_to: str = "zeros"
    batch_first: bool = False
    training: bool = False
    padding_value: float = 0.0
    return_states: str = "last"
    backend: str = "auto"
    algorithm: str = "auto"

    def plain(self, descriptor: RNNDescriptor) -> bool:
        """Whether nothing is asked for beyond a dense call by whatever backend and algorithm."""
        return (
            self.lengths is None
            and self.mask is None
            and self.resets is None
            and self.return_states == "last"
            and self.backend == self.algorithm == "auto"
            and self.reset_to == "zeros"
            and type(self.padding_value) is float
            and not (self.training and descriptor.dropout)
        )


def rnn_forward(
    descriptor: RNNDescriptor,
    weights: RNNWeights,
    x: X,
    state: StateLike = None,
    *,
    lengths: Any = None,
    mask: Any = None,
    resets: Any = None,
    reset_to: str = "zeros",
    batch_first: bool = False,
    training: bool = False,
    padding_value: float = 0.0,
    return_states: str = "last",
    backend: str = "auto",
    algorithm: str = "auto",
) -> tuple[X, RNNState]:
    """Runs a recurrent network over whole sequences (cuDNN: ``cudnnRNNForward``).

    Shapes: T steps, B batch, I input size, H hidden size, P projection size, L layers, D directions.

    Args:
        descriptor: what to compute.
        weights: weights of the same layout, of the dtype and on the device of *x*.
        x: a tensor ``[T, B, I]`` (``[B, T, I]`` if batch_first) or, unbatched, ``[T, I]``; or a
            ``PackedSequence``, a :class:`SequenceBatch` or a list of ``[T_b, I]``, of a floating-point dtype.
        state: initial state: None for zeros, h alone for RNN and GRU, ``(h, c)`` for an LSTM, where
            ``(h, None)`` means c = 0. Each tensor is ``[L*D, B, ·]``, or one row to repeat over the batch:
            ``[L*D, 1, ·]``, ``[1, ·]``, ``[·]``; ``[B, ·]`` when L*D is 1; ``[L*D, ·]`` beside unbatched
            input. Never batch-first. Its gradient has the shape that was given.
        lengths: real steps of each row ``[B]``, from 0 to T in any order: list, tuple, NumPy array or
            integer tensor on any device. Steps past a row's length are never read. A row of length 0
            outputs padding and keeps its initial state.
        mask: instead of lengths, ``[T, B]`` booleans (``[B, T]`` if batch_first), True = real, with
            holes and left padding allowed: the state is carried unchanged over a masked step.
        resets: ``[T, B]`` booleans (``[B, T]`` if batch_first): this step starts a new episode. The state
            before it is replaced and the gradient is cut. On a masked step it acts at the row's next
            real step. The backward direction is cut at the same boundary.
        reset_to: ``"zeros"``, or ``"initial"``: restart from the state given.
        batch_first: whether x, mask, resets and the output have the batch first. The state never has.
        training: whether dropout acts.
        padding_value: what the output holds at steps that are not real.
        return_states: ``"last"``, or ``"all"`` for the state after every step.
        backend: ``"auto"``, or the name of one, which is obeyed or refused.
        algorithm: ``"auto"``, or one of cuDNN's, which is obeyed or refused.

    Returns:
        The output, of the kind that came in: ``[T, B, D*(P or H)]`` with T never shortened, or
        ``[T, D*(P or H)]`` unbatched; and an :class:`RNNState`: h ``[L*D, B, P or H]``, c ``[L*D, B, H]``
        or None, at each row's own last step (without B if unbatched). With ``return_states="all"``,
        ``[T, L*D, B, ·]``, at steps that are not real the carried state.

    Raises:
        InvalidValueError: a shape, length or choice cannot be right.
        InvalidTypeError: an argument of the wrong kind, dtype or device.
        UnsupportedError: no backend, or not the one asked for, can run this.

    Example:
        >>> import torch
        >>> descriptor = RNNDescriptor("gru", input_size=3, hidden_size=4)
        >>> weights = RNNWeights.init(descriptor)
        >>> output, state = rnn_forward(descriptor, weights, torch.randn(5, 2, 3), lengths=[5, 0])
        >>> output.shape, state.h.shape
        (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """
    _check_network(descriptor, weights)
    options = Options(
        lengths=lengths,
        mask=mask,
        resets=resets,
        reset_to=reset_to,
        batch_first=batch_first,
        training=training,
        padding_value=padding_value,
        return_states=return_states,
        backend=backend,
        algorithm=algorithm,
    )
    return run_layers(descriptor, weights.by_layer(), x, state, options)


def run_layers(
    descriptor: RNNDescriptor, layers: Layers, x: X, state: StateLike, options: Options
) -> tuple[X, RNNState]:
    """As :func:`rnn_forward`, for weights that need not lie in one buffer: one entry a pseudo-layer."""
    if type(x) is Tensor and x.is_cuda and not is_traced() and options.plain(descriptor):
        quick = quick_call(descriptor, layers, x, state, options.batch_first)
        if quick is not None:
            return quick
    read = _read_traced if is_jit_tracing() else read_request
    given, request = read(descriptor, layers, x, state, options, draw=options.training)
    output, final = run(request, options.backend)
    return given.as_given(output), final if given.batched else _without_batch(final)


def read_request(
    descriptor: RNNDescriptor,
    layers: Layers,
    x: Any,
    state: StateLike,
    options: Options,
    *,
    draw: bool = False,
) -> tuple[Input, Request]:
    """Checks the arguments of a call once and brings them into the form that backends take.

    Dropout is drawn only if *draw*: whoever merely asks must not move torch's generator.
    """
    given = read_input(x, options.lengths, options.mask, options.batch_first)
    data, layers, state = cast_for_autocast(given.batch.data, layers, state)
    _check_input(descriptor, layers, data)
    request = Request(
        descriptor=descriptor,
        x=data,
        weights=layers,
        state=full_state(descriptor, state, data, given.batched),
        lengths=given.batch.known_lengths,
        mask=given.batch.known_mask,
        resets=_read_resets(options.resets, given, options.batch_first),
        reset_to=check_choice("reset_to", options.reset_to, ResetTo),
        drops=draw_dropout(descriptor, data) if draw else (),
        padding_value=_check_number("padding_value", options.padding_value),
        return_states=check_choice("return_states", options.return_states, ReturnStates),
        algorithm=check_choice("algorithm", options.algorithm, Algorithm),
    )
    return given, request


_read_traced = shapes_are_settled(read_request)


def rnn_step(
    descriptor: RNNDescriptor,
    weights: RNNWeights,
    x_t: Tensor,
    state: StateLike = None,
    *,
    training: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, RNNState]:
    """Runs one step of a recurrent network, as for streaming or a loop of the caller's own.

    Args:
        descriptor: what to compute; forward in time only.
        weights: weights of the same layout.
        x_t: one step, ``[B, I]`` or, unbatched, ``[I]``.
        state: the state before the step, as in :func:`rnn_forward`.
        training: whether dropout between layers acts.
        backend: as in :func:`rnn_forward`.

    Returns:
        The output ``[B, P or H]`` (``[P or H]`` unbatched) and the state after the step.

    Raises:
        UnsupportedError: the network is bidirectional: its backward direction begins at the end.

    Example:
        >>> import torch
        >>> descriptor = RNNDescriptor("rnn_tanh", input_size=3, hidden_size=4)
        >>> weights = RNNWeights.init(descriptor)
        >>> y, state = rnn_step(descriptor, weights, torch.randn(2, 3))
        >>> y, state = rnn_step(descriptor, weights, torch.randn(2, 3), state)
        >>> y.shape
        torch.Size([2, 4])
    """
    _check_network(descriptor, weights)
    return step_layers(descriptor, weights.by_layer(), x_t, state, training=training, backend=backend)


def step_layers(
    descriptor: RNNDescriptor,
    layers: Layers,
    x_t: Tensor,
    state: StateLike,
    *,
    training: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, RNNState]:
    """As :func:`rnn_step`, for weights that need not lie in one buffer: one entry a pseudo-layer."""
    # A compiler gains nothing from the quick way, and those of torch 2.6 to 2.8 stumble over its checks.
    if backend == "auto" and isinstance(x_t, Tensor) and not is_traced():
        quick = quick_step(descriptor, layers, x_t, state)
        if quick is not None:
            return quick
    if descriptor.bidirectional:
        raise UnsupportedError(
            "The network is bidirectional, and its backward direction begins at the end of the "
            "sequence; one step alone cannot run it. Give rnn_forward() the whole sequence."
        )
    if not isinstance(x_t, Tensor):
        raise bad_type("x_t", x_t, "a tensor")
    if x_t.dim() not in (1, 2):
        raise bad_shape("x_t", x_t, "[B, I] or, unbatched, [I]", "rnn_forward() takes whole sequences.")
    options = Options(training=training, backend=backend)
    output, state = run_layers(descriptor, layers, x_t[None], state, options)
    return output[0], state


def _check_network(descriptor: RNNDescriptor, weights: RNNWeights) -> None:
    """Checks that descriptor and weights are what they should be and fit each other."""
    if not isinstance(descriptor, RNNDescriptor):
        raise bad_type("descriptor", descriptor, "an RNNDescriptor")
    if not isinstance(weights, RNNWeights):
        raise bad_type("weights", weights, "an RNNWeights", "RNNWeights(descriptor, flat) wraps a tensor.")
    if descriptor is weights.descriptor or descriptor == weights.descriptor:
        return
    if layout_of(descriptor) != weights.layout:
        raise InvalidValueError(
            f"weights belong to {weights.descriptor!r}; expected weights of the layout of {descriptor!r}."
        )


def _check_input(descriptor: RNNDescriptor, layers: Layers, x: Tensor) -> None:
    """Checks that the input, time-major by now, fits the network."""
    weight = layers[0].weight_hh
    if not x.is_floating_point():
        raise InvalidTypeError(f"x has dtype {x.dtype}; expected {weight.dtype}, as the weights.")
    for tensor in (t for w in layers for t in w):
        if tensor is not None and (tensor.dtype != weight.dtype or tensor.device != weight.device):
            raise InvalidTypeError(
                f"the weights mix {tensor.dtype} on {tensor.device} and {weight.dtype} on {weight.device}; "
                "expected one dtype and one device."
            )
    if x.dtype != weight.dtype or x.device != weight.device:
        raise InvalidTypeError(
            f"x is {x.dtype} on {x.device}, but the weights are {weight.dtype} on {weight.device}; "
            "expected the same dtype and device."
        )
    if x.shape[-1] != descriptor.input_size:
        raise bad_shape("x", x, f"[T, B, {descriptor.input_size}]", "The last axis holds the features.")


def _read_resets(resets: Any, given: Input, batch_first: bool) -> Tensor | None:
    if resets is None:
        return None
    if given.batched:
        return check_flags("resets", resets, given.batch.data, batch_first)
    return check_flags("resets", as_column(resets), given.batch.data, False)


def _check_number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise bad_type(name, value, "a number")
    return float(value)


def _without_batch(state: RNNState) -> RNNState:
    """``[L*D, 1, ·]`` or ``[T, L*D, 1, ·]`` without its batch axis."""
    return RNNState(state.h.squeeze(-2), None if state.c is None else state.c.squeeze(-2))
