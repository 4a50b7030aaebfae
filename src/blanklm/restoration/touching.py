"""Gaps that touch are restored as one gap, whose restorations are then cut where one gap ends and the next begins."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from blanklm.core.template import Blank
from blanklm.restoration.candidates import Candidate, GapRestoration, places_of


def can_be_cut(blanks: Sequence[Blank]) -> bool:
    """Return whether it is known where each gap ends: all lengths are known but one at most."""
    return sum(blank.length is None for blank in blanks) <= 1


def cut(text: str, blanks: Sequence[Blank], letters_only: bool) -> list[str]:
    """Cut what was restored in several gaps that touch; spaces between two go to the one on the right."""
    free = next((i for i, blank in enumerate(blanks) if blank.length is None), len(blanks) - 1)
    pieces, behind = [], []
    for blank in blanks[:free]:
        at = _end_of(text, blank.min, letters_only)
        pieces.append(text[:at])
        text = text[at:]
    for blank in reversed(blanks[free + 1 :]):
        at = len(text) - _end_of(text[::-1], blank.min, letters_only)
        behind.append(text[at:])
        text = text[:at]
    return [*pieces, text, *reversed(behind)]


def _end_of(text: str, length: int, letters_only: bool) -> int:
    """Return where so many letters, or characters, of a text end."""
    counted = [i for i, character in enumerate(text) if character.isalpha() or not letters_only]
    return counted[length - 1] + 1 if length <= len(counted) else len(text)


def cut_gap(gap: GapRestoration, blanks: Sequence[Blank], letters_only: bool) -> list[GapRestoration]:
    """Return the restoration of each of the gaps that were restored as one.

    A piece is as probable as the candidates that have it. The best candidate's pieces come first, so that they agree.
    """
    cut_up = [(cut(candidate.text, blanks, letters_only), candidate) for candidate in gap.candidates]
    gaps = []
    for number, blank in enumerate(blanks):
        shares: defaultdict[str, float] = defaultdict(float)
        for pieces, candidate in cut_up:
            shares[pieces[number]] += candidate.probability
        first = cut_up[0][0][number] if cut_up else ""
        order = sorted(shares, key=lambda piece: (piece != first, -shares[piece]))
        candidates = tuple(Candidate(piece, math.log(shares[piece]) if shares[piece] else -math.inf) for piece in order)
        lengths: defaultdict[int, float] = defaultdict(float)
        for pieces, candidate in cut_up:
            lengths[len(pieces[number])] += candidate.probability
        known = {blank.min: 1.0} if blank.length else dict(sorted(lengths.items(), key=lambda item: -item[1]))
        gaps.append(GapRestoration(candidates, places_of(candidates) if candidates else (), known, gap.reason))
    return gaps
