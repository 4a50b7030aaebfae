"""The adapter for the lm-evaluation-harness, which a stand-in replaces here: it is no dependency."""

import importlib
import math
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from blanklm.core import likelihood
from blanklm.errors import BlankLMError
from blanklm.paper.tasks.choices import Asked, of_whole_texts
from tests.support.paths import YELP_WORDS

MODULE = "blanklm.paper.lm_eval"


class LM:
    """What the harness's own base class has that a model uses."""

    def __init__(self):
        self.kept = {}
        self.cache_hook = SimpleNamespace(add_partial=self.keep)

    def keep(self, how, asked, answer):
        self.kept[how, str(asked)] = answer


@pytest.fixture
def registered(monkeypatch):
    """The models that modules register with the stand-in."""
    names = {}

    def register_model(name):
        return lambda cls: names.setdefault(name, cls)

    parts = {"lm_eval": {}, "lm_eval.api": {}}
    parts |= {"lm_eval.api.model": {"LM": LM}, "lm_eval.api.registry": {"register_model": register_model}}
    for name, members in parts.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules.pop(MODULE, None)
    importlib.import_module(MODULE)
    yield names
    sys.modules.pop(MODULE, None)


@pytest.fixture
def harness(registered):
    def make(**settings):
        return registered["blanklm"](pretrained=YELP_WORDS, device="cpu", **settings)

    return make


def asked(*pairs):
    return [SimpleNamespace(args=pair) for pair in pairs]


def test_a_continuation_has_the_probability_of_an_option_after_its_context(harness):
    model = harness()
    words = (" good", " bad", " the place")
    answers = model.loglikelihood(asked(*(("the food was", word) for word in words)), disable_tqdm=True)
    chosen = model.model.choose("the food was ___", [word.strip() for word in words]).choices
    expected = {choice.spans[0]: choice.log_prob for choice in chosen}
    assert [log_p for log_p, _ in answers] == pytest.approx([expected[word.strip()] for word in words], abs=1e-4)
    assert model.kept["loglikelihood", str(("the food was", " bad"))] == answers[1]


def test_in_place_a_continuation_stands_in_the_blank_and_what_follows_is_read(harness):
    model = harness(in_place="True")
    (before, _), (after, _) = model.loglikelihood(asked(("the ___ was cold .", "food"), ("the ___ was", "food")), True)
    expected = [
        model.model.choose(text, ["food"]).choices[0].log_prob for text in ("the ___ was cold .", "the ___ was")
    ]
    assert [before, after] == pytest.approx(expected, abs=1e-4) and before != after
    for context in ("the food was", "the ___ was ___"):
        with pytest.raises(BlankLMError, match="with in_place a context has one ___"):
            model.loglikelihood(asked((context, "good")), True)


def test_without_a_context_the_whole_text_is_scored_by_the_same_orders_for_all(harness):
    model = harness(orders=5)
    pair = Asked(
        None, (("the food was good and the staff was nice .",), ("the good was food and the nice staff was .",)), 0
    )
    found = model.loglikelihood(asked(*(("", text) for text in pair.texts)), True)
    (expected,) = of_whole_texts(model.model, [pair], orders=5, blanks=None)
    assert [log_p for log_p, _ in found] == pytest.approx(expected, abs=1e-4)


def test_greedy_is_what_greedy_search_writes_where_it_is_told_the_number_of_words(harness):
    model = harness()
    (word,) = model.model.fill("i love this ___[1]").spans
    answers = model.loglikelihood(
        asked(("i love this", f" {word}"), ("i love this", " table"), ("i love", " this !")), True
    )
    assert [greedy for _, greedy in answers[:2]] == [True, False]
    assert answers[2][1] == (model.model.fill("i love ___[2]").spans == ("this !",))


def test_a_context_that_is_too_long_loses_its_beginning(harness):
    model = harness()
    longest = model.model.longest
    long = "the food was good . " * longest
    kept = " ".join(long.split()[-(longest - 2) :])
    (cut, _), (expected, _) = model.loglikelihood(asked((long, "really"), (kept, "really")), True)
    assert cut == pytest.approx(expected, abs=1e-4)
    with pytest.raises(BlankLMError, match="this model takes at most"):
        model.loglikelihood(asked(("", long)), True)
    with pytest.raises(BlankLMError, match="a continuation is empty"):
        model.loglikelihood(asked(("the food", " ")), True)


def test_a_rolling_likelihood_is_that_of_the_pieces(harness):
    model = harness(orders=3, seed=2)
    text = "the food was good . " * (model.model.longest // 5 + 1)
    (found,) = model.loglikelihood_rolling(asked((text,)), True)
    ids = model.model.tokenizer.encode(text)
    pieces = [ids[: model.model.longest], ids[model.model.longest :]]
    assert found == pytest.approx(
        likelihood.monte_carlo(model.model.model, pieces, 3, 2).log_likelihoods.sum(), rel=1e-5
    )
    assert math.isfinite(found) and found < 0


def test_what_is_generated_ends_where_the_task_says(harness):
    model = harness()
    canvas = "the food was ___[1-4]"
    (whole,) = model.model.fill(canvas).spans
    for settings, expected in (
        ({"max_gen_toks": 4, "until": []}, whole),
        ({"max_gen_toks": 4, "until": [whole[-1]]}, whole.split(whole[-1])[0]),
        ({"max_gen_toks": 4, "until": whole[1]}, whole.split(whole[1])[0]),
    ):
        assert model.generate_until(asked(("the food was", settings)), True) == [expected]


def test_underscores_of_a_context_are_no_blanks(harness):
    (log_p, _), (other, _) = harness().loglikelihood(asked(("the ___ was", " good"), ("the food was", " good")), True)
    assert np.isfinite(log_p) and log_p != other


def test_without_the_harness_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    sys.modules.pop(MODULE, None)
    with pytest.raises(BlankLMError, match="pip install lm-eval"):
        importlib.import_module(MODULE)
