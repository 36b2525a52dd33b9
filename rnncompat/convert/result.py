"""What a conversion gives back: the weights, and what was done to them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..descriptor import RNNDescriptor
from ..weights import RNNWeights

__all__ = ["Converted", "Exported"]


class Converted(NamedTuple):
    """Weights out of another format.

    Attributes:
        descriptor: the network that computes what they computed there.
        weights: in memory of their own, of the dtype that came; they require gradients, as those of a new network.
        done: what was changed on the way, one entry a kind of change, such as ``"gates z r h became r z n"``.
    """

    descriptor: RNNDescriptor
    weights: RNNWeights
    done: tuple[str, ...]


class Exported(NamedTuple):
    """Weights in another format.

    Attributes:
        arrays: tensors on the CPU in memory of their own, in the structure that the format has; NumPy reads them
            with ``numpy.asarray``.
        done: as in :class:`Converted`.
    """

    arrays: Any
    done: tuple[str, ...]
