"""How a request is run: one file a backend behind one small interface, tried in the order of a table."""

from .aten import quick_step
from .base import Algorithm, Backend, Request, ResetTo, Result, ReturnStates
from .select import BACKENDS, candidates, select

__all__ = [
    "BACKENDS",
    "Algorithm",
    "Backend",
    "Request",
    "ResetTo",
    "Result",
    "ReturnStates",
    "candidates",
    "quick_step",
    "select",
]
