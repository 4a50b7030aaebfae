"""Fills are reranked by how well every word fits in its place."""

import itertools

import pytest
import torch

from blanklm.core.special import BLANK
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding import rerank, spans
from blanklm.decoding.fill import fill
from blanklm.decoding.options import FillOptions
from blanklm.decoding.rerank import canvases_near, fit_in_place
from tests.support.canvases import text_of
from tests.support.models import make_span_blm

BPE = Tokenizer.train("bpe", ["the quick brown fox jumps over the lazy dog again and again"] * 9, vocabulary=290)
MODEL = make_span_blm(vocabulary=len(BPE), seed=5, spans=1.0)
CANVAS = "the quick ___ jumps over ___ dog."
(STOP,) = BPE.encode(".")


def drafts_of(text, **options):
    return fill(MODEL, [text_of(text, tokenizer=BPE)], FillOptions(**options))[0]


def half_filled():
    """A draft whose first blank is filled and whose second is open."""
    draft = text_of(CANVAS, tokenizer=BPE).first_draft()
    first, second = BPE.encode(" brown foxes")[:2]
    return draft.write(0, first, False, True, -1.0).write(0, second, False, False, -1.0)


def in_place(items, start, end, token):
    """log p of a token in its place, with all that follows it in its word left out; slowly, a canvas at a time."""
    canvas = (*items[:start], BLANK, *items[end:])
    ids, lengths = pad([canvas])
    words = torch.full_like(ids, -1)
    words[0, start] = int(start == 0 or BPE.starts_word[token])
    scores = MODEL.score_spans(ids, lengths, len(canvas), words)
    row = torch.tensor([canvas[:start].count(BLANK)])
    more = scores.log_p_more(row, torch.tensor([token]))[0, int(end > start + 1)]
    return float(scores.log_p_first[row, token] + more)


def test_a_fit_is_the_sum_of_every_token_in_its_place_given_all_else(monkeypatch):
    monkeypatch.setattr(rerank, "APART", 10**6)  # so that nothing is left out together
    draft = half_filled()
    items, expected = draft.items, 0.0
    starts = [i for i, item in enumerate(items) if i == 0 or BLANK in (item, items[i - 1]) or BPE.starts_word[item]]
    for start, end in zip(starts, [*starts[1:], len(items)], strict=True):
        if items[start] != BLANK:
            letters = end - 1 if items[end - 1] == STOP else end  # the full stop stays when its word is left out
            expected += sum(in_place(items, at, letters, items[at]) for at in range(start, letters))
            expected += sum(in_place(items, at, end, items[at]) for at in range(letters, end))
    (found,) = fit_in_place(MODEL, [canvases_near(draft, 0, BPE)])
    assert STOP in items and found == pytest.approx(expected + rerank.WORTH, abs=1e-3)  # of the word in the span


def test_a_long_word_that_stands_in_the_text_already_is_worth_less():
    def worth(words):
        filled, tokens = text_of("so lazy and ___ dog", tokenizer=BPE).first_draft(), BPE.encode(words)
        for i, token in enumerate(tokens, 1):
            filled = filled.write(0, token, False, i < len(tokens), 0.0)
        return sum(place.worth for left_out in canvases_near(filled, 0, BPE) for place in left_out.places)

    assert worth(" quick fox") == 2 * rerank.WORTH
    assert worth(" lazy, fox") == 2 * rerank.WORTH - rerank.ECHO
    assert worth(" and so") == 2 * rerank.WORTH  # short words are often said again


def test_words_that_are_left_out_together_stand_apart_and_each_token_is_asked_once():
    draft = half_filled()
    canvases = canvases_near(draft, 0, BPE)
    for left_out in canvases:
        numbers = [place.number for place in left_out.places]
        assert all(b - a >= rerank.APART for a, b in itertools.pairwise(numbers))
        assert [left_out.canvas[at] for at in left_out.blanks] == [BLANK] * len(numbers)
        assert left_out.canvas.count(BLANK) == len(numbers) + 1  # the blank that is open stays
    asked = sorted(place.start for left_out in canvases for place in left_out.places)
    assert asked == [i for i, item in enumerate(draft.items) if item != BLANK]
    assert len(canvases) < len(asked)


def test_only_words_near_the_span_are_looked_at(monkeypatch):
    monkeypatch.setattr(rerank, "NEAR", 1)
    draft = half_filled()
    span = [i for i, origin in enumerate(draft.origins) if origin == 0]
    for left_out in canvases_near(draft, 0, BPE):
        assert all(place.end >= span[0] and place.start <= span[-1] + 4 for place in left_out.places)


def test_of_the_fills_of_a_blank_the_one_is_taken_that_fits_best(monkeypatch):
    most_probable = drafts_of(CANVAS, rerank=1)[0].items
    seen = []

    def fits(policy, fills):
        seen.append(len(fills))
        return [float(number) for number, _ in enumerate(fills)]  # the least probable is best

    monkeypatch.setattr(spans, "fit_in_place", fits)
    reranked = drafts_of(CANVAS, rerank=3)[0].items
    assert reranked != most_probable and seen and max(seen) <= 3
    assert drafts_of(CANVAS, rerank=1)[0].items == most_probable


def test_texts_that_are_filled_together_are_reranked_as_if_alone():
    texts = [CANVAS, "the ___ dog", "again and ___[2] over ___"]
    requests = [text_of(text, tokenizer=BPE) for text in texts]
    together = fill(MODEL, requests, FillOptions())
    assert [drafts[0].items for drafts in together] == [drafts_of(text)[0].items for text in texts]
