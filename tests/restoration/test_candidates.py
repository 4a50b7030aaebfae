"""Candidates of a gap: redundant spaces, reranking, lengths in letters."""

import math

import pytest

from blanklm.restoration.candidates import Candidate, letter_distribution, places_of, reranked, without_redundant_spaces


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


def test_what_was_not_found_counts_for_no_character():
    found = [Candidate(text, math.log(p)) for text, p in (("ab", 0.3), ("ac", 0.2), ("a", 0.4))]
    first, second = places_of(found)
    assert first == pytest.approx({"a": 0.5}) and second == pytest.approx({"b": 0.3, "c": 0.2})


def test_candidates_of_several_numbers_of_letters_share_the_probability():
    found = [Candidate(text, math.log(p)) for text, p in (("a b", 0.3), ("ab.", 0.2), ("abc", 0.1))]
    assert letter_distribution(found) == pytest.approx({2: 5 / 6, 3: 1 / 6})
