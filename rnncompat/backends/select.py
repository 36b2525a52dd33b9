"""Which backend runs a request: the first of an ordered table that supports it, or the one asked for."""

from __future__ import annotations

from ..errors import UnsupportedError, bad_value
from .aten import AtenBackend
from .base import Backend, Request
from .cudnn import CudnnBackend
from .reference import ReferenceBackend

__all__ = ["BACKENDS", "candidates", "select"]

BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (CudnnBackend(), AtenBackend(), ReferenceBackend())
}
"""Fastest first; ``"auto"`` takes the first that supports the request."""


def candidates(name: str) -> tuple[Backend, ...]:
    """The backends that may run a call: every one for ``"auto"``, else the one of that name.

    Raises:
        InvalidValueError: there is no backend of that name.
    """
    if name != "auto" and name not in BACKENDS:
        raise bad_value("backend", name, f"'auto' or one of {list(BACKENDS)}")
    return tuple(BACKENDS.values()) if name == "auto" else (BACKENDS[name],)


def select(request: Request, name: str) -> Backend:
    """The backend *name*, or with ``"auto"`` the first that supports *request*.

    Raises:
        InvalidValueError: there is no backend of that name.
        UnsupportedError: the backend asked for, or every one of them, refuses; the message has the reasons.
    """
    reasons = []
    for backend in candidates(name):
        reason = backend.supports(request)
        if reason is None:
            return backend
        reasons.append(f"backend {backend.name!r}: {reason}")
    raise UnsupportedError(f"This call cannot be run: {'; '.join(reasons)}.")
