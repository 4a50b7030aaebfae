"""Greedy filling as tensors gives what the search over Python objects gives, draft for draft."""

import random

import pytest
import torch

from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.beam import fill_in_parallel_slowly, search_beams
from blanklm.decoding.budget import NO_REPEAT_WITHIN
from blanklm.decoding.constraint import Constraint
from blanklm.decoding.fill import fill_in_parallel
from blanklm.decoding.greedy import fill_greedily, fits, fits_in_parallel
from blanklm.decoding.options import FillOptions
from blanklm.errors import BlankLMError
from tests.support.canvases import ORDERS, text_of
from tests.support.models import make_blm

LETTERS = Tokenizer.train("word", ["a b c d e f g h i j k l m n o p q r s t u v w x y z"])
BPE = Tokenizer.train("bpe", ["the quick brown fox jumps over the lazy dog again and again"] * 9, vocabulary=290)


def model_of(tokenizer, stops=1.5):
    model = make_blm(vocabulary=len(tokenizer), seed=5, spread=12.0)
    model.sides_out.bias.data += torch.tensor([stops, 0, 0, 0])
    return model


def random_texts(tokenizer, kinds, count, max_length=30, seed=0):
    rng = random.Random(seed)
    given = ["a", "b", "quick", "fox", "z"] if tokenizer is BPE else ["a", "b", "f", "x", "z"]
    return [
        text_of(
            rng.choice([" ", ""]).join(rng.choice(given + kinds * 2) for _ in range(rng.randrange(0, 6))) + " ___ a",
            tokenizer=tokenizer,
            max_length=max_length,
        )
        for _ in range(count)
    ]


def assert_same(quick, slow):
    assert len(quick) == len(slow)
    for fast, careful in zip(quick, slow, strict=True):
        assert fast is not None and fast.finished
        assert (fast.items, fast.origins, fast.steps) == (careful.items, careful.origins, careful.steps)
        assert fast.log_prob == pytest.approx(careful.log_prob, abs=1e-3)
        assert sorted(fast.actions()[1]) == pytest.approx(sorted(careful.actions()[1]), abs=1e-3)


@pytest.mark.parametrize("order", ORDERS)
def test_words_with_lengths_are_filled_as_the_search_fills_them(order):
    model, texts = model_of(LETTERS), random_texts(LETTERS, ["___", "___[2]", "___[1-3]", "___[3-]"], 60)
    quick = fill_greedily(model, texts, order)
    assert_same(quick, [ranked[0] for ranked in search_beams(model, texts, 1, 1, order)])
    for fast, careful in zip(quick, search_beams(model, texts, 1, 1, order), strict=True):
        assert fast.actions()[0] == careful[0].actions()[0]


@pytest.mark.parametrize("order", ORDERS)
def test_bpe_is_filled_as_the_search_fills_it(order):
    model, texts = model_of(BPE, stops=4.0), random_texts(BPE, ["___"], 40)
    assert_same(fill_greedily(model, texts, order), [found[0] for found in search_beams(model, texts, 1, 1, order)])


@pytest.mark.parametrize("max_length", [9, 11])
def test_the_longest_text_is_kept_to(max_length):
    model = model_of(LETTERS, stops=-3.0)  # would write for ever
    texts = [text_of("a ___ b ___[3-] c", tokenizer=LETTERS, max_length=max_length)] * 2
    quick = fill_greedily(model, texts)
    assert_same(quick, [ranked[0] for ranked in search_beams(model, texts, 1, 1, "confident")])
    assert all(len(draft.items) == max_length for draft in quick)
    parallel = fill_in_parallel(model, [text_of("a ___ b ___ c", tokenizer=LETTERS, max_length=max_length)])
    assert parallel[0].finished and len(parallel[0].items) <= max_length


@pytest.mark.parametrize("tokenizer", [LETTERS, BPE], ids=["words", "bpe"])
def test_a_blank_of_any_length_ends_where_the_longest_span_does(tokenizer):
    model = model_of(tokenizer, stops=-3.0)  # would write for ever
    texts = [text_of(canvas, tokenizer=tokenizer, max_length=99, longest_span=7) for canvas in ("a ___ b", "___ a ___")]
    if tokenizer is LETTERS:
        texts.append(text_of("a ___ b ___[9] ___[8-] a", tokenizer=tokenizer, max_length=99, longest_span=7))
    quick = fill_greedily(model, texts)
    assert_same(quick, [ranked[0] for ranked in search_beams(model, texts, 1, 1, "confident")])
    assert [len(span) for span in quick[0].spans(1)] == [7] and [len(span) for span in quick[1].spans(2)] == [7, 7]
    if tokenizer is LETTERS:
        assert [len(span) for span in quick[2].spans(3)][:2] == [7, 9] and len(quick[2].items) == 99
    parallel = fill_in_parallel(model, texts[:2])
    assert_same(parallel, fill_in_parallel_slowly(model, texts[:2]))


@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("tokenizer", [LETTERS, BPE], ids=["words", "bpe"])
def test_many_blanks_at_once_are_filled_as_one_by_one(tokenizer, threshold):
    model = model_of(tokenizer, stops=4.0)
    texts = random_texts(tokenizer, ["___"], 40, max_length=200)
    assert all(map(fits_in_parallel, texts))
    assert_same(fill_greedily(model, texts, "parallel", threshold), fill_in_parallel_slowly(model, texts, threshold))


def test_a_threshold_of_one_is_one_blank_at_a_time_and_of_zero_all():
    model, text = model_of(LETTERS, stops=4.0), text_of("___ a ___ b ___ c ___", tokenizer=LETTERS)
    passes = []

    class Counting:
        device = model.device

        def score(self, *canvases):
            passes.append(1)
            return model.score(*canvases)

    counts = []
    for threshold in (0.0, 1.0):
        passes.clear()
        (draft,) = fill_in_parallel(Counting(), [text], threshold)
        counts.append((len(passes), draft.steps))
    (few, steps), (many, single_steps) = counts
    assert few < steps and many == single_steps
    with pytest.raises(BlankLMError, match="threshold must be at most 1"):
        FillOptions(order="parallel", threshold=1.5)


def test_actions_lead_from_the_first_canvas_to_the_last():
    model, (text,) = model_of(LETTERS, stops=1.0), [text_of("___ a ___ b ___ c", tokenizer=LETTERS, max_length=60)]
    for order in (*ORDERS, "parallel"):
        (draft,) = fill_greedily(model, [text], order)
        replayed = text.first_draft()
        for action, log_prob in zip(*draft.actions(), strict=True):
            replayed = replayed.write(action.blank, action.token, action.left, action.right, log_prob)
        assert (replayed.items, replayed.origins) == (draft.items, draft.origins)


def test_only_lengths_can_be_filled_as_tensors():
    assert fits(text_of("___[2-3] a ___", tokenizer=LETTERS)) and fits(text_of("___ a", tokenizer=BPE))
    assert not fits_in_parallel(text_of("___[2-3] a ___", tokenizer=LETTERS))
    assert not fits(text_of("___[2] a", tokenizer=BPE))
    for constraint in (Constraint(ban=("b",)), Constraint(require=("b",)), Constraint(only=("b",))):
        assert not fits(text_of("___ a", [constraint], tokenizer=LETTERS))


def test_groups_that_memory_sets_change_nothing(monkeypatch):
    model, texts = model_of(LETTERS), random_texts(LETTERS, ["___", "___[2]"], 20)
    whole = fill_greedily(model, texts)
    monkeypatch.setattr("blanklm.decoding.greedy.WORD_SCORES_AT_ONCE", {"cpu": 300})
    assert_same(fill_greedily(model, texts), whole)


@pytest.mark.parametrize("order", [*ORDERS, "parallel"])
def test_a_long_word_is_not_written_near_itself(order):
    model, long = model_of(BPE, stops=4.0), torch.from_numpy(BPE.long_words)
    assert [BPE.token_text(i) for i in long.nonzero().flatten().tolist()]
    model.word_bias.data[long] += 30.0  # would write nothing else
    texts = random_texts(BPE, ["___"], 30, max_length=200)
    texts.append(text_of("___ a ___ b ___, ___ and ___ c", tokenizer=BPE, max_length=200))  # would collide
    drafts = fill_greedily(model, texts, order)
    careful = (
        fill_in_parallel_slowly(model, texts)
        if order == "parallel"
        else [f[0] for f in search_beams(model, texts, 1, 1, order)]
    )
    assert_same(drafts, careful)
    written = 0
    for draft in drafts:
        places = [i for i, item in enumerate(draft.items) if long[item]]
        written += len(places)
        assert all(
            draft.items[i] != draft.items[j] or j - i > NO_REPEAT_WITHIN or max(draft.origins[i], draft.origins[j]) < 0
            for i in places
            for j in places
            if i < j
        )
    assert written > 30  # there was something to repeat


def test_words_that_the_user_asks_for_may_be_repeated():
    model = model_of(BPE, stops=1.0)
    word = BPE.token_text(int(BPE.long_words.nonzero()[0][0])).strip()
    for constraint in (Constraint(require=(word,)), Constraint(only=(word,), max=2)):
        text = text_of(f"a {word} ___ b", [constraint], tokenizer=BPE, max_length=30)
        assert word in BPE.decode(fill_in_parallel_slowly(model, [text])[0].spans(1)[0])
