"""The JSON of a restored document, for ``Edition.to_json``, ``blanklm restore --json`` and the server alike.

The descriptions are those of the HTTP API: pydantic reads them from the metadata of the fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any


def doc(description: str) -> dict[str, str]:
    return {"description": description}


@dataclass(frozen=True)
class Parallel:
    """Words of a restored text in the training texts; ``before`` and ``behind`` are quoted only from the corpus."""

    words: str = field(metadata=doc("The words that agree."))
    texts: int = field(metadata=doc("In how many training texts they occur."))
    examples: tuple[str, ...] = field(metadata=doc("Some of these texts."))
    before: str = ""
    behind: str = ""


@dataclass(frozen=True)
class HypothesisRecord:
    restorations: list[str]
    probability: float


@dataclass(frozen=True)
class PassageRecord:
    language: str
    parts: list[str | int] = field(metadata=doc("What is read, and the numbers of its gaps, in reading order."))
    gaps: list[int] = field(metadata=doc("The numbers of its gaps."))
    hypotheses: list[HypothesisRecord] = field(metadata=doc("For all its gaps together, best first."))


@dataclass(frozen=True)
class RestorationRecord:
    text: str
    probability: float
    certainty: str = field(metadata=doc("high, medium or low."))
    written: str = field(metadata=doc("As it is written in the document, in the place of the gap."))


@dataclass(frozen=True)
class GapRecord:
    gap: int = field(metadata=doc("Its number, from 1."))
    line: int
    column: int
    start: int = field(metadata=doc("Where it begins in the text sent, in characters from 0."))
    end: int
    written: str
    min: int | None
    max: int | None
    before: str
    behind: str
    abstained: bool
    reason: str | None
    restorations: list[RestorationRecord] = field(metadata=doc("Best first."))
    confidence: list[float] = field(metadata=doc("Of each character of the best."))
    places: list[dict[str, float]] = field(metadata=doc("The characters that compete for each place of the best."))
    lengths: dict[str, float] = field(metadata=doc("How probable each length is."))
    parallels: list[Parallel]


@dataclass(frozen=True)
class EditionRecord:
    notation: str
    text: str = field(metadata=doc("The text restored, in its own notation."))
    passages: list[PassageRecord]
    gaps: list[GapRecord]


def to_json(record: Any) -> Any:
    """Return a record as JSON has it, with probabilities rounded to six digits."""
    if is_dataclass(record):
        return {entry.name: to_json(getattr(record, entry.name)) for entry in fields(record)}
    if isinstance(record, dict):
        return {key: to_json(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [to_json(value) for value in record]
    return round(record, 6) if isinstance(record, float) else record
