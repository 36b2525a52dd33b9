"""Which backend runs a request: the first of an ordered table that supports it, or the one asked for."""

from __future__ import annotations

from ..errors import UnsupportedError, bad_value
from .aten import AtenBackend
from .base import Backend, Request
from .reference import ReferenceBackend

__all__ = ["BACKENDS", "select"]

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (AtenBackend(), ReferenceBackend())}
"""Fastest first; ``"auto"`` takes the first that supports the request."""


def select(request: Request, name: str) -> Backend:
    """The backend *name*, or with ``"auto"`` the first that supports *request*.

    Raises:
        InvalidValueError: there is no backend of that name.
        UnsupportedError: the backend asked for, or every one of them, refuses; the message has the reasons.
    """
    if name != "auto" and name not in BACKENDS:
        raise bad_value("backend", name, f"'auto' or one of {list(BACKENDS)}")
    reasons = []
    for backend in BACKENDS.values() if name == "auto" else (BACKENDS[name],):
        reason = backend.supports(request)
        if reason is None:
            return backend
        reasons.append(f"backend {backend.name!r}: {reason}")
    raise UnsupportedError(f"This call cannot be run: {'; '.join(reasons)}.")
