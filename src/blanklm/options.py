"""Options of a product, declared once: a frozen dataclass whose fields carry their help.

The Python API takes such a dataclass or its fields as keywords; the command line and the server make their own options
of its fields (``cli.options``, ``serve.tasks.task``). So a new option is a field and the code that uses it.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

ScoreMethod = Literal["exact", "monte-carlo", "bound"]  # how ``score`` finds log p


def option(default: Any, help: str, *flags: str, **limits: float) -> Any:
    """A field with its ``help``.

    ``flags``: names on the command line, by default ``--the-name``. ``limits``: what the server accepts, as pydantic
    names them (``ge``, ``gt``, ``le``, ``lt``).
    """
    return field(default=default, metadata={"help": help, "flags": flags, "limits": limits})
