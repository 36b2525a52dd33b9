"""Weights from and for other frameworks: one module a format, each with ``from_*`` and ``to_*``.

A module takes or gives plain arrays beside an :class:`~rnncompat.RNNDescriptor`; no other framework is needed at
run time. What cannot be said exactly in the other format is refused with the reason, never approximated.
"""

from .result import Converted, Exported

__all__ = ["Converted", "Exported"]
