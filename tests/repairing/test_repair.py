"""Repair: what is mended, what is left alone, and that its edits are what they say."""

import math
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blanklm import BlankLM
from blanklm.errors import BlankLMError
from blanklm.repairing.lexicon import Lexicon, distance
from blanklm.repairing.proposals import Proposer
from blanklm.repairing.repair import apply, edits_between, locked
from blanklm.repairing.units import Window, units_of
from tests.core.test_in_place import enumerated


@pytest.fixture(scope="module")
def small():
    return BlankLM.from_pretrained("english-small", device="cpu")


def test_slips_are_mended_and_the_rest_stays_letter_for_letter(small):
    text = "The goverment has  anounced a new polcy ; it is is good ."
    repaired = small.repair(text)
    assert repaired.text == "The government has  announced a new policy ; it is good ."
    assert [edit.new for edit in repaired.edits][:3] == ["government", "announced", "policy"]
    assert apply(text, repaired.edits) == repaired.text
    for edit in repaired.edits:
        assert text[edit.start : edit.end] == edit.old and edit.gain > 0
    assert {edit.rule for edit in repaired.edits} == {"spelling", "doubled"}


def test_a_text_with_nothing_to_repair_comes_back_as_it_was(small):
    text = "The cat sat on the mat and looked out of the window."
    repaired = small.repair(text)
    assert repaired.text == text and not repaired.edits and not repaired.changed


def test_locked_words_stay_and_no_more_is_changed_than_allowed(small):
    text = "The goverment has anounced a new polcy."
    kept = small.repair(text, keep=("goverment", "new POLCY"))
    assert [edit.new for edit in kept.edits] == ["announced"]
    assert len(small.repair(text, most=0.1).edits) == 1
    assert not small.repair(text, margin=500).edits


def test_what_is_wrong_is_one_line(small):
    for text, problem in (("  ", "the text is empty"), ("a" * 5000, "too long")):
        with pytest.raises(BlankLMError, match=problem) as raised:
            small.repair(text)
        assert "\n" not in str(raised.value)
    for wrong in ({"most": 0}, {"margin": -1}, {"margin": math.nan}, {"rounds": 0}):
        with pytest.raises(BlankLMError):
            small.repair("a b", **wrong)


@given(st.text(alphabet="ab .\n_'", max_size=30), st.text(alphabet="ab .\n_'", max_size=30))
def test_edits_turn_the_original_into_the_text_word_for_word(original, text):
    """Spaces beside an insertion or a deletion may be those of either side; no word is lost."""
    edits = edits_between(original, text, [])
    assert all(before.end <= after.start for before, after in pairwise(edits))
    if [u.text for u in units_of(original)] and [u.text for u in units_of(text)]:
        same = SequenceMatcher(None, apply(original, edits).split(), text.split(), autojunk=False).ratio()
        assert same == 1 or edits


def test_each_words_probability_is_that_of_the_word_in_a_blank(small):
    """Leave-one-out against the enumeration of all orders, word parts from left to right."""
    text = "I saw the goverment, too."
    words = small.surprise(text)
    assert [word.text for word in words] == ["I", "saw", "the", "goverment", ",", "too", "."]
    policy = small.model.for_blanks(None)
    units = units_of(text)
    for i, word in enumerate(words):
        assert text[word.start : word.end] == word.text
        hidden = Window.over(text, units, i, i).with_text(word.text, small.tokenizer)
        whole = (hidden.hidden,) if len(hidden.hidden) > 1 else ()
        assert word.log_prob == pytest.approx(enumerated(policy, hidden, whole), abs=1e-3)
    assert words[3].log_prob < words[2].log_prob and words[3].surprise > 5
    best, log_p = words[1].expected[0]
    other = Window.over(text, units, 1, 1).with_text(best, small.tokenizer)
    assert log_p == pytest.approx(enumerated(policy, other), abs=1e-3)


def test_a_long_text_is_read_with_what_is_around_each_word(small):
    text = "The cat sat on the mat. " * 60
    words = small.surprise(text)
    assert len(words) == 7 * 60 and np.isfinite([word.log_prob for word in words]).all()


def test_locked_words_are_found_however_they_are_written():
    units = units_of("Don't go, GO home.")
    assert [unit.text for unit in units] == ["Don't", "go", ",", "GO", "home", "."]
    assert locked("Don't go, GO home.", units, ("go",)) == [False, True, False, True, False, False]
    assert locked("Don't go, GO home.", units, ("go home", " ")) == [False, False, False, True, True, False]
    assert locked("İİİİ go on", units_of("İİİİ go on"), ("go",)) == [False, True, False]  # whose small letters are two


@pytest.mark.parametrize(
    ("one", "two", "changes"), [("form", "from", 1), ("teh", "the", 1), ("a", "abc", 2), ("cat", "dog", 3), ("", "", 0)]
)
def test_a_swap_of_neighbours_is_one_change(one, two, changes):
    assert distance(one, two) == changes == distance(two, one)


def test_words_alike_and_forms_are_known_and_written_like_the_word():
    lexicon = Lexicon.english()
    assert lexicon.alike("Recieved")[0] == ("Received", 1)
    assert {"went", "goes", "going", "gone"} <= set(lexicon.forms("go"))
    assert "bought" in lexicon.forms("buyed") and "then" in lexicon.forms("than")
    assert lexicon.misspelt("definately") and not lexicon.misspelt("sugary") and not lexicon.misspelt("John's")
    assert all(distance("wether", word.lower()) <= 2 for word, _ in lexicon.alike("wether"))


def proposals(text, i, gaps=((), ())):
    units = units_of(text)
    found = Proposer(text, units, Lexicon.english(), [False] * len(units)).around(i, gaps)
    return {(p.rule, p.text) for p in found}


def test_a_blank_holds_at_least_a_word_so_that_deletions_are_two_words_made_one():
    assert ("doubled", "the") in proposals("in the the house", 2)
    assert ("swapped", "house the") in proposals("in the house", 1)
    assert ("missing", "to the") in proposals("we went the beach", 2, (("to",), ()))
    assert ("space", "a lot") in proposals("quite alot", 1) and ("space", "everyone") in proposals("to every one", 1)
    assert ("spelling", "about") in proposals("it is ab0ut him", 2)
    assert not {text for rule, text in proposals("the 2nd time", 1) if rule == "spelling"}
    assert not any(rule == "doubled" for rule, _ in proposals("the. The end", 2))


def test_errors_by_rule_are_made_with_a_seed_and_scored_by_word():
    from blanklm.paper.tasks.errors import KINDS, Tally, changes, clean_texts, damage

    texts = clean_texts(["The children were playing in the garden when it started to rain."] * 10 + ["no sentence"])
    damaged = damage(texts)
    assert [one.kind for one in damaged] == list(KINDS) * 2 and damaged == damage(texts)
    assert all(one.text != one.clean and changes(one.text, one.clean).total() >= 1 for one in damaged)
    tally = Tally()
    tally.add("a b c", "a x c", "a x d")
    assert tally.to_json() | {"precision": 1.0} == vars(tally) | {"precision": 1.0, "recall": 0.0, "f0.5": 0.0}
    tally.add("a b c", "a x c", "a x c")
    assert (tally.wanted, tally.made, tally.right) == (2, 2, 1)
