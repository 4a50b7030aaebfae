"""Options of a product, declared once: a frozen dataclass whose fields carry their help and their limits.

Python takes such a dataclass or its fields as keywords; the command line (``cli.options``) and the server
(``serve.tasks.task``) make their options of its fields. So a new option is a field and the code that uses it. The
dataclass calls ``check_options`` when it is made, and so no number is out of range, wherever it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, field, fields
from functools import cache
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from blanklm.errors import OptionError, shortened

ScoreMethod = Literal["exact", "monte-carlo", "bound"]  # how ``score`` finds log p
Blanks = Literal["words", "spans"]  # what blanks stand for: words hidden one by one, or spans as people leave them

LONGEST_LENGTH = 999_999_999  # of a blank, as it can be written: ___[999999999]


def option(default: Any, help: str, *flags: str, **limits: float) -> Any:
    """Declare an option: its ``flags`` are ``--the-name`` by default; ``limits`` are pydantic's: ge, gt, le, lt."""
    return field(default=default, metadata={"help": help, "flags": flags, "limits": limits})


def setting(default: Any, **limits: float) -> Any:
    """Declare a field that is set from Python alone, with its ``limits``."""
    return field(default=default, metadata={"limits": limits})


def option_fields(options: Any) -> list[Field[Any]]:
    """Return the fields of a dataclass that are options; one without help is set from Python alone."""
    return [entry for entry in fields(options) if "help" in entry.metadata]


# --- Checking them ------------------------------------------------------------------------------------------------


def check_options(options: Any, error: Callable[[str, str], Exception] = OptionError) -> None:
    """Raise the ``error`` (name, message) of the first field that has a value it cannot have."""
    product: Any = type(options)
    kinds = _kinds(product)
    for entry in fields(options):
        value, (choices, number, words, may_be_none) = getattr(options, entry.name), kinds[entry.name]
        if value is None and may_be_none:
            continue
        try:
            if choices and value not in choices:
                raise OptionError(entry.name, f"{entry.name} must be {' or '.join(map(str, choices))}, not {value!r}")
            if number:
                check_number(entry.name, value, number is int, **entry.metadata.get("limits", {}))
            if words and not (isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)):
                raise OptionError(entry.name, f"{entry.name} must be a list of texts, not {shortened(repr(value))}")
        except OptionError as wrong:
            raise error(wrong.option, str(wrong)) from None


@cache
def _kinds(options: Any) -> dict[str, tuple[tuple[Any, ...], type | None, bool, bool]]:
    """Return of each field: its choices, whether it is an int or a float, if it has words, and if it may be None."""
    kinds = {}
    for name, hint in get_type_hints(options).items():
        parts = get_args(hint) if NoneType in get_args(hint) else (hint,)
        choices = tuple(choice for part in parts if get_origin(part) is Literal for choice in _choices(part))
        numbers = [part for part in parts if part in (int, float)]
        kinds[name] = choices, numbers[0] if numbers else None, tuple[str, ...] in parts, NoneType in parts
    return kinds


def _choices(literal: Any) -> list[Any]:
    """Return the values of a Literal, those of Literals within it included."""
    return [value for part in get_args(literal) for value in (_choices(part) if get_origin(part) else [part])]


def check_number(
    name: str,
    value: Any,
    whole: bool = True,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> None:
    """Refuse what is no number, or out of its range."""
    is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not is_number or not -math.inf < value < math.inf:
        raise OptionError(name, f"{name} must be a {'whole ' * whole}number, not {shortened(repr(value))}")
    bounds = (
        (ge, "0 or more" if ge == 0 else f"at least {ge}", lambda bound: value >= bound),
        (gt, f"above {gt}", lambda bound: value > bound),
        (le, f"at most {le}", lambda bound: value <= bound),
        (lt, f"below {lt}", lambda bound: value < bound),
    )
    for bound, said, holds in bounds:
        if bound is not None and not holds(bound):
            raise OptionError(name, f"{name} must be {said}, not {shortened(str(value))}")
