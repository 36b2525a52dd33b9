"""Old names that were never carried over: calling one raises and names the replacement."""

from __future__ import annotations

from typing import Any, NoReturn

from rnncompat import UnsupportedError

from .registry import REGISTRY, Kind

__all__ = ["STUBS"]


class Stub:
    """A name that only says what to use instead."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__doc__ = REGISTRY[name].text

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(REGISTRY[self.__name__].text)

    def __repr__(self) -> str:
        return f"<{REGISTRY[self.__name__].text}>"


STUBS = {row.name: Stub(row.name) for row in REGISTRY.values() if row.kind is Kind.STUB}
