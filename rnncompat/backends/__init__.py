"""How a request is run: one file a backend behind one small interface, tried in the order of a table."""

from .aten import quick_step
from .base import Algorithm, Backend, Request, ResetTo, Result, ReturnStates
from .cudnn import quick_call
from .dropout import draw_dropout
from .operator import run
from .select import BACKENDS, candidates

__all__ = [
    "BACKENDS",
    "Algorithm",
    "Backend",
    "Request",
    "ResetTo",
    "Result",
    "ReturnStates",
    "candidates",
    "draw_dropout",
    "quick_call",
    "quick_step",
    "run",
]
