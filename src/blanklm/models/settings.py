"""The base of the configs of models: each of their numbers is checked for type and range here.

A config may come from a file that somebody else wrote, so a number is refused before anything is built from it.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

from blanklm.errors import BlankLMError

GREATEST = 2**31 - 1
GREATEST_OF = {  # what would take long or much memory to build, whatever the weights are
    **dict.fromkeys(("layers", "num_hidden_layers"), 1000),
    **dict.fromkeys(("max_length", "longest", "longest_blank", "max_position_embeddings"), 2**20),
}
AT_LEAST_1 = {"vocabulary", "heads", "width", "feedforward", "layers", "max_length"}
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


class Settings:
    """A frozen dataclass of settings; one with a ``__post_init__`` of its own calls this one first."""

    def __post_init__(self) -> None:
        cls: Any = type(self)  # mypy takes no class for hashable
        for name, hint in _hints(cls).items():
            value = getattr(self, name)
            if not _has_type(value, hint):
                kind = KINDS.get(hint, "of another type")
                raise BlankLMError(f"`{name}` must be {kind}, not {str(value)[:40]!r}")
            if hint is int and value < (least := 1 if name in AT_LEAST_1 else 0):
                raise BlankLMError(f"`{name}` must be at least {least}, not {value}")
            for place, number in numbers_in(name, value):
                greatest = GREATEST_OF.get(place, GREATEST)
                if not abs(number) <= greatest:  # nor NaN
                    raise BlankLMError(f"`{place}` must be a number up to {greatest:,}, not {float_or_huge(number)}")


def numbers_in(name: str, value: Any) -> Iterator[tuple[str, int | float]]:
    """Yield each number in a value of JSON with the name that it has."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers_in(str(key), part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers_in(name, part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def float_or_huge(number: int | float) -> str:
    """Write a number in few characters, however large it is."""
    try:
        return f"{float(number):g}"
    except OverflowError:
        return "one of hundreds of digits"


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _has_type(value: Any, hint: Any) -> bool:
    """Tell whether a value is of the type that a field declares; a whole number is a number, too."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_has_type(value, part) for part in parts)
    if origin in (list, tuple):
        return isinstance(value, list | tuple) and all(_has_type(part, parts[0]) for part in value)
    if origin is dict:
        return isinstance(value, dict)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def is_finite(config: Any) -> bool:
    """Tell whether all numbers in a value of JSON are finite."""
    return all(isinstance(number, int) or math.isfinite(number) for _, number in numbers_in("", config))
