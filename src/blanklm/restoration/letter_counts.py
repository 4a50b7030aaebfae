"""Count letters, as editors of stones do: the spaces between words, which no stone has, are not counted.

To a model a space is a character like any other. So it is asked for a gap of n letters and some spaces, and of what it
restores those restorations are kept that have n letters: with A the event that a restoration has so many,
p(r | A) = p(r) / p(A), where p(A) is the share of A among all that was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from blanklm.restoration.restorer import (
    LONGEST_GAP,
    Candidate,
    Gap,
    GapRestoration,
    Part,
    Restoration,
    Restorer,
    best_combinations,
    places_of,
)

LETTERS_A_SPACE = 3  # there is at most one space for so many letters, and one more


class LetterLengthRestorer:
    """A restorer for gaps whose lengths are counted in letters."""

    def __init__(self, restorer: Restorer) -> None:
        self.restorer, self.unknown = restorer, restorer.unknown

    def restore(
        self,
        parts: Sequence[Part],
        top: int = 20,
        abstain_below: float = 0.05,
        progress: Callable[[int], None] | None = None,
    ) -> Restoration:
        wide = [
            self._with_spaces(part, [*parts[max(0, at - 1) : at], *parts[at + 1 : at + 2]])
            for at, part in enumerate(parts)
        ]
        found = self.restorer.restore(wide, max(2 * top, 40), abstain_below, progress)
        asked = [part for part in parts if isinstance(part, Gap)]
        gaps = [_counted(of, gap, top, abstain_below) for of, gap in zip(asked, found.gaps, strict=True)]
        return Restoration(tuple(best_combinations([gap.candidates for gap in gaps], top)), tuple(gaps))

    def _with_spaces(self, part: Part, neighbours: Sequence[Part]) -> Part:
        if not isinstance(part, Gap) or part.maximum is None or any(isinstance(other, Gap) for other in neighbours):
            return part  # of gaps that touch the lengths must be exact
        return replace(part, maximum=min(LONGEST_GAP, part.maximum + part.maximum // LETTERS_A_SPACE + 1))


def _counted(asked: Gap, gap: GapRestoration, top: int, abstain_below: float) -> GapRestoration:
    """What is left of a gap's restorations; if nothing is, they stay, and it abstains."""
    if asked.minimum is None and asked.maximum is None:
        return gap
    fitting = [c for c in gap.candidates if (asked.minimum or 1) <= letters(c.text) <= (asked.maximum or LONGEST_GAP)]
    if not fitting:
        return replace(gap, abstained=True, reason="no restoration with so many letters was found")
    share = sum(c.probability for c in fitting) / sum(c.probability for c in gap.candidates)
    kept = [Candidate(c.text, min(0.0, c.log_prob - math.log(share))) for c in fitting[:top]]
    lengths: dict[int, float] = {}
    for candidate in fitting:
        count = letters(candidate.text)
        lengths[count] = lengths.get(count, 0.0) + candidate.probability
    total = sum(lengths.values())
    lengths = {count: p / total for count, p in sorted(lengths.items(), key=lambda item: -item[1])}
    too_improbable = gap.candidates[0].probability < abstain_below  # else it abstained for another reason
    reason = None if too_improbable and kept[0].probability >= abstain_below else gap.reason
    return GapRestoration(tuple(kept), places_of(kept), lengths, reason is not None, reason)


def letters(text: str) -> int:
    return len(text.replace(" ", ""))
