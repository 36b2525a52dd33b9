"""The exceptions of this package and the few helpers that phrase them.

Every refusal names the argument, says what came and what was expected, and how to mend it.
Each class is also the built-in error a caller would expect, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

import operator
from enum import Enum
from typing import Any, TypeVar

__all__ = ["InvalidTypeError", "InvalidValueError", "RNNCompatError", "UnsupportedError"]

E = TypeVar("E", bound=Enum)


class RNNCompatError(Exception):
    """Base class of every error that this package raises on purpose."""


class InvalidValueError(RNNCompatError, ValueError):
    """An argument of the right kind holds a value that cannot be right.

    Example:
        >>> import rnncompat
        >>> rnncompat.RNNDescriptor("lstm", 4, 0)
        Traceback (most recent call last):
            ...
        rnncompat.errors.InvalidValueError: hidden_size is 0; expected a whole number >= 1.
    """


class InvalidTypeError(RNNCompatError, TypeError):
    """An argument is of a kind, or a tensor of a dtype, that cannot be used."""


class UnsupportedError(RNNCompatError, ValueError):
    """The request makes sense, but nothing here can serve it; the message says why."""


def _sentence(argument: str, got: str, expected: str, hint: str) -> str:
    text = f"{argument} is {got}; expected {expected}."
    return f"{text} {hint}" if hint else text


def bad_value(argument: str, got: object, expected: str, hint: str = "") -> InvalidValueError:
    """Phrases an :class:`InvalidValueError`; *got* is shown as its ``repr``."""
    return InvalidValueError(_sentence(argument, repr(got), expected, hint))


def bad_shape(argument: str, got: Any, expected: str, hint: str = "") -> InvalidValueError:
    """Phrases an :class:`InvalidValueError` about the shape of the tensor *got*."""
    return InvalidValueError(_sentence(argument, f"of shape {list(got.shape)}", f"shape {expected}", hint))


def bad_type(argument: str, got: object, expected: str, hint: str = "") -> InvalidTypeError:
    """Phrases an :class:`InvalidTypeError`; *got* is shown as the name of its type."""
    return InvalidTypeError(_sentence(argument, f"a {type(got).__name__}", expected, hint))


def check_whole(argument: str, value: object, minimum: int) -> int:
    """Returns *value* as an ``int`` if it is a whole number of at least *minimum*."""
    expected = f"a whole number >= {minimum}"
    if isinstance(value, bool):
        raise bad_type(argument, value, expected)
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # refusing what has no index is the point
    except TypeError:
        raise bad_type(argument, value, expected) from None
    if number < minimum:
        raise bad_value(argument, number, expected)
    return number


def check_choice(argument: str, value: object, choices: type[E]) -> E:
    """Returns the member of the enum *choices* that *value* names."""
    try:
        return choices(value)
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in choices)
        raise bad_value(argument, value, f"one of {allowed}") from None
