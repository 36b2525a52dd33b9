"""Old names that are not here: those never carried over, and those whose time is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from rnncompat import UnsupportedError, __version__
from rnncompat.versions import reached

from .registry import REGISTRY, Kind

__all__ = ["removed_names", "stubs_of"]


class Stub:
    """A name that only says what to use instead."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__doc__ = REGISTRY[name].text

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(REGISTRY[self.__name__].text)

    def __repr__(self) -> str:
        return f"<{REGISTRY[self.__name__].text}>"


def stubs_of(namespace: str = "") -> dict[str, Stub]:
    """The stubs of one namespace, by the name that each has there; of the top level if it is empty."""
    rows = (row for row in REGISTRY.values() if row.kind is Kind.STUB and row.namespace == namespace)
    return {row.name.rpartition(".")[2]: Stub(row.name) for row in rows}


def removed_names(module: str, prefix: str = "") -> Callable[[str], NoReturn]:
    """Makes the ``__getattr__`` of a module: a name that it once had raises and says what to use.

    No AttributeError, which ``from module import name`` would answer with a message of its own.

    Args:
        module: its name.
        prefix: what its names have before them in the registry, as ``"flux."``.
    """

    def missing(name: str) -> NoReturn:
        row = REGISTRY.get(prefix + name)
        if row is not None and reached(row.removal, __version__):
            raise UnsupportedError(row.removed_text)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing
