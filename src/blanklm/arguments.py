"""What callers from Python give: a value of the wrong kind is one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from blanklm.errors import BlankLMError


def options_of(kind: type[Any], options: Any, settings: dict[str, Any], *others: str) -> Any:
    """Put together what a caller has given as a record and as keywords; ``others`` are arguments of their own."""
    if options is not None and not isinstance(options, kind):
        raise BlankLMError(f"options are a {kind.__name__}, not {_shown(options)}: give settings by name, such as n=3")
    names = [field.name for field in fields(kind)]
    if unknown := settings.keys() - set(names):
        raise BlankLMError(f"there is no setting {min(unknown)!r}: choose from {', '.join((*names, *others))}")
    for field in fields(kind):
        value = settings.get(field.name)
        if isinstance(field.default, int | float) and value is not None and not isinstance(value, int | float):
            raise BlankLMError(f"{field.name} is a number, not {_shown(value)}")
        if type(field.default) is int and isinstance(value, float):
            raise BlankLMError(f"{field.name} is a whole number, not {value}")
    return kind(**settings) if options is None else replace(options, **settings)


def list_of_texts(texts: Any, *others: type) -> list[Any]:
    """Refuse what is neither text nor texts."""
    if not isinstance(texts, Iterable) or isinstance(texts, bytes | Mapping):
        raise BlankLMError(f"a text is a string, and texts are a list of strings; not {_shown(texts)}")
    each = list(texts)
    for number, text in enumerate(each):
        if not isinstance(text, (str, *others)):
            raise BlankLMError(f"text {number + 1} of the list is a string; not {_shown(text)}")
    return each


def _shown(value: Any) -> str:
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 40 else shown[:40] + '...'}"
