"""Spans: lengths first, then words from left to right, against plain enumeration."""

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers

from blanklm.api import BlankLM
from blanklm.core.special import BLANK, SPECIAL_TOKENS
from blanklm.core.template import Template
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.core.writing import END
from blanklm.decoding import span_view
from blanklm.decoding.budget import NO_REPEAT_WITHIN
from blanklm.decoding.constraint import Constraint
from blanklm.decoding.fill import fill
from blanklm.decoding.options import FillOptions
from blanklm.decoding.span_tasks import divide
from blanklm.decoding.span_view import ONE_WORD, choose_lengths
from blanklm.models.span_writer import SpanWriter
from tests.support.canvases import WORDS, check_constraints, sample, text_of
from tests.support.models import make_span_blm, make_span_writer

MODELS = {
    "span-blm": make_span_blm(vocabulary=len(WORDS), seed=3, spans=1.0),
    "span-writer": make_span_writer(vocabulary=len(WORDS), seed=3, spans=1.0),
}
BPE = Tokenizer.train("bpe", ["the quick brown fox jumps over the lazy dog again and again"] * 9, vocabulary=290)
BPE_MODELS = {
    "span-blm": make_span_blm(vocabulary=len(BPE), seed=5, spans=1.0),
    "span-writer": make_span_writer(vocabulary=len(BPE), seed=5, spans=1.0),
}
OPEN = range(len(SPECIAL_TOKENS), len(WORDS))  # the words that may be written


@pytest.fixture(params=MODELS)
def kind(request):
    return request.param


@pytest.fixture
def model(kind):
    return MODELS[kind]


@pytest.fixture
def bpe_model(kind):
    return BPE_MODELS[kind]


def drafts_of(text, model, **options):
    return fill(model, [text], FillOptions(**options))[0]


def log_p_of(model, ids, words):
    """Log p of these words, written from left to right into the one blank of a canvas that is told how many it holds.

    A SpanBLM reads a canvas for each word, and says whether a blank is left after it; a SpanWriter ends the span.
    """
    total, items = 0.0, list(ids)
    if isinstance(model, SpanWriter):
        (page,) = model.open_pages(*pad([items]), len(items))
        for last, token, left in zip((BLANK, *words), (*words, END), range(len(words), -1, -1), strict=True):
            scores = model.write([page], [last], [left])
            (page,) = scores.pages
            total += float(scores.log_p[0, token])
        return total
    for k, token in enumerate(words):
        canvas, lengths = pad([items])
        told = torch.full_like(canvas, len(words) - k)
        scores = model.score_spans(canvas, lengths, len(items), told)
        more = k + 1 < len(words)
        total += float(scores.log_p_first[0, token])
        total += float(scores.log_p_more(torch.tensor([0]), torch.tensor([token]))[0, int(more)])
        at = items.index(BLANK)
        items[at : at + 1] = [token, BLANK] if more else [token]
    return total


def log_p_of_lengths(model, ids):
    """Log p of 0, 1, 2, ... words in the one blank of a canvas."""
    canvas, lengths = pad([ids])
    if isinstance(model, SpanWriter):
        return model.write(model.open_pages(canvas, lengths, len(ids)), [BLANK], [-1]).log_p_length[0]
    return model.score_spans(canvas, lengths, len(ids), torch.full_like(canvas, -1)).log_p_length[0]


def test_a_wide_beam_finds_the_most_probable_words_of_the_length_and_their_probability(model):
    text = text_of("a ___[3] b")
    joint = {words: log_p_of(model, text.ids, words) for words in itertools.product(OPEN, repeat=3)}
    best = max(joint, key=joint.__getitem__)
    draft = drafts_of(text, model, beam=len(OPEN) ** 2, rerank=1)[0]
    assert draft.spans(1) == [list(best)]
    assert draft.log_prob == pytest.approx(joint[best], abs=1e-4)
    greedy = drafts_of(text, model)[0]
    assert greedy.log_prob == pytest.approx(joint[tuple(greedy.spans(1)[0])], abs=1e-4)
    assert sum(greedy.actions()[1]) == pytest.approx(greedy.log_prob, abs=1e-4)


def test_a_length_that_is_open_is_chosen_by_its_probability_and_counts_in_that_of_the_fill(monkeypatch, model):
    text = text_of("a ___[1-4] b")
    among = log_p_of_lengths(model, text.ids)[1:5].log_softmax(0)
    for wanted in range(1, 5):
        monkeypatch.setattr(span_view, "choose_lengths", lambda p, words, wanted=wanted: [words.index(wanted)])
        open_length, fixed = drafts_of(text, model)[0], drafts_of(text_of(f"a ___[{wanted}] b"), model)[0]
        assert open_length.items == fixed.items
        assert open_length.log_prob == pytest.approx(fixed.log_prob + float(among[wanted - 1]), abs=1e-4)


def test_a_writer_knows_in_a_later_blank_what_it_wrote_before():
    model = MODELS["span-writer"]
    text = text_of("a ___[1] b ___[1]")
    joint = {}
    for first, second in itertools.product(OPEN, repeat=2):
        (page,) = model.open_pages(*pad([text.ids]), len(text.ids))
        total = 0.0
        for last, left, token in ((BLANK, 1, first), (first, 0, END), (BLANK, 1, second), (second, 0, END)):
            scores = model.write([page], [last], [left])
            (page,) = scores.pages
            total += float(scores.log_p[0, token])
        joint[first, second] = total
    for draft in drafts_of(text, model, n=len(OPEN)):
        assert draft.log_prob == pytest.approx(joint[tuple(span[0] for span in draft.spans(2))], abs=1e-4)


def test_a_probable_single_word_is_chosen_and_otherwise_lengths_about_the_middle():
    words = [1, 2, 3, 4, 5]
    one = ONE_WORD
    assert choose_lengths(np.array([one, 0.3, 0.1, 0.1, 0.5 - one]), words) == [0]
    assert choose_lengths(np.array([one / 2, 0.1, 0.1, 0.7 - one / 2, 0.1]), words) == [3]
    assert choose_lengths(np.array([one / 2, 0.99 - one / 2, 0.01, 0.0, 0.0]), words) == [1]
    assert choose_lengths(np.array([0.0, 0.2, 0.2, 0.2, 0.2, 0.2]), [1, 2, 3, 4, 5, 6]) == [2, 3, 4]
    assert choose_lengths(np.array([0.9, 0.1]), [4, 5]) == [0]
    assert choose_lengths(np.array([1.0]), [1]) == [0]
    assert choose_lengths(np.array([one / 2, 1 - one / 2]), [0, 1]) == [1]  # the rest of a word, or one more


def test_alternatives_are_distinct_and_begin_with_the_best(model):
    text = text_of("a ___ b ___[2]")
    best, drafts = drafts_of(text, model)[0], drafts_of(text, model, n=6)
    assert drafts[0].items == best.items
    assert len({tuple(map(tuple, draft.spans(2))) for draft in drafts}) == len(drafts) == 6
    assert len({len(draft.spans(2)[0]) for draft in drafts}) > 1


@pytest.mark.parametrize(("seed", "cases"), [(0, 25), pytest.param(1, 125, marks=pytest.mark.slow)])
def test_whatever_is_asked_is_kept_in_every_mode(seed, cases, model):
    rng = random.Random(seed)
    for number in range(cases):
        blanks = [rng.choice(["___", "___", "___[2]", "___[1-3]", "___[3-]"]) for _ in range(rng.randrange(1, 4))]
        canvas = rng.choice(["", "a "]) + rng.choice([" ", " b ", " c a "]).join(blanks) + rng.choice(["", " c"])
        constraints = [
            Constraint(**rng.choice([{}, {}, {"ban": ["a"]}, {"only": ["a", "b"]}, {"max": 4}, {"require": ["c"]}]))
            for _ in blanks
        ]
        if any(blank.endswith("-]") or blank == "___[2]" for blank in blanks):
            constraints = [Constraint() for _ in blanks]
        text, template = text_of(canvas, constraints, max_length=60, longest_span=12), Template.parse(canvas)
        for mode, drafts in {
            "greedy": drafts_of(text, model),
            "beam": drafts_of(text, model, beam=3, n=2),
            "sample": sample(model, [text], None, n=2, seed=number)[0],
        }.items():
            assert drafts, (mode, canvas)
            for draft in drafts:
                check_constraints(mode, draft, text, template, constraints)
                trajectory = text.to_fill(draft).trajectory
                assert trajectory.canvases[-1].items == tuple(WORDS.token(i) for i in draft.items)


def test_blanks_that_touch_share_what_is_written_as_evenly_as_their_lengths_allow(model):
    rules = text_of("___ ___[2] ___").rules.by_blank
    starts = np.ones(30, dtype=bool)
    assert divide([5, 6, 7, 8, 9, 10], starts, rules) == [[5, 6], [7, 8], [9, 10]]
    starts[6] = False  # the rest of the first word
    assert divide([5, 6, 7, 8, 9], starts, rules) == [[5, 6], [7, 8], [9]]
    draft = drafts_of(text_of("a ___ ___ b"), model)[0]
    assert all(draft.spans(2))


def test_a_text_is_filled_the_same_alone_and_among_others(model):
    texts = [text_of(canvas) for canvas in ("a ___ b", "___ c ___", "a b c a ___", "___")]
    together = fill(model, texts, FillOptions())
    assert [drafts[0].items for drafts in together] == [drafts_of(text, model)[0].items for text in texts]


def test_a_text_that_is_given_up_has_no_fill(model):
    text = text_of("a ___ b ___")
    seen = []
    stops = replace(text, watch=lambda so_far: seen.append(so_far()) or len(seen) < 3)
    assert fill(model, [stops, text], FillOptions())[0] == []
    assert len(seen) == 3 and not seen[-1].finished
    assert sample(model, [replace(text, watch=lambda so_far: False)], None, n=2) == [[]]


def test_samples_have_the_probabilities_of_the_model(model):
    text, n = text_of("a ___[1] b"), 4000
    drawn = sample(model, [text], None, n=n)[0]
    counted = {}
    for draft in drawn:
        counted.setdefault(tuple(draft.spans(1)[0]), []).append(draft.log_prob)
    total = sum(math.exp(log_probs[0]) for log_probs in counted.values())  # of all words, for the closed blank
    assert len(counted) == len(OPEN) and total < 1
    for log_probs in counted.values():
        p = math.exp(log_probs[0]) / total
        assert abs(len(log_probs) / n - p) < 4 * math.sqrt(p / n)
    assert [d.items for d in drawn[:20]] == [d.items for d in sample(model, [text], None, n=20)[0]]


def test_bpe_words_are_counted_and_long_ones_not_said_twice(bpe_model):
    for canvas in ("the ___[3] dog", "the quick ___[1-4] over the ___", "(___[2]) ___[3]!", "___[5]"):
        text = text_of(canvas, tokenizer=BPE, max_length=200)
        for draft in (*drafts_of(text, bpe_model), *sample(bpe_model, [text], None, n=3)[0]):
            filled = text.to_fill(draft)
            for span, blank in zip(filled.spans, Template.parse(canvas).blanks, strict=True):
                assert blank.min <= len(span.split()) <= (blank.max or 99), filled.text
            for i, token in enumerate(draft.items):
                near = draft.items[max(0, i - NO_REPEAT_WITHIN) : i]
                assert not (BPE.long_words[token] and token in near and draft.origins[i] >= 0), filled.text


def test_a_number_follows_the_space_that_it_begins_with():
    backend = BPE.backend.from_str(BPE.backend.to_str())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), BPE.backend.pre_tokenizer]
    )
    digits = Tokenizer(backend)
    assert digits.space is not None and not digits.never_written[digits.space] and BPE.space is None
    model = make_span_blm(vocabulary=len(digits), seed=1, spans=0.5)
    with torch.no_grad():
        model.word_bias[digits.space] += 12.0  # it is written wherever it may be
    text = text_of("it is ___[2] or ___", tokenizer=digits, max_length=200)
    for policy, options in (
        (model.for_blanks("spans"), {}),
        (model, {}),
        (model, {"beam": 2}),
        (model, {"order": "model"}),
    ):
        (draft,) = fill(policy, [text], FillOptions(**options))[0][:1]
        assert digits.space in draft.items
        for i in np.flatnonzero(np.array(draft.items) == digits.space):
            assert draft.origins[i + 1] == draft.origins[i]
        if policy.told == "spans":
            assert "  " not in text.to_fill(draft).text


def test_letters_do_not_stick_to_a_mark_that_a_space_follows():
    comma, letters = BPE.encode(",")[0], BPE.edges[:, 0] == 1
    model = make_span_blm(vocabulary=len(BPE), seed=5, spans=1.0)
    with torch.no_grad():
        model.word_bias[comma] += 30.0
    text = text_of("the ___[4] dog", tokenizer=BPE, max_length=100)
    (draft,) = drafts_of(text, model)
    assert comma in draft.items
    for before, token in itertools.pairwise(draft.items):
        assert not (before == comma and letters[token])


def test_rules_that_lead_into_a_dead_end_are_left_to_a_wider_search(bpe_model):
    text = text_of("the ___[1-2] dog", [Constraint(only=("again",))], BPE, max_length=40)
    (draft,) = drafts_of(text, bpe_model)
    assert set(text.to_fill(draft).spans[0].split()) == {"again"}


@pytest.mark.slow
def test_a_search_gives_up_what_can_no_longer_win(monkeypatch):
    """It saves passes, and finds the most probable fill that it would find without."""
    model, passes = BlankLM.from_pretrained("english-small", device="cpu"), []
    score = type(model.model).score_spans
    monkeypatch.setattr(type(model.model), "score_spans", lambda *a: passes.append(1) or score(*a))
    canvases = ["I have ___ and ___.", "The train was late, so ___.", "She said that ___ because ___.", "Why do ___?"]
    with_hope = [model.fill(canvas, rerank=1).text for canvas in canvases]
    needed = len(passes)
    monkeypatch.setattr("blanklm.decoding.span_tasks.EASY", 0.0)
    monkeypatch.setattr("blanklm.decoding.span_tasks.TOKENS", 1e9)  # then nothing is without hope
    assert [model.fill(canvas, rerank=1).text for canvas in canvases] == with_hope
    assert needed < 0.95 * (len(passes) - needed)
