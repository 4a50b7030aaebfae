"""Lengths in letters, as editors of stones count them: the spaces between words, which no stone has, do not count.

To a model a space is a character like any other. So it restores a gap of n letters and room for some spaces, and the
restorations with n letters are kept: with A the event that a restoration has so many, p(r | A) = p(r) / p(A), where
p(A) is the share of A among all candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from blanklm.core.template import Blank
from blanklm.restoration.draft import Part
from blanklm.restoration.notation.document import LONGEST_GAP
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.ranking import best_combinations, places_of
from blanklm.restoration.results import Candidate, GapRestoration, Restoration

LETTERS_PER_SPACE = 3  # there is at most one space for so many letters, and one more


def candidates_needed(top: int) -> int:
    """Return how many candidates to search for, as those with another number of letters are dropped."""
    return max(2 * top, 40)


def with_room_for_spaces(parts: Sequence[Part]) -> list[Part]:
    """Widen the gaps whose lengths count letters; gaps that touch must keep their exact lengths."""
    return [
        part if any(isinstance(neighbour, Blank) for neighbour in _neighbours(parts, at)) else _widened(part)
        for at, part in enumerate(parts)
    ]


def _neighbours(parts: Sequence[Part], at: int) -> list[Part]:
    return [*parts[max(0, at - 1) : at], *parts[at + 1 : at + 2]]


def _widened(part: Part) -> Part:
    if not isinstance(part, Blank) or part.max is None:
        return part
    return replace(part, max=min(LONGEST_GAP, part.max + part.max // LETTERS_PER_SPACE + 1))


def with_letter_counts(restoration: Restoration, parts: Sequence[Part], options: RestoreOptions) -> Restoration:
    """Keep the candidates that have as many letters as the gaps of ``parts``."""
    blanks = [part for part in parts if isinstance(part, Blank)]
    gaps = [_counted(blank, gap, options) for blank, gap in zip(blanks, restoration.gaps, strict=True)]
    hypotheses = best_combinations([gap.candidates for gap in gaps], options.top)
    return Restoration(tuple(hypotheses), tuple(gaps))


def _counted(blank: Blank, gap: GapRestoration, options: RestoreOptions) -> GapRestoration:
    """Keep the candidates with as many letters as the blank has; if there is none, keep all and abstain."""
    if blank == Blank():
        return replace(gap, candidates=gap.candidates[: options.top])
    fitting = [c for c in gap.candidates if blank.min <= letters(c.text) <= (blank.max or LONGEST_GAP)]
    if not fitting:
        return replace(gap, abstained=True, reason="no restoration with so many letters was found")
    share = sum(c.probability for c in fitting) / sum(c.probability for c in gap.candidates)
    kept = [Candidate(c.text, min(0.0, c.log_prob - math.log(share))) for c in fitting[: options.top]]
    lengths: dict[int, float] = {}
    for candidate in fitting:
        count = letters(candidate.text)
        lengths[count] = lengths.get(count, 0.0) + candidate.probability
    total = sum(lengths.values())
    lengths = {count: p / total for count, p in sorted(lengths.items(), key=lambda item: -item[1])}
    too_improbable = gap.candidates[0].probability < options.abstain_below  # else it abstained for another reason
    reason = None if too_improbable and kept[0].probability >= options.abstain_below else gap.reason
    return GapRestoration(tuple(kept), places_of(kept), lengths, reason is not None, reason)


def letters(text: str) -> int:
    return len(text.replace(" ", ""))
