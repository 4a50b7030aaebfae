"""What ``Restorer.restore`` returns: candidates for each gap, and hypotheses for all gaps of a text together."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One restoration of one gap.

    ``log_prob`` is the model's after reranking with the lexicon. For a gap of unknown length it also includes the
    probability of the length, and how well the text on either side fits.
    """

    text: str
    log_prob: float

    @property
    def probability(self) -> float:
        return math.exp(self.log_prob)


@dataclass(frozen=True)
class GapRestoration:
    """The candidates for one gap, best first, and what their probabilities say of each place of the best."""

    candidates: tuple[Candidate, ...]
    places: tuple[dict[str, float], ...]  # for each place of the best: characters and their probabilities, best first
    lengths: dict[int, float]  # the length posterior; {k: 1.0} where the length is known
    abstained: bool = False
    reason: str | None = None  # why it abstained

    @property
    def best(self) -> str:
        return self.candidates[0].text

    @property
    def confidence(self) -> tuple[float, ...]:
        """For each character of the best candidate, its probability among the candidates of that length."""
        return tuple(place[character] for place, character in zip(self.places, self.best, strict=True))


@dataclass(frozen=True)
class Hypothesis:
    """A restoration of every gap of a text."""

    spans: tuple[str, ...]
    log_prob: float

    @property
    def probability(self) -> float:
        return math.exp(self.log_prob)


@dataclass(frozen=True)
class Restoration:
    """``hypotheses`` for the whole text, best first, and the restoration of each gap.

    Gaps are searched one by one, with the best guess in the others; the probability of a hypothesis is the product of
    the probabilities of its candidates. With one gap it is exact.
    """

    hypotheses: tuple[Hypothesis, ...]
    gaps: tuple[GapRestoration, ...]
