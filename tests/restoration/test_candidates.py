"""Candidates of a gap: redundant spaces, reranking, lengths in letters."""

import math

from blanklm.core.template import Blank
from blanklm.restoration.candidates import (
    Candidate,
    GapRestoration,
    Restoration,
    reranked,
    with_letter_counts,
    with_room_for_spaces,
    without_redundant_spaces,
)
from blanklm.restoration.options import RestoreOptions

PROBABILITIES = {"α β": 0.5, "αβ": 0.3, "αβγ": 0.2}


def test_spaces_beside_spaces_and_at_the_ends_of_a_text_are_redundant():
    candidates = [Candidate(text, math.log(p)) for text, p in (("est", 0.3), ("est ", 0.2), (" est", 0.1), (" ", 0.05))]

    def found(before, behind, least=1):
        kept = without_redundant_spaces(candidates, before, behind, least)
        return {c.text: round(c.probability, 6) for c in kept}

    assert found("hic situs ", "") == {"est": 0.6, " ": 0.05}
    assert found("hic situs ", "t t l") == {"est": 0.4, "est ": 0.2, " ": 0.05}
    assert found("hic situs ", "", least=4) == {"est": 0.3, "est ": 0.2, " est": 0.1, " ": 0.05}


def test_reranking_keeps_the_total_probability():
    candidates = [Candidate("ab", math.log(0.3)), Candidate("c", math.log(0.2)), Candidate("de", math.log(0.1))]
    lengths = {2: 0.6, 1: 0.25, 3: 0.15}
    found, posterior = reranked(candidates, [-2.0, 0.0, -2.0], lengths)
    assert [c.text for c in found] == ["c", "ab", "de"]
    assert math.isclose(sum(c.probability for c in found), 0.6)
    assert math.isclose(found[0].probability / found[1].probability, 0.2 / 0.3 * math.exp(2))
    assert list(posterior) == [1, 2, 3] and math.isclose(sum(posterior.values()), 1.0)
    same, unchanged = reranked(candidates, [-5.0] * 3, lengths)
    assert [c.text for c in same] == ["ab", "c", "de"] and math.isclose(unchanged[2], 0.6)


def restored():
    candidates = tuple(Candidate(text, math.log(p)) for text, p in PROBABILITIES.items())
    return Restoration((GapRestoration(candidates, (), {3: 0.7, 2: 0.3}),), ())


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
