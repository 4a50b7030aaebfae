"""Lengths in letters: room for spaces before a search, a filter after it."""

import math

from blanklm.core.template import Blank
from blanklm.restoration.letter_counts import with_letter_counts, with_room_for_spaces
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.results import Candidate, GapRestoration, Restoration

PROBABILITIES = {"α β": 0.5, "αβ": 0.3, "αβγ": 0.2}


def restored():
    candidates = tuple(Candidate(text, math.log(p)) for text, p in PROBABILITIES.items())
    return Restoration((), (GapRestoration(candidates, (), {3: 0.7, 2: 0.3}),))


def test_gaps_are_widened_unless_they_touch_or_have_no_upper_bound():
    parts = ["α", Blank(6, 6), "β", Blank(2), "γ", Blank(1, 1), Blank(2, 2)]
    assert with_room_for_spaces(parts) == ["α", Blank(6, 9), "β", Blank(2), "γ", Blank(1, 1), Blank(2, 2)]


def test_candidates_with_as_many_letters_share_the_probability():
    (gap,) = with_letter_counts(restored(), ["α", Blank(2, 2)], RestoreOptions()).gaps
    assert {c.text: round(c.probability, 3) for c in gap.candidates} == {"α β": 0.625, "αβ": 0.375}
    assert gap.lengths == {2: 1.0}


def test_a_gap_of_unknown_extent_keeps_all_lengths_and_as_many_candidates_as_asked_for():
    (gap,) = with_letter_counts(restored(), ["α", Blank()], RestoreOptions(top=2)).gaps
    assert [c.text for c in gap.candidates] == ["α β", "αβ"] and gap.lengths == {3: 0.7, 2: 0.3}
