"""Options of a product, declared once: a frozen dataclass whose fields carry their help.

Python takes such a dataclass or its fields as keywords; the command line (``cli.options``) and the server
(``serve.tasks.task``) make their options of its fields. So a new option is a field and the code that uses it.
"""

from __future__ import annotations

from dataclasses import Field, field, fields
from typing import Any, Literal

ScoreMethod = Literal["exact", "monte-carlo", "bound"]  # how ``score`` finds log p
Blanks = Literal["words", "spans"]  # what blanks stand for: words hidden one by one, or spans as people leave them


def option(default: Any, help: str, *flags: str, **limits: float) -> Any:
    """Declare an option: its ``flags`` are ``--the-name`` by default; ``limits`` are pydantic's, for the server."""
    return field(default=default, metadata={"help": help, "flags": flags, "limits": limits})


def option_fields(options: Any) -> list[Field[Any]]:
    """Return the fields of a dataclass that are options; one without help is set from Python alone."""
    return [entry for entry in fields(options) if entry.metadata]
