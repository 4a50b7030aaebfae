"""What stands between two texts: BLEU and ROUGE-L against several references, and the rows that need no model."""

import json

import pytest

from blanklm.core.canvas import Fill
from blanklm.errors import DataError
from blanklm.paper.tasks.metrics import rouge_l, words_and_marks
from blanklm.paper.tasks.middles import Item, fills_of, of_another_item, people, read_items, score

ITEMS = [
    Item.between("It rained.", "He was wet.", ("He had no umbrella, and it poured.", "He forgot his umbrella.")),
    Item.between("She ran.", "She won.", ("She was the fastest of them all.",)),
    Item.between("Tom cooked.", "They ate it all.", ("He made a big pot of soup.", "The soup smelled so good!")),
]


class Repeats:
    """Fills every blank with the same words."""

    def fill(self, texts, progress=None, **options):
        return [Fill(text.replace("___", "so it went on ."), ("so it went on .",), 0.0) for text in texts]


def test_what_a_person_wrote_scores_highest_whichever_of_the_references_it_is():
    for place in (0, -1):
        row = score([item.references[place] for item in ITEMS], ITEMS)
        assert row["rouge_l"] == pytest.approx(100) and row["bleu"] == pytest.approx(100)
        assert row["bleu_interval"] == pytest.approx([100, 100])
    wrong = score(of_another_item(ITEMS), ITEMS)
    assert wrong["rouge_l"] < 40 and wrong["bleu"] < 20
    assert wrong["rouge_l_interval"][0] <= wrong["rouge_l"] <= wrong["rouge_l_interval"][1]


def test_rouge_l_is_the_longest_common_subsequence():
    assert rouge_l("police killed the gunman", "police kill the gunman") == pytest.approx(3 / 4)
    assert rouge_l("the gunman kill police", "police kill the gunman") == pytest.approx(2 / 4)
    assert rouge_l("a b c d", "a x b y c") == pytest.approx(2 * 3 / 9)
    assert rouge_l("", "a") == rouge_l("a", "") == 0


def test_case_and_marks_beside_words_do_not_count():
    assert words_and_marks("He won't, Tom!") == "he won ' t , tom !"
    items = [Item("___", ("he won, they say .",))]
    assert score(["He won , they say."], items)["rouge_l"] == pytest.approx(100)


def test_a_system_fills_the_blank_between():
    assert fills_of(Repeats(), ITEMS) == ["so it went on ."] * 3
    assert ITEMS[0].text == "It rained. ___ He was wet."


def test_people_are_measured_against_the_other_references():
    outputs, items = people(ITEMS)
    assert outputs == [ITEMS[0].references[0], ITEMS[2].references[0]]
    assert [item.references for item in items] == [ITEMS[0].references[1:], ITEMS[2].references[1:]]


def test_items_are_read_and_bad_lines_named():
    (item,) = read_items([json.dumps({"text": "It rained. ___ He was wet.", "references": ["He ran."]})])
    assert item == Item("It rained. ___ He was wet.", ("He ran.",), "It rained.")
    for bad in ('{"text": "a"}', '{"text": "___ ___", "references": ["a"]}', '{"text": "___", "references": []}', "x"):
        with pytest.raises(DataError, match="line 2 is no item"):
            list(read_items([json.dumps({"text": "___", "references": ["a"]}), bad]))
