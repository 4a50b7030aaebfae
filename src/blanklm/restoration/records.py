"""A restored document, part by part, as Python and JSON have it (``blanklm.records``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from blanklm.records import doc


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
class PlaceRecord:
    name: str
    probability: float


@dataclass(frozen=True)
class AttributionRecord:
    """Where and when a text was written, by the letters that are preserved; years BC are negative."""

    letters: int = field(metadata=doc("How many letters are preserved, those that the editor restored left out."))
    places: list[PlaceRecord] = field(metadata=doc("Provinces or regions, the most probable first."))
    first: int = field(metadata=doc("The first year of the shortest range that is 80% probable."))
    last: int = field(metadata=doc("The last year of that range."))
    share: float = field(metadata=doc("How probable that range is."))
    median: int = field(metadata=doc("The year that is as probably too late as too early."))
    mean: int = field(metadata=doc("The mean of the distribution over years."))
    dates: dict[int, float] = field(metadata=doc("The probability of each bin of years, by its first year."))
    note: str | None = field(metadata=doc("What to beware of."))


@dataclass(frozen=True)
class PassageRecord:
    language: str
    parts: list[str | int] = field(metadata=doc("What is read, and the numbers of its gaps, in reading order."))
    gaps: list[int] = field(metadata=doc("The numbers of its gaps."))
    hypotheses: list[HypothesisRecord] = field(metadata=doc("For all its gaps together, best first."))
    attribution: AttributionRecord | None = field(default=None, metadata=doc("Where and when, if it was asked for."))


@dataclass(frozen=True)
class RestorationRecord:
    """A candidate, spelled as the text around it is."""

    text: str
    probability: float
    certainty: str = field(metadata=doc("high, medium or low."))
    written: str = field(metadata=doc("As it is written in the document, in the place of the gap."))
    formula: str | None = field(default=None, metadata=doc("The formula of the index that has it here, if one has."))


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
    unit: str = field(metadata=doc("What min, max and lengths count: letters, or characters."))
    before: str = field(metadata=doc("The text before it, with - for another gap."))
    behind: str
    abstained: bool
    reason: str | None = field(metadata=doc("Why it is left as it is, if it is."))
    restorations: list[RestorationRecord] = field(metadata=doc("Best first."))
    confidence: list[float] = field(metadata=doc("Of each character of the best: the probability of all that have it."))
    places: list[dict[str, float]] = field(metadata=doc("The characters that compete for each place of the best."))
    lengths: dict[int, float] = field(metadata=doc("How probable each length is."))
    parallels: list[Parallel]

    @property
    def candidates(self) -> list[RestorationRecord]:
        """The restorations, by the name that they have in Python."""
        return self.restorations
