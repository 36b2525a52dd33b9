"""The descriptors of cells: ``RNNDesc(cell)``, and the cache that Flux held them in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from weakref import WeakKeyDictionary

from typing_extensions import Self, deprecated

from rnncompat import InvalidTypeError
from rnncompat.versions import allow_in_files

from .. import rnndesc
from ..modes import cudnnRNNMode_t
from ..parameters import write_weights
from ..warn import own_calls, warn
from .cell import FluxCell, ran

__all__ = ["RNNDesc", "desc", "descs"]


@deprecated(
    "legacy.flux.RNNDesc() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNDescriptor() and rnncompat.RNNWeights. See docs/migrating.md#fluxrnndesc",
    category=None,
)
class RNNDesc(rnndesc.RNNDesc):
    """``RNNDesc(cell)``: the constructor that Flux added; sizes, mode, dtype and device are the cell's.

    Its weights are zeros until :func:`rnncompat.legacy.setweights`; :func:`desc` does both.

    Args:
        cell: a cell of this package; not the Recur around it.

    Raises:
        InvalidTypeError: cell is none, or of a dtype the old interface did not have.
        UnsupportedError: σ is neither tanh nor relu. (Flux took every σ but tanh for relu here.)

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     legacy.flux.RNNDesc(legacy.LSTMCell(3, 5))
        RNNDesc[torch.float32](CUDNN_LSTM, 3, 5)
    """

    def __new__(cls, cell: FluxCell) -> Self:
        """Makes an instance of the class for the dtype of the cell."""
        return super().__new__(cls, dtype=_checked(cell).Wi.dtype)

    def __init__(self, cell: FluxCell) -> None:
        warn("flux.RNNDesc")
        mode = next(mode for mode in cudnnRNNMode_t if mode.cell is cell.core)
        with own_calls():
            super().__init__(mode, cell.Wi.shape[1], cell.Wh.shape[1], device=cell.Wi.device)


class Descs(Mapping[FluxCell, RNNDesc]):
    """The descriptor of each cell that has run, by the cell's identity; a cell that is gone is gone from here.

    Looking one up fills it with the weights that the cell has now, so that none is stale.
    """

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[FluxCell, RNNDesc] = WeakKeyDictionary()

    def __getitem__(self, cell: FluxCell) -> RNNDesc:
        if cell not in ran:
            raise KeyError(cell)
        made = self._made.get(cell)
        if made is None or not _still_fits(made, cell):
            with own_calls():
                made = self._made[cell] = RNNDesc(cell)
        write_weights(made, cell.Wi, cell.Wh, cell.b)
        return made

    def __contains__(self, cell: object) -> bool:
        return cell in ran

    def __iter__(self) -> Iterator[FluxCell]:
        return iter(ran)

    def __len__(self) -> int:
        return len(ran)


descs = Descs()
"""``cell in descs``, ``descs[cell]``: see :class:`Descs`."""


@deprecated(
    "legacy.flux.desc() is deprecated since 0.1 and will be removed in 1.0; "
    "use rnncompat.RNNWeights.from_named(). See docs/migrating.md#fluxdesc",
    category=None,
)
def desc(cell: FluxCell) -> RNNDesc:
    """The descriptor of *cell*, the same one at each call, filled with the weights it has now.

    Gradients of :func:`rnncompat.legacy.forward` reach the parameters of the cell.

    Example:
        >>> from rnncompat import legacy
        >>> with legacy.legacy_warnings("quiet"):
        ...     cell = legacy.GRUCell(3, 5)
        ...     rnn = legacy.flux.desc(cell)
        >>> cell in legacy.flux.descs, bool((rnn.weights[0] == cell.Wi.t()).all())
        (True, True)
    """
    warn("flux.desc")
    ran.add(_checked(cell))
    return descs[cell]


def _still_fits(made: RNNDesc, cell: FluxCell) -> bool:
    """Whether the cell has kept sizes, function, dtype and device; Flux made a new cell where these changed."""
    like = cell.Wi
    return (
        made.descriptor == cell.descriptor and made.dtype == like.dtype and made.params.device == like.device
    )


def _checked(cell: object) -> FluxCell:
    if isinstance(cell, FluxCell):
        return cell
    hint = " Pass m.cell." if hasattr(cell, "cell") else ""
    raise InvalidTypeError(f"cell is a {type(cell).__name__}; expected RNNCell, LSTMCell or GRUCell.{hint}")


allow_in_files([RNNDesc])
