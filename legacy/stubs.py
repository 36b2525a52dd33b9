"""Old names that were never carried over: calling one raises and names the replacement."""

from __future__ import annotations

from typing import Any, NoReturn

from rnncompat import UnsupportedError

from .registry import REGISTRY, Kind

__all__ = ["stubs_of"]


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
