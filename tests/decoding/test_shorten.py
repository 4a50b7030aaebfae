"""Fills are tried without their last word, too."""

import math

import pytest
import torch

from blanklm.core.special import BLANK
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding import shorten
from blanklm.decoding.shorten import shorter
from blanklm.decoding.span_scores import views
from blanklm.decoding.span_tasks import Task
from tests.support.canvases import text_of
from tests.support.models import make_span_blm

BPE = Tokenizer.train("bpe", ["the quick brown fox jumps over the lazy dog again and again"] * 9, vocabulary=290)
MODEL = make_span_blm(vocabulary=len(BPE), seed=5, spans=1.0)


@pytest.fixture(autouse=True)
def however_bad(monkeypatch):
    monkeypatch.setattr(shorten, "WORSE", math.inf)


def written(text, words):
    """A task, and its first blank with these words written into it, however improbable."""
    task = Task.of(text_of(text, tokenizer=BPE, max_length=100))
    ids = BPE.encode(words)
    writing = task.of_length(task.begin(), sum(map(bool, BPE.starts_word[ids])), -1.0)
    for i, token in enumerate(ids, 1):
        writing = task.after(writing, token, i < len(ids), -1.0)
    return task, writing


def span_of(writing):
    return BPE.decode(writing.draft.spans(2)[0])


def test_the_last_word_is_left_out_and_the_marks_after_it_stay():
    (found,) = shorter(MODEL, [written("the ___ dog", " quick and lazy")])
    assert span_of(found) == " quick and"
    (found,) = shorter(MODEL, [written("the ___ dog and ___", " fox, again and again!")])
    assert span_of(found) == " fox, again and!" and found.draft.items.count(BLANK) == 1


def test_a_shorter_fill_has_the_probability_that_a_search_of_its_length_would_give_it():
    task, longer = written("the ___ dog", " quick fox again")
    (found,) = shorter(MODEL, [(task, longer)])
    (view,) = views(MODEL, [(task, task.begin())])
    expected, items = view.of_words(2).draft.log_prob, list(task.ids)
    at, told = items.index(BLANK), 2
    ids = BPE.encode(" quick fox")
    for i, token in enumerate(ids):
        canvas, lengths = pad([items])
        words = torch.full_like(canvas, -1)
        words[0, at + i] = max(1, told)  # a word may be spared, so the span may always go on
        scores = MODEL.score_spans(canvas, lengths, len(items), words)
        more = i + 1 < len(ids)
        expected += float(scores.log_p_first[0, token])
        expected += float(scores.log_p_more(torch.tensor([0]), torch.tensor([token]))[0, int(more)])
        told -= bool(BPE.starts_word[token])
        items[at + i : at + i + 1] = [token, BLANK] if more else [token]
    assert found.draft.items == tuple(items)
    assert found.draft.log_prob == pytest.approx(expected, abs=1e-3)
    assert sum(found.draft.actions()[1]) + view.of_words(2).draft.log_prob == pytest.approx(expected, abs=1e-3)


def test_lengths_that_are_asked_for_are_kept_and_single_words_are_left_to_the_search():
    for text in ("the ___[3] dog", "the ___[3-] dog"):
        assert shorter(MODEL, [written(text, " quick and lazy")]) == [None]
    assert shorter(MODEL, [written("the ___ dog", " quick fox")]) == [None]


def test_a_fill_that_is_much_worse_is_left_out(monkeypatch):
    (found,), (task, longer) = (
        shorter(MODEL, [written("the ___ dog", " quick and lazy")]),
        written("the ___ dog", " quick and lazy"),
    )
    monkeypatch.setattr(shorten, "WORSE", longer.score - found.score + 0.01)
    assert shorter(MODEL, [(task, longer)]) != [None]
    monkeypatch.setattr(shorten, "WORSE", longer.score - found.score - 0.01)
    assert shorter(MODEL, [(task, longer)]) == [None]
