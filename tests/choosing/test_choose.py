"""Choosing among options: the joint likelihood against enumeration, and what is wrong with a question."""

import itertools

import numpy as np
import pytest

from blanklm.api import BlankLM
from blanklm.choosing import choose as choosing
from blanklm.choosing.choose import calibrated
from blanklm.choosing.options import parse_options, split_options
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from tests.core.test_in_place import enumerated
from tests.support.models import make_blm, make_span_blm

WORDS = "a b c d e f g h"


@pytest.fixture
def model():
    tokenizer = Tokenizer.train("word", [WORDS])
    return BlankLM(make_blm(len(tokenizer)), tokenizer)


def by_enumeration(model, text, options):
    """The probability of each combination from all orders of its words."""
    question = model.question(text, options)
    combinations = list(itertools.product(*options))
    log_p = np.array([enumerated(model.model, question.alternative(spans)) for spans in combinations])
    return dict(zip(combinations, np.exp(log_p - np.logaddexp.reduce(log_p)), strict=True))


def test_joint_probabilities_equal_enumeration_and_sum_to_one(model):
    options = [["a", "b c"], ["d", "e f", "g"]]
    truth = by_enumeration(model, "h ___ a ___ b", options)
    found = model.choose("h ___ a ___ b", options)
    assert {choice.spans: choice.probability for choice in found.choices} == pytest.approx(truth, abs=1e-5)
    assert sum(choice.probability for choice in found.choices) == pytest.approx(1)
    assert found.best.probability == max(truth.values()) or found.best.spans == max(truth, key=truth.get)
    assert {choice.standard_error for choice in found.choices} == {0.0}
    assert sum(found.of_blank(0).values()) == pytest.approx(1) and list(found.of_blank(1)) != []


def test_drawn_orders_agree_with_the_sum_within_their_error(model, monkeypatch):
    options = [["a", "b c"], ["d", "e f"]]
    truth = by_enumeration(model, "h ___ a ___ b", options)
    monkeypatch.setattr(choosing, "MOST_STATES", 1)
    found = model.choose("h ___ a ___ b", options, orders=1000)
    assert all(choice.standard_error > 0 for choice in found.choices)
    for choice in found.choices:
        assert abs(choice.probability - truth[choice.spans]) < 4 * choice.standard_error + 1e-3


def test_a_beam_finds_the_best_of_many_combinations(model, monkeypatch):
    options = [["a", "b", "c"], ["d", "e", "f"], ["a", "g", "h"]]
    best = model.choose("h ___ a ___ b ___", options).best
    monkeypatch.setattr(choosing, "MOST_AT_ONCE", 20)
    found = model.choose("h ___ a ___ b ___", options, beam=9)
    assert found.combinations == 27 and len(found.choices) == 9 and found.best.spans == best.spans
    assert sum(choice.probability for choice in found.choices) == pytest.approx(1)


def test_many_questions_at_once_are_answered_as_each_alone(model):
    questions = [model.question("a ___ b", ["c", "d e"]), model.question("___ a ___", [["b"], ["c", "d"]])]
    together = model.choose(questions)
    for question, choices in zip(questions, together, strict=True):
        alone = model.choose(question)
        assert [choice.spans for choice in choices.choices] == [choice.spans for choice in alone.choices]
        assert choices.best.probability == pytest.approx(alone.best.probability, abs=1e-5)


def test_whole_texts_are_compared_where_they_differ(model):
    found = model.choose(alternatives=["a b c d", "a e f d"])
    assert {choice.text for choice in found.choices} == {"a b c d", "a e f d"}
    assert found.best.spans in {("b c",), ("e f",)}
    truth = by_enumeration(model, "a ___ d", [["b c", "e f"]])
    assert found.best.probability == pytest.approx(truth[found.best.spans], abs=1e-5)
    one_longer = model.choose(alternatives=["a b", "a b b"])
    assert {choice.text for choice in one_longer.choices} == {"a b", "a b b"}
    assert {choice.text for choice in model.choose(alternatives=["a", "b c"]).choices} == {"a", "b c"}


def test_rows_fill_all_blanks_at_once(model):
    found = model.choose("___ a ___", alternatives=[["b", "c"], ["d", "e"]])
    assert {choice.text for choice in found.choices} == {"b a c", "d a e"}


def test_a_model_of_spans_reads_blanks_as_spans():
    tokenizer = Tokenizer.train("word", [WORDS])
    model = BlankLM(make_span_blm(vocabulary=len(tokenizer)), tokenizer)
    question = model.question("a ___ b", ["c", "d e"])
    truth = enumerated(model.model.for_blanks("spans"), question.alternative(("d e",)))
    logs = {choice.spans: choice.log_prob for choice in model.choose(question).choices}
    assert logs["d e",] == pytest.approx(truth, abs=1e-4)


def test_a_temperature_flattens_probabilities_and_their_errors():
    log_weights = np.log(np.random.default_rng(0).random((3, 400)))
    log_p, sharp, errors = calibrated(log_weights, 1.0)
    _, flat, flat_errors = calibrated(log_weights, 2.0)
    np.testing.assert_allclose(flat, np.sqrt(sharp) / np.sqrt(sharp).sum())
    assert (flat_errors < errors).all() and np.exp(log_p) == pytest.approx(np.exp(log_weights).mean(1))


def test_the_error_is_that_of_repeated_draws():
    rng = np.random.default_rng(1)
    draws = [calibrated(np.log(rng.random((3, 200)) ** 2), 1.0) for _ in range(300)]
    spread = np.std([probabilities for _, probabilities, _ in draws], axis=0)
    np.testing.assert_allclose(np.mean([errors for _, _, errors in draws], axis=0), spread, rtol=0.15)


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("a b", ["c"], "there is no blank"),
        ("a ___ b ___", [["c"]], "blank 2 has no options"),
        ("a ___", [], "blank 1 has no options"),
        ("a ___", [["c"], ["d"]], "options for 2 blanks, and the text has 1"),
        ("a ___ ___", ["c"], "a list of options for each"),
        ("a ___", ["b", " "], "cannot stand in blank 1: a blank takes at least one word"),
        ("a ___", ["___"], "it has a blank of its own"),
        ("a ___[2]", ["c"], "it has 1 words, and the blank is"),
        ("a ___", ["zebra"], "the model does not know 'zebra'"),
        ("___ " * 6, [list("abcdefgh")] * 6, "262,144 combinations"),
        ("___ " * 5000, [list("abcdefgh")] * 5000, "far too many combinations"),
        ("a ___", "bc", '"options" must be a list of strings'),
        ("a ___", 5, '"options" must be a list of strings'),
        ("a ___", [5], '"options" must be a list of strings'),
        ("a ___", [["b", None]], '"options" must be a list of strings'),
        (5, ["a"], "a text is a string"),
        ([5], ["a"], "text 1 of the list is a string"),
    ],
)
def test_what_is_wrong_is_one_line(model, text, options, problem):
    with pytest.raises(BlankLMError, match=problem) as raised:
        model.choose(text, options)
    assert "\n" not in str(raised.value)


def test_a_text_that_is_too_long_with_its_options_is_refused(model):
    with pytest.raises(BlankLMError, match="tokens with its options"):
        model.choose("a ___", ["b " * 600])


def test_options_or_alternatives_but_not_both(model):
    for both in ({"options": ["a"], "alternatives": ["b"]}, {}):
        with pytest.raises(BlankLMError, match="one of the two"):
            model.choose("a ___", **both)
    with pytest.raises(BlankLMError, match="whole texts"):
        model.choose(alternatives=[])
    with pytest.raises(BlankLMError, match="an alternative has 1 parts"):
        model.choose("___ ___", alternatives=["a"])


def test_options_as_the_command_line_writes_them():
    assert split_options(r"cat|old man|a\|b") == ["cat", "old man", "a|b"]
    assert parse_options(["2=mat|moon", "cat"], 2) == [["cat"], ["mat", "moon", "cat"]]
    with pytest.raises(BlankLMError, match="numbered from 1 to 2"):
        parse_options(["3=x"], 2)
