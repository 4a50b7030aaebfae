"""Results as JSON: dataclasses whose fields the command line prints and the HTTP API documents."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def doc(description: str) -> dict[str, str]:
    """Return the metadata of a field from which pydantic takes its description."""
    return {"description": description}


def to_json(record: Any, digits: int) -> Any:
    """Return a record as JSON has it, with numbers rounded to ``digits`` after the point."""
    if is_dataclass(record):
        return {entry.name: to_json(getattr(record, entry.name), digits) for entry in fields(record)}
    if isinstance(record, dict):
        return {str(key): to_json(value, digits) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [to_json(value, digits) for value in record]
    return round(record, digits) if isinstance(record, float) else record
