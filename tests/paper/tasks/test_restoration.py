"""The restoration task: slots as the paper draws them, what editors restored, and the numbers reported."""

import math
from random import Random

import pytest

from blanklm.core.template import Blank
from blanklm.errors import DataError
from blanklm.paper.tasks.masking import cut, editors_restorations, many_slots, single_slot, slots_of_corpus
from blanklm.paper.tasks.metrics import cer_interval, character_error_rate, edit_distance, expected_calibration_error
from blanklm.paper.tasks.restoration import (
    TEMPERATURES,
    calibrate,
    document,
    evaluate_fill,
    evaluate_rank,
    score_ranked,
    without_repeats,
)
from blanklm.restoration.candidates import Candidate
from tests.support.models import make_restorer

TEXT = "εδοξεν τηι βουληι και τωι δημωι -- επειδη # διονυσιοσ ανηρ αγαθοσ ων διατελει " * 8


def test_a_single_slot_hides_1_to_10_characters_that_are_there():
    drawn = [single_slot(TEXT, Random(seed), context=100) for seed in range(400)]
    lengths = [len(masked.spans[0]) for masked in drawn]
    assert set(lengths) == set(range(1, 11)) and 4.5 < sum(lengths) / 400 < 6.5
    assert all(len(masked.text) == 100 and masked.text in TEXT for masked in drawn)
    assert not any(character in "-#" for masked in drawn for character in masked.spans[0])
    assert all(masked.template.blanks[0].length == len(masked.spans[0]) for masked in drawn)
    assert single_slot("---#--", Random(0)) is None and single_slot("-α-", Random(0)).spans == ("α",)


@pytest.mark.parametrize("ratio", [0.25, 0.4, 0.5])
def test_many_slots_hide_the_share_and_do_not_touch(ratio):
    for seed in range(10):
        masked = many_slots(TEXT, ratio, Random(seed))
        hidden = sum(map(len, masked.spans))
        assert hidden == math.ceil(ratio * sum(character not in "-#" for character in masked.text))
        assert all(masked.template.pieces[1:-1]) and all(1 <= len(span) <= 10 for span in masked.spans)
        assert masked.text == TEXT and not any(character in "-#" for span in masked.spans for character in span)
    with pytest.raises(DataError, match="between 0 and 1"):
        many_slots(TEXT, 1.5, Random(0))


def test_a_texts_slots_do_not_depend_on_its_neighbours():
    texts = [TEXT[:90], TEXT[40:160], "---", TEXT[5:70]]
    drawn = slots_of_corpus(texts, 0.4, seed=3)
    assert len(drawn) == 3 and drawn[0] == slots_of_corpus(texts[:1], 0.4, seed=3)[0]


def test_editors_restorations_are_slots():
    masked = editors_restorations("dis man[ibus] [sac][rum] # [vix]it annis [--] [x#] [ ]")
    assert masked.spans == ("ibus", "sacrum", "vix")
    assert masked.text == "dis manibus sacrum # vixit annis -- x#  "
    assert editors_restorations("dis manibus") is None and editors_restorations("ibus] sacrum [v]ixit") is None


def test_what_a_system_is_told_of_lengths():
    masked = cut("dis manibus sacrum", [(4, 8), (12, 18)])
    assert document(masked) == ["dis ", Blank(4, 4), "bus ", Blank(6, 6), ""]
    assert document(masked, 0.5, 1.5) == ["dis ", Blank(2, 6), "bus ", Blank(3, 9), ""]
    assert document(masked, 0, 0) == ["dis ", Blank(), "bus ", Blank(), ""]
    assert without_repeats([masked], {"dis manibus sacrum"}) == [] and without_repeats([masked], {"dis"}) == [masked]


class Oracle:
    """Knows the answers, but for every second gap."""

    def __init__(self, masked):
        self.spans = [list(m.spans) for m in masked]

    def fill(self, documents):
        return [[span if i % 2 == 0 else "x" * len(span) for i, span in enumerate(spans)] for spans in self.spans]

    def rank(self, documents, n=20):
        return [
            [
                [Candidate("x" * len(span), math.log(0.6)), Candidate(span if i % 2 == 0 else "y", math.log(0.3))]
                for i, span in enumerate(spans)
            ]
            for spans in self.spans
        ]


def test_the_numbers_of_a_known_system():
    masked = [cut("dis manibus", [(0, 2), (5, 9)]), cut("sacrum", [(1, 3)])]
    filled = evaluate_fill(Oracle(masked), masked)
    assert math.isclose(filled["cer"], 100 * 4 / 8) and math.isclose(filled["top1"], 200 / 3)
    assert filled["length_right"] == 100 and (filled["gaps"], filled["characters"], filled["texts"]) == (3, 8, 2)
    ranked = evaluate_rank(Oracle(masked), masked)
    assert ranked["cer"] == 100 and ranked["top1"] == 0 and math.isclose(ranked["top20"], 200 / 3)
    assert math.isclose(ranked["ece"], 60)
    beyond = [[Candidate("a", -1.0)] * 20 + [Candidate("b", -2.0)]]
    assert score_ranked(beyond, ["b"])["top20"] == 0


def test_edit_distance_and_error_rate():
    for first, second, distance in (("", "", 0), ("abc", "abc", 0), ("abc", "ac", 1), ("kitten", "sitting", 3)):
        assert edit_distance(first, second) == edit_distance(second, first) == distance
    assert character_error_rate(["ab", "x"], ["ab", "yz"]) == 100 * 2 / 4
    assert character_error_rate([], []) == 0


def test_the_interval_of_an_error_rate_is_as_wide_as_its_slots_differ():
    truths = ["abcd"] * 100
    same, mixed = cer_interval(["abcx"] * 100, truths), cer_interval(["abcd", "wxyz"] * 50, truths)
    assert same == {"cer_low": 25, "cer_high": 25}
    assert 38 < mixed["cer_low"] < 43 and 57 < mixed["cer_high"] < 62  # 50 +- 1.96 * 5
    assert cer_interval([], []) == {"cer_low": 0, "cer_high": 0}


def test_calibration_error():
    assert expected_calibration_error([1.0, 1.0], [True, True]) == 0
    assert math.isclose(expected_calibration_error([0.9, 0.9, 0.1], [True, False, False]), (0.8 + 0.1) / 3)
    assert expected_calibration_error([], []) == 0
    # Too sure of some and not sure enough of others: the two do not cancel out.
    assert math.isclose(expected_calibration_error([0.9, 0.1], [False, True]), 0.9)


def test_a_model_that_is_always_wrong_is_calibrated_to_be_less_sure():
    restorer = make_restorer()
    masked = [cut("αγαθηι τυχηι", [(start, start + 2)]) for start in range(6)]
    costs = calibrate(restorer, masked)
    assert tuple(costs) == TEMPERATURES and list(costs.values()) == sorted(costs.values(), reverse=True)
    restorer.about["temperature"] = 2.0
    warm = type(restorer)(restorer.model, restorer.tokenizer, restorer.about)
    before, after = (r.restore(["αγα", Blank(1, 1), "ηι"]).gaps[0] for r in (restorer, warm))
    assert after.best == before.best and after.candidates[0].probability < before.candidates[0].probability
