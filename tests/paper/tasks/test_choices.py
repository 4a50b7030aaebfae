"""Questions by likelihood: what is compared, who is right, and how sure one may be of the share."""

import itertools
import json
import math

import numpy as np
import pytest

from blanklm.api import BlankLM
from blanklm.errors import BlankLMError, DataError
from blanklm.paper.tasks.choices import Asked, accuracy, in_place, of_whole_texts, read_questions, right
from blanklm.paper.tasks.metrics import share_interval
from tests.support.paths import YELP_WORDS

PAIR = Asked(None, (("the food was good .",), ("the good was food .",)), 0)
CLOZE = Asked("the food was ___ .", (("good",), ("place",), ("great",)), 0)


@pytest.fixture(scope="module")
def model():
    return BlankLM.from_pretrained(YELP_WORDS)


def test_options_in_place_have_their_probability_given_the_rest(model):
    ours, whole = in_place(model, [CLOZE, PAIR])
    chosen = model.choose(CLOZE.text, [[option for (option,) in CLOZE.alternatives]])
    by_option = {c.spans: c.log_prob for c in chosen.choices}
    assert ours == pytest.approx([by_option[row] for row in CLOZE.alternatives], abs=1e-4)
    middles = model.choose("the ___ .", alternatives=["food was good", "good was food"])
    assert sorted(whole) == pytest.approx(sorted(c.log_prob for c in middles.choices), abs=1e-4)
    assert right([ours, whole], [CLOZE, PAIR])[1]


def test_a_whole_text_by_monte_carlo_comes_near_its_exact_probability(model):
    (estimated,) = of_whole_texts(model, [PAIR], orders=600, blanks=None)
    exact = [score.log_prob for score in model.score(PAIR.texts, method="exact")]
    assert np.abs(estimated - exact).max() < 0.3


def test_the_orders_of_both_sentences_are_the_same(model):
    twice = Asked(None, (("the food was good .",), ("the food was good .",)), 0)
    (estimated,) = of_whole_texts(model, [twice], orders=3, blanks=None)
    assert estimated[0] == estimated[1]
    other = of_whole_texts(model, [twice], orders=3, seed=1, blanks=None)[0]
    assert estimated[0] != other[0]


def test_a_tie_is_wrong_and_groups_weigh_alike():
    questions = [Asked("___", (("a",), ("b",)), 0, group) for group in ("x", "x", "x", "y")]
    log_probs = [np.array(pair) for pair in ((0.0, -1.0), (-1.0, -1.0), (-2.0, -1.0), (0.0, -1.0))]
    assert right(log_probs, questions).tolist() == [True, False, False, True]
    row = accuracy(log_probs, questions)
    assert row["groups"] == {"x": pytest.approx(1 / 3), "y": 1.0} and row["accuracy"] == pytest.approx(2 / 3)
    assert row["interval"][0] < row["accuracy"] < row["interval"][1] and row["questions"] == 4


def test_the_interval_covers_what_the_shares_come_from():
    """95 in 100 intervals hold the true share, within what chance allows over 200 of them."""
    rng, covered = np.random.default_rng(1), 0
    questions = [Asked("___", (("a",), ("b",)), 0)] * 100
    for _ in range(200):
        hits = rng.random(100) < 0.7
        low, high = accuracy([np.array([1.0, 0.0]) if hit else np.array([0.0, 1.0]) for hit in hits], questions)[
            "interval"
        ]
        covered += low <= 0.7 <= high
    assert 180 <= covered <= 199


def test_groups_of_one_question_have_an_interval_all_the_same():
    questions = [Asked("___", (("a",), ("b",)), 0, str(number)) for number in range(40)]
    hits = [np.array([1.0, 0.0]) if number % 4 else np.array([0.0, 1.0]) for number in range(40)]
    row = accuracy(hits, questions)
    assert row["accuracy"] == 0.75 and row["interval"] == pytest.approx(share_interval(0.75, 40), abs=0.05)


def test_questions_are_read_with_numbers_or_letters_for_answers():
    lines = [
        {"text": "a ___", "options": ["b", "c"], "answer": "B", "group": "g"},
        {"text": "___ a ___", "options": [["b", "c"], ["d", "e"]], "answer": 0},
        {"options": ["b c", "c b"], "answer": 1},
    ]
    assert list(read_questions(map(json.dumps, lines))) == [
        Asked("a ___", (("b",), ("c",)), 1, "g"),
        Asked("___ a ___", (("b", "c"), ("d", "e")), 0),
        Asked(None, (("b c",), ("c b",)), 1),
    ]
    bad = ['{"text": "a ___"}', "[]", "a", '{"options": ["a", "b"], "answer": 2}', '{"options": 3, "answer": 0}']
    for line in bad:
        with pytest.raises(DataError, match="line 1 is no question"):
            list(read_questions([line]))


def test_two_options_alike_are_refused(model):
    with pytest.raises(BlankLMError, match="are the same"):
        in_place(model, [Asked("the food was ___ .", (("good",), ("good",)), 0)])


def test_all_options_together_are_at_most_everything(model):
    """p(word | rest) over distinct words sums to at most 1."""
    words = ("good", "great", "place", "bad", "terrible", "friendly", "delicious", "amazing")
    (log_p,) = in_place(model, [Asked("the food was ___ .", tuple((w,) for w in words), 0)])
    assert math.fsum(np.exp(log_p)) <= 1 + 1e-6
    assert len(set(itertools.chain(log_p.tolist()))) == len(words)
