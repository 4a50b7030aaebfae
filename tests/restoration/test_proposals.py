"""What formulae have between the words around a gap."""

import math

import pytest

from blanklm.restoration.candidates import Candidate, letters_in, raised
from blanklm.restoration.proposals import Index, Proposal

INDEX = Index(
    {
        "iovi optimo maximo": (40, ("HD1",)),
        "votum solvit libens merito": (90, ("HD2",)),
        "votum posuit libens": (3, ("HD3",)),
        "omni pecunia": (12, ("HD4",)),
    }
)


def proposed(before, behind, letters):
    found = INDEX.proposals(before, behind, (1, 20), lambda text: letters_in(text) == letters)
    return {p.text: (p.formula, p.agreeing) for p in found}


@pytest.mark.parametrize(
    ("before", "behind", "letters", "expected"),
    [
        ("aram iovi ", " maximo posuit", 6, {"optimo": ("iovi optimo maximo", 2)}),
        ("aram io", " maximo", 8, {"vi optimo": ("iovi optimo maximo", 2)}),  # it begins within a word
        ("votum ", " libens", 6, {"solvit": ("votum solvit libens merito", 2), "posuit": ("votum posuit libens", 2)}),
        ("votum sol", " libens", 3, {"vit": ("votum solvit libens merito", 3)}),
        ("votum", " libens", 6, {" solvit": ("votum solvit libens merito", 2), " posuit": ("votum posuit libens", 2)}),
        ("", " maximo", 10, {"iovi optimo": ("iovi optimo maximo", 1)}),  # at the beginning of a text
        ("de omni ", "", 7, {"pecunia": ("omni pecunia", 1)}),  # the formula may end before the text does, or with it
        ("de omni ", " fecit", 7, {"pecunia": ("omni pecunia", 1)}),
        ("de omni ", "m fecit", 7, {}),  # but not within a word
        ("votum ", " laetus", 6, {}),
        ("iovi ", " maximo", 7, {}),  # of another length
    ],
)
def test_what_a_formula_has_in_the_place_of_a_gap_is_proposed(before, behind, letters, expected):
    assert proposed(before, behind, letters) == expected


def test_a_letter_that_is_lost_agrees_with_nothing():
    assert not proposed("iov- ", " maximo", 6) and not proposed("iov- ", " maxi-o", 6)
    assert proposed("- iovi ", " maximo", 6)


def test_the_more_words_agree_and_the_more_texts_have_it_the_more_a_proposal_weighs():
    weights = [Proposal("a", "f", texts, agreeing).weight for texts, agreeing in ((3, 1), (30, 1), (3, 2), (3, 4))]
    assert weights == sorted(weights)


def test_what_formulae_have_gains_what_all_others_lose():
    found = [Candidate("ab", math.log(0.4)), Candidate("cd", math.log(0.01)), Candidate("ef", math.log(0.02))]
    after = {c.text: c for c in raised(found, [Proposal("cd", "cd gh", 100, 2), Proposal("xy", "xy gh", 9, 2)])}
    assert list(after) == ["cd", "ab", "ef"] and after["cd"].formula == "cd gh" and after["ab"].formula is None
    assert 0.5 < after["cd"].probability < 1 and sum(c.probability for c in after.values()) < 1
    assert after["ab"].probability / after["ef"].probability == pytest.approx(20)
    assert raised(found, [Proposal("xy", "xy gh", 9, 2)])[0].probability == pytest.approx(0.4)  # it was not scored
    impossible = [*found, Candidate("xy", -math.inf)]
    assert raised(impossible, [Proposal("xy", "xy gh", 9, 2)])[0].probability == pytest.approx(0.4)


def test_there_is_an_index_for_each_language_of_the_package():
    assert len(Index.of("greek").formulae) > 1000 and len(Index.of("latin").formulae) > 1000
    assert not Index.of("klingon").formulae
