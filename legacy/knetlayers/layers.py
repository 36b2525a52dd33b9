"""The layers of KnetLayers 0.4 over :class:`~rnncompat.legacy.RNN`: ``SRNN``, ``LSTM``, ``GRU``."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from typing_extensions import Unpack, deprecated

import rnncompat
from rnncompat import UnsupportedError

from ..knet.compute import full_state
from ..knet.options import LayerOptions
from ..knet.parameters import parameter
from ..knet.rnn import RNN, run_rnn
from ..warn import own_calls, warn
from .inputs import Tokens, make_embedding, read_input
from .ragged import RNNOutput

__all__ = ["GRU", "LSTM", "SRNN"]


class LayerBase(nn.Module):
    """What the three layers share; use :class:`SRNN`, :class:`LSTM` or :class:`GRU`.

    Attributes:
        embedding: an ``nn.Embedding``, or None.
        specs: the :class:`~rnncompat.legacy.RNN` that runs.
    """

    old_name: ClassVar[str]
    rnn_type: ClassVar[str | None]  # None: the activation says it
    gates: ClassVar[str]  # as gatesview spells them, in the order of the ids

    def __init__(
        self,
        *,
        input: int,  # noqa: A002  # the old name
        hidden: int,
        embed: int | nn.Embedding | None = None,
        activation: str | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        warn(self.old_name)
        super().__init__()
        for name in ("h", "c", "rnnType"):
            if name in options:
                raise UnsupportedError(
                    f"{name} is given; states go into each call, and the class is the type."
                )
        if activation is not None and self.rnn_type is not None:
            raise UnsupportedError(f"activation is {activation!r}; only SRNN has one.")
        options["rnnType"] = self.rnn_type or activation or "relu"
        self.embedding = make_embedding(input, embed, options.get("dtype"), options.get("device"))
        with own_calls():
            features = input if self.embedding is None else self.embedding.embedding_dim
            self.specs = RNN(features, hidden, **options)

    def forward(
        self,
        x: Tokens,
        hx: Tensor | None = None,
        cx: Tensor | None = None,
        *,
        hy: bool | None = None,
        cy: bool | None = None,
        batchSizes: Any = None,  # noqa: N803  # the old name
        sorted: bool = False,  # noqa: A002  # the old name
    ) -> RNNOutput:
        """Runs arrays of features or, with an embedding, of ids.

        Args:
            x: features ``(X,)``, ``(X, B)`` or ``(X, B, T)`` (one-hot ones go through the embedding); or ids,
                counted from 1: a vector is one instance of T steps, beside batchSizes packed tokens; a matrix
                ``(B, T)`` has instances as rows; a list of lists is a batch of any lengths.
            hx: initial state ``(H, B, L*D)`` in the caller's order; None for zeros.
            cx: the same for an LSTM's cell.
            hy: whether to return the final state; if None, whether hx is given.
            cy: the same for an LSTM's cell.
            batchSizes: as :class:`~rnncompat.legacy.RNN` takes it.
            sorted: says that a list of lists is sorted already, longest first; it is checked.

        Returns:
            An :class:`RNNOutput`. Nothing drops the input, unlike :class:`~rnncompat.legacy.RNN`.

        Raises:
            InvalidValueError: a shape or an id that does not fit.
            UnsupportedError: ids without an embedding.
        """
        warn(self.old_name)
        features, packed = read_input(self.embedding, x, batchSizes, sorted)
        if packed is not None:
            batchSizes, batch = packed.batch_sizes, len(packed.order)  # noqa: N806  # the old name
            d = self.specs.descriptor
            hx = None if hx is None else full_state(d, "hx", hx, batch).index_select(1, packed.order)
            cx = None if cx is None else full_state(d, "cx", cx, batch).index_select(1, packed.order)
        after = run_rnn(self.specs, self.params, features, hx, cx, batchSizes, drop_input=False)
        hidden = after.h if (hx is not None if hy is None else hy) else None
        memory = after.c if (cx is not None if cy is None else cy) else None
        if packed is None:
            return RNNOutput(after.y, hidden, memory, None)
        back = packed.back
        return RNNOutput(after.y, _in_order(hidden, back), _in_order(memory, back), packed.indices)

    @property
    def params(self) -> nn.Parameter:
        """``specs.w``."""
        return self.specs.w

    @property
    def gatesview(self) -> dict[str, Tensor | None]:
        """Each gate's matrix (transposed) and bias as live views into :attr:`params`, by the old symbols.

        ``"wif10"``: w matrix or b bias; i on the input or h on the state; the gate (SRNN h, GRU r u n, LSTM
        i f n o); the layer, from 1; the direction, 0 or 1.
        """
        d = self.specs.descriptor
        return {
            f"{kind}{side}{gate}{layer + 1}{direction}": parameter(
                d, self.params, d.pseudo_layer(layer, direction) + 1, s * len(self.gates) + g + 1, part + 1
            )
            for layer in range(d.num_layers)
            for direction in range(d.num_directions)
            for part, kind in enumerate("wb")
            for s, side in enumerate("ih")
            for g, gate in enumerate(self.gates)
        }

    def to_new(self, name: str = "layer") -> rnncompat.LSTM | rnncompat.GRU | rnncompat.RNN:
        """As :meth:`rnncompat.legacy.RNN.to_new`; an embedding stays yours: ``layer.embedding(ids - 1)``."""
        return self.specs.to_new(name)


def _in_order(state: Tensor | None, order: Tensor) -> Tensor | None:
    return None if state is None else state.index_select(1, order)


@deprecated(
    "legacy.knetlayers.SRNN() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNN(). See docs/migrating.md#knetlayerssrnn",
    category=None,
)
class SRNN(LayerBase):
    """The plain recurrent layer: ``SRNN(input=, hidden=, embed=None, activation="relu", **options)``.

    Args:
        input: features X, or number of ids beside embed.
        hidden: H.
        embed: None, the size E of a new embedding, or an ``nn.Embedding`` of ``input`` ids.
        activation: ``"relu"`` or ``"tanh"``.
        **options: those of :class:`~rnncompat.legacy.RNN`, but for h, c and rnnType.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     rnn = legacy.knetlayers.SRNN(input=10, hidden=2, embed=3, activation="tanh")
        ...     out = rnn([[1, 2, 3, 4], [7, 6], [8, 5], [9, 10]], hy=True)
        >>> out.y.shape, out.hidden.shape, out.indices[1].tolist()
        (torch.Size([2, 10]), torch.Size([2, 4, 1]), [1, 5])
    """

    old_name = "knetlayers.SRNN"
    rnn_type = None
    gates = "h"


@deprecated(
    "legacy.knetlayers.LSTM() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.LSTM(). See docs/migrating.md#knetlayerslstm",
    category=None,
)
class LSTM(LayerBase):
    """The LSTM layer: ``LSTM(input=, hidden=, embed=None, **options)``; its arguments are those of :class:`SRNN`.

    Example:
        >>> import torch
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     rnn = legacy.knetlayers.LSTM(input=3, hidden=2, bidirectional=True)
        ...     out = rnn(torch.ones(3, 5, 4), hy=True, cy=True)
        >>> out.y.shape, out.memory.shape, rnn.gatesview["bif11"].shape
        (torch.Size([4, 5, 4]), torch.Size([2, 5, 2]), torch.Size([2]))
    """

    old_name = "knetlayers.LSTM"
    rnn_type = "lstm"
    gates = "ifno"


@deprecated(
    "legacy.knetlayers.GRU() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.GRU(). See docs/migrating.md#knetlayersgru",
    category=None,
)
class GRU(LayerBase):
    """The GRU layer: ``GRU(input=, hidden=, embed=None, **options)``; its arguments are those of :class:`SRNN`.

    Example:
        >>> import torch
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     rnn = legacy.knetlayers.GRU(input=3, hidden=2)
        ...     out = rnn(torch.ones(3, 5))
        >>> out.y.shape
        torch.Size([2, 5])
    """

    old_name = "knetlayers.GRU"
    rnn_type = "gru"
    gates = "run"
