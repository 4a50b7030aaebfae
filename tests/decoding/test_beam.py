"""Filling, against exhaustive enumeration in plain Python on a tiny vocabulary."""

import contextlib
import itertools
import math
import random
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

from blanklm.core.canvas import Action, Canvas
from blanklm.core.policy import SIDES
from blanklm.core.special import BLANK
from blanklm.core.template import Blank, Template
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.beam import fill_in_parallel_slowly, search_beams
from blanklm.decoding.budget import SpanBudget
from blanklm.decoding.constraint import Constraint, Rule
from blanklm.decoding.fill import fill_in_parallel
from blanklm.decoding.options import SampleOptions
from blanklm.decoding.scores import score
from blanklm.errors import BlankLMError, CanvasError, ConstraintError
from tests.support.canvases import (
    LIKELY_TO_STOP,
    MODEL,
    ORDERS,
    WORDS,
    beam_search,
    check_constraints,
    sample,
    spans_of,
    text_of,
)
from tests.support.models import make_blm


def exhaustively(model, canvas, order, sampling=False):
    """{spans: probability} of every fill of a canvas of bounded blanks, one canvas and one action at a time.

    With ``sampling``, what budgets and special tokens leave of each choice is renormalised, as a draw does it.
    """
    parsed = Canvas.parse(canvas)
    start = Canvas(tuple(item if isinstance(item, Blank) else WORDS.encode(item)[0] for item in parsed.items))
    layer, finished = {start: 1.0}, defaultdict(float)
    while layer:
        reached = defaultdict(float)
        for state, p in layer.items():
            if not state.blanks:
                finished[state.spans] += p
                continue
            scores = score(model, [[BLANK if isinstance(item, Blank) else item for item in state.items]])
            written = scores.log_p_word[:, 4:]  # the four special tokens are never written
            blanks = range(len(state.blanks))
            if order == "left-to-right":
                blanks = [0]
            elif order == "confident":
                blanks = [int(written.max(1).values.argmax())]
            for blank, token in itertools.product(blanks, range(4, len(WORDS))):
                log_sides = scores.log_p_sides(torch.tensor([blank]), torch.tensor([token]))[0]
                afters = {}
                for side, (left, right) in enumerate(SIDES):
                    with contextlib.suppress(CanvasError):
                        afters[side] = state.apply(Action(blank, token, left, right))
                p_word = float(scores.log_p_word[blank, token].exp())
                left_over = 1.0
                if sampling:
                    p_word /= float(written[blank].exp().sum())
                    left_over = float(log_sides[list(afters)].exp().sum())
                p_blank = float(scores.log_p_blank[blank].exp()) if order == "model" else 1.0
                for side, after in afters.items():
                    reached[after] += p * p_blank * p_word * float(log_sides[side].exp()) / left_over
        layer = reached
    return finished


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("canvas", ["a ___[1-3] b", "___[2] c ___[1-2]", "___[1-2] ___[2-3]", "___[3]"])
def test_an_unpruned_beam_equals_exhaustive_enumeration(order, canvas):
    expected = exhaustively(MODEL, canvas, order)
    text = text_of(canvas)
    drafts = beam_search(MODEL, [text], beam=10**6, n=10**6, order=order)[0]
    found = {spans_of(draft, text): draft.log_prob for draft in drafts}
    assert len(drafts) == len(found)  # the n best are distinct fills
    assert found.keys() == expected.keys()
    for spans, p in expected.items():
        assert found[spans] == pytest.approx(math.log(p), abs=1e-3)
    assert [d.log_prob for d in drafts] == sorted(found.values(), reverse=True)


@pytest.mark.parametrize("order", ORDERS)
def test_a_beam_of_one_takes_the_best_action_at_each_step(order):
    for canvas in ("a ___[1-4] b ___[1-4]", "___[5]", "___[1-3] ___ c"):
        text = text_of(canvas, max_length=12)
        draft = beam_search(LIKELY_TO_STOP, [text], beam=1, order=order)[0][0]
        state = text.first_draft()
        while not state.finished:
            scores = score(LIKELY_TO_STOP, [state.items])
            actions = []
            for open_blank in text.rules.open_blanks(state):
                for token in range(4, len(WORDS)):
                    log_sides = scores.log_p_sides(torch.tensor([open_blank.blank]), torch.tensor([token]))[0]
                    for side in np.flatnonzero(open_blank.sides[1]):
                        log_p = float(scores.log_p_word[open_blank.blank, token] + log_sides[side])
                        log_p += float(scores.log_p_blank[open_blank.blank]) if order == "model" else 0.0
                        actions.append((log_p, open_blank, token, int(side)))
            if order == "confident":
                best = int(scores.log_p_word[:, 4:].max(1).values.argmax())
                actions = [a for a in actions if a[1].blank == best]
            elif order == "left-to-right":
                actions = [a for a in actions if a[1].blank == 0]
            log_p, open_blank, token, side = max(actions, key=lambda a: a[0])
            state = text.rules.advance(state, open_blank, token, side, log_p)
        assert draft.items == state.items
        assert draft.log_prob == pytest.approx(state.log_prob, abs=1e-4)


def test_a_wider_beam_finds_fills_at_least_as_probable():
    texts = [text_of(f"{a} ___[1-4] {b} ___[1-3]") for a, b in itertools.product("abc", repeat=2)]
    best = [[d[0].log_prob for d in beam_search(MODEL, texts, beam=beam)] for beam in (1, 4, 64)]
    assert np.mean(best[0]) < np.mean(best[1]) <= np.mean(best[2])


def test_merging_adds_probabilities_and_the_trajectory_keeps_its_own():
    text = text_of("___[3]")
    merged = beam_search(MODEL, [text], beam=1000, n=5, order="model")[0]
    for draft in merged:
        actions, log_probs = draft.actions()
        assert sum(log_probs) == pytest.approx(draft.path_log_prob, abs=1e-5)
        assert draft.path_log_prob < draft.log_prob
        state = Canvas((Blank.exactly(3),))
        for action in actions:
            state = state.apply(action)
        assert state.items == draft.items


def test_texts_in_a_batch_do_not_disturb_each_other():
    canvases = ["a ___[1-4] b", "___[2]", "c c c c ___[1-5] a ___[1-2] b b", "___[1-3] ___[1-3]"]
    for beam in (1, 3):
        together = beam_search(MODEL, [text_of(c) for c in canvases], beam=beam, n=beam)
        for canvas, drafts in zip(canvases, together, strict=True):
            alone = beam_search(MODEL, [text_of(canvas)], beam=beam, n=beam)[0]
            assert [d.items for d in alone] == [d.items for d in drafts]
            np.testing.assert_allclose([d.log_prob for d in alone], [d.log_prob for d in drafts], atol=1e-4)


def test_length_normalisation_changes_the_ranking_and_nothing_else():
    text = text_of("a ___[1-4] b")
    plain, normalised = (
        beam_search(LIKELY_TO_STOP, [text], beam=10**5, n=10**5, length_penalty=alpha)[0] for alpha in (0.0, 1.0)
    )
    assert {d.items: round(d.log_prob, 4) for d in plain} == {d.items: round(d.log_prob, 4) for d in normalised}
    per_step = [d.log_prob / d.steps for d in normalised]
    assert per_step == sorted(per_step, reverse=True) and plain[0].steps < normalised[0].steps


def test_generation_stops_at_the_models_longest_text_with_no_blank_left():
    never_stops = make_blm(vocabulary=len(WORDS))
    never_stops.sides_out.bias.data += torch.tensor([0, 0, 0, 50.0])
    for max_length in (3, 10, 11):
        text = text_of("a ___ b", max_length=max_length)
        draft = beam_search(never_stops, [text])[0][0]
        assert draft.finished and len(draft.items) == max_length
        (parallel,) = fill_in_parallel(never_stops, [text])
        assert parallel.finished and len(parallel.items) == max_length


# --- Rules --------------------------------------------------------------------------------------------------


def search_modes(model, text):
    yield "greedy", [d for d in beam_search(model, [text])[0]]
    yield "beam", beam_search(model, [text], beam=5, n=5, order="model")[0]
    yield "left-to-right", beam_search(model, [text], beam=2, n=2, order="left-to-right")[0]
    yield "sampling", sample(model, [text], n=20, order="model", temperature=1.5)[0]
    yield "sampling", sample(model, [text], n=10)[0]
    yield "parallel", fill_in_parallel(model, [text])


CASES = [
    ("___ c ___", [Constraint(max=2), Constraint(min=3, max=4)]),
    ("___ c ___", [Constraint(ban=("a",)), Constraint(only=("a", "b"), min=2, max=3)]),
    ("___[1-6]", [Constraint(require=("b", "c", "c"))]),
    ("a ___[4]", [Constraint(require=("b c b",), ban=("a",))]),
    ("___[3] ___", [Constraint(require=("a a", "b")), Constraint(require=("c",), max=2)]),
    ("___ ___", [Constraint(require=("a", "a b", "c"), max=4), Constraint(only=("c",), max=5)]),
]


@pytest.mark.parametrize(("canvas", "constraints"), CASES)
@pytest.mark.parametrize("model", [MODEL, LIKELY_TO_STOP], ids=["runs-on", "stops"])
def test_every_mode_keeps_every_constraint(canvas, constraints, model):
    text = text_of(canvas, constraints)
    for mode, drafts in search_modes(model, text):
        for draft in drafts:
            check_constraints(mode, draft, text, Template.parse(canvas), constraints)


def test_banned_and_only_words_leave_probabilities_as_they_are():
    everything = exhaustively(MODEL, "a ___[1-2] b", "left-to-right")
    a, b, c = (WORDS.encode(w)[0] for w in "abc")
    text = text_of("a ___[1-2] b", [Constraint(ban=("b",))])
    found = beam_search(MODEL, [text], beam=999, n=999, order="left-to-right")[0]
    allowed = {spans: p for spans, p in everything.items() if b not in spans[0]}
    assert {spans_of(d, text) for d in found} == allowed.keys() == {
        ((a,),), ((c,),), ((a, a),), ((a, c),), ((c, a),), ((c, c),)
    }  # fmt: skip
    for draft in found:
        assert draft.log_prob == pytest.approx(math.log(allowed[spans_of(draft, text)]), abs=1e-3)


def test_required_words_compete_in_all_placements():
    """All fills of three words that hold "b", each with the probability of writing it first."""
    text = text_of("___[3]", [Constraint(require=("b",))])
    drafts = beam_search(MODEL, [text], beam=999, n=999, order="model")[0]
    b = WORDS.encode("b")[0]
    words = range(4, len(WORDS))
    assert {spans_of(d, text)[0] for d in drafts} == {s for s in itertools.product(words, repeat=3) if b in s}
    for draft in drafts:
        assert draft.actions()[0][0].token == b


@pytest.mark.parametrize(
    ("canvas", "constraint", "message"),
    [
        ("___[3]", Constraint(max=2), "blank 1: the minimum length 3 is greater than the maximum 2"),
        ("a ___", Constraint(min=4, max=2), "minimum length 4 is greater than the maximum 2"),
        ("___[2]", Constraint(require=("a b c",)), "required words take 3, and the maximum length is 2"),
        ("___", Constraint(require=("a",), ban=("a",)), "'a' is required, but banned"),
        ("___", Constraint(require=("a",), only=("b",)), "'a' is required, but banned or not one of"),
        ("___", Constraint(require=("xyzzy",)), "'xyzzy' is not in the model's vocabulary"),
        ("___", Constraint(only=("xyzzy",)), "'xyzzy' is not in the model's vocabulary"),
        ("___", Constraint(ban=("a b",)), "'a b' is not one word"),
        ("___", Constraint(ban=("a", "b", "c")), "all the words that may be written are banned"),
        ("___", Constraint(only=("a",), ban=("a",)), "all the words that may be written are banned"),
    ],
)
def test_contradictions_are_named(canvas, constraint, message):
    with pytest.raises(ConstraintError, match=message):
        text_of(canvas, [constraint])


@pytest.mark.parametrize(
    "bad",
    [
        {"min": 0},
        {"max": -1},
        {"min": 1.5},
        {"ban": "word"},
        {"ban": [""]},
        {"ban": 3},
        {"only": None},
        {"require": {"a": 1}},
        {"maximum": 3},
    ],
)
def test_malformed_constraints_are_refused(bad):
    with pytest.raises(ConstraintError):
        Constraint.from_json(bad)


# --- BPE: tokens are parts of words ----------------------------------------------------------------------------------

SENTENCES = ["they have unbelievable ice cream , really unbelievably creamy !", "(unreal) creams believe in ice"] * 4
BPE = Tokenizer.train("bpe", SENTENCES, vocabulary=300)
BPE_MODEL = make_blm(vocabulary=len(BPE), seed=5)
BPE_MODEL.sides_out.bias.data += torch.tensor([4.0, 2.0, 0, 0])

BPE_CASES = [
    ("they have ___ , really", [Constraint()]),
    ("___ have (___)!", [Constraint(), Constraint()]),
    ("they have ___[2] , ___[1-3]", [Constraint(), Constraint()]),
    ("___[1] ice ___[3]", [Constraint(), Constraint()]),
    ("they ___ ice", [Constraint(require=("unbelievable", "cream"), max=4)]),
    ("___ ice", [Constraint(require=("believe",), max=3)]),
    ("they ___ ice", [Constraint(only=("unreal", "cream", "creamy"), max=3)]),
    ("they ___ ice", [Constraint(ban=("unreal", "cream"), max=2)]),
    ("they have ___[1] ___[1] ice", [Constraint(ban=("unreal", "really", "cream")), Constraint()]),
    ("they ___[1] ___[1-3] ___[2-]", [Constraint(only=("believe", "creamy")), Constraint(), Constraint(only=("ice",))]),
    ("___ unbelievable", [Constraint(only=("really", "ice"))]),
    ("they have ___[1] ice", [Constraint(require=("they",))]),  # spelt with a token that is never written alone
    ("they like ice___", [Constraint(require=("ice",))]),
]


@pytest.mark.parametrize(("canvas", "constraints"), BPE_CASES)
def test_bpe_fills_keep_spaces_word_counts_and_whole_words(canvas, constraints):
    text, template = text_of(canvas, constraints, tokenizer=BPE), Template.parse(canvas)
    spaces = BPE.encode_template(template)[1]
    for mode, drafts in search_modes(BPE_MODEL, text):
        for draft in drafts:
            spans = [BPE.span_text(ids, s) for ids, s in zip(spans_of(draft, text), spaces, strict=True)]
            whole = BPE.decode(draft.items)
            assert whole == BPE.render(template, spans), mode
            for span, blank, constraint in zip(spans, template.blanks, constraints, strict=True):
                words = span.split()
                assert span == " ".join(words) and words, (mode, span)
                assert blank.min <= len(words) <= min(blank.max or 99, constraint.max or 99), (mode, span)
                bare = [w.strip(",!()").casefold() for w in words]
                assert not set(bare) & set(constraint.ban), (mode, span)
                assert not constraint.only or set(bare) <= set(constraint.only), (mode, span)
                assert set(constraint.require) <= set(words), (mode, span)


def test_required_characters_must_be_allowed_characters():
    characters = Tokenizer.train("character", ["abcd"])
    for constraint in (Constraint(require=("d",), only=("a",)), Constraint(require=("ab",), ban=("a",))):
        with pytest.raises(ConstraintError, match="is required, but banned or not one of"):
            text_of("___", [constraint], tokenizer=characters)
    text = text_of("a___[3]d", [Constraint(require=("bc",), ban=("a",))], tokenizer=characters)
    model = make_blm(vocabulary=len(characters))
    for _, drafts in search_modes(model, text):
        for draft in drafts:
            span = characters.decode(spans_of(draft, text)[0])
            assert "bc" in span and len(span) == 3 and "a" not in span


def test_bpe_phrases_cannot_be_banned():
    with pytest.raises(ConstraintError, match="'ice cream' is several words"):
        text_of("___", [Constraint(ban=("ice cream",))], tokenizer=BPE)


@pytest.mark.slow
def test_words_spelt_with_different_tokens_are_one_fill():
    text = text_of("they have ___[1] ice", tokenizer=BPE)
    drafts = beam_search(BPE_MODEL, [text], beam=300, n=200)[0]
    spelt = [BPE.decode(spans_of(draft, text)[0]) for draft in drafts]
    assert len(set(spelt)) == len(spelt)


# --- Sampling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("canvas", ["a ___[1-2] b", "___[1] c ___[2]"])
@pytest.mark.slow
def test_samples_come_as_often_as_enumeration_says(order, canvas):
    text = text_of(canvas)
    expected = exhaustively(MODEL, canvas, order, sampling=True)
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-4)
    draws = sample(MODEL, [text], n=2000, order=order)[0]
    counts = Counter(spans_of(draft, text) for draft in draws)
    assert counts.keys() <= expected.keys()
    for spans, p in expected.items():
        assert counts[spans] / 2000 == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / 2000) + 1e-3)
    for draft in draws[:50]:
        assert sum(draft.actions()[1]) == pytest.approx(draft.log_prob, abs=1e-5)


def test_one_blank_of_one_word_is_drawn_from_its_word_distribution():
    text = text_of("a ___[1] b")
    p = score(MODEL, [text.ids]).log_p_word[0, 4:].exp()
    p = (p / p.sum()).tolist()
    draws = sample(MODEL, [text], n=4000)[0]
    frequency = Counter(spans_of(d, text)[0][0] for d in draws)
    for token, expected in zip(range(4, len(WORDS)), p, strict=True):
        assert frequency[token] / 4000 == pytest.approx(expected, abs=4 * math.sqrt(expected / 4000) + 1e-3)
    sharp = sample(MODEL, [text], n=200, temperature=0.01)[0]
    assert {spans_of(d, text)[0][0] for d in sharp} == {4 + int(np.argmax(p))}
    for sampling in ({"top_k": 1}, {"top_p": 1e-9}):
        assert {spans_of(d, text)[0][0] for d in sample(MODEL, [text], n=50, **sampling)[0]} == {4 + int(np.argmax(p))}


def test_canvases_that_are_alike_are_read_once_and_scored_as_if_each_were():
    a, b, c = ([4, BLANK, 5, BLANK], [BLANK], [4, 5])
    asked = []

    class Reading:
        device = MODEL.device

        def score(self, canvases, lengths, longest):
            asked.append(len(canvases))
            return MODEL.score(canvases, lengths, longest)

    canvases = [a, b, c, a, b, b]
    scores = score(Reading(), canvases)
    each = [score(MODEL, [canvas]) for canvas in canvases]
    assert asked == [3]
    torch.testing.assert_close(scores.log_p_word, torch.cat([one.log_p_word for one in each]))
    torch.testing.assert_close(scores.log_p_blank, torch.cat([one.log_p_blank for one in each]))
    rows, words = torch.tensor([0, 1, 2, 3, 4, 5, 6]), torch.tensor([4, 5, 6, 4, 5, 6, 4])
    sides = [each[k].log_p_sides(torch.tensor([row]), words[i : i + 1])
             for i, (k, row) in enumerate(((0, 0), (0, 1), (1, 0), (3, 0), (3, 1), (4, 0), (5, 0)))]  # fmt: skip
    torch.testing.assert_close(scores.log_p_sides(rows, words), torch.cat(sides))


def test_a_seed_gives_the_same_draws_whatever_else_is_in_the_batch():
    texts = [text_of("a ___[1-4] b"), text_of("___[2-5]"), text_of("c ___[3] ___[1-2]")]
    together = sample(MODEL, texts, n=3, seed=7)
    alone = sample(MODEL, texts[1:2], n=3, seed=7, numbers=[1])
    assert [d.items for d in together[1]] == [d.items for d in alone[0]]
    other = sample(MODEL, texts, n=3, seed=8)
    assert [d.items for ds in together for d in ds] != [d.items for ds in other for d in ds]


def test_parallel_filling_advances_every_blank_in_one_pass():
    text = text_of("___[1] a ___[1] b ___[1] c ___[1]")
    passes = []

    class Counting:
        device = MODEL.device

        def score(self, canvases, *lengths):
            passes.append(len(canvases))
            return MODEL.score(canvases, *lengths)

    (draft,) = fill_in_parallel(Counting(), [text])
    assert draft.finished and len(passes) == 1
    best = score(MODEL, [text.ids]).log_p_word[:, 4:].argmax(1) + 4
    assert [span[0] for span in spans_of(draft, text)] == best.tolist()


@pytest.mark.slow
def test_random_canvases_always_come_out_whole():
    rng = random.Random(0)
    for _ in range(60):
        parts = [rng.choice(["a", "b", "___", "___[2]", "___[1-3]", "___[2-]"]) for _ in range(rng.randrange(1, 9))]
        text = text_of(" ".join(parts), max_length=30)
        drafts = [beam_search(LIKELY_TO_STOP, [text])[0][0], *fill_in_parallel(LIKELY_TO_STOP, [text])]
        drafts += sample(LIKELY_TO_STOP, [text])[0]
        for draft in drafts:
            assert draft.finished and all(spans_of(draft, text))


@pytest.mark.parametrize("options", [{"order": "random"}, {"beam": 0}, {"n": 0}, {"length_penalty": math.nan}])
def test_bad_options_are_refused(options):
    with pytest.raises(BlankLMError):
        beam_search(MODEL, [text_of("___")], **options)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0},
        {"temperature": math.inf},
        {"temperature": math.nan},
        {"top_p": 0},
        {"top_k": -1},
        {"seed": -1},
    ],
)
def test_bad_sampling_options_are_refused(options):
    with pytest.raises(BlankLMError):
        SampleOptions(**options)


def test_the_quick_count_of_sides_equals_the_one_by_one():
    rng = random.Random(0)
    for _ in range(2000):
        least = rng.randrange(1, 5)
        rule = Rule(least, rng.choice([math.inf, least + rng.randrange(5)]), None)
        account = SpanBudget(rng.randrange(6), rng.randrange(1, 4), False, True, 0, 0, 0)
        room = rng.randrange(4)
        slow = [account.after(1, side, False, None).keepable(rule, room - sum(SIDES[side])) for side in range(4)]
        assert account.sides_in_words(rule, room).tolist() == slow


@pytest.mark.parametrize(
    "search",
    [
        lambda texts: beam_search(MODEL, texts),
        lambda texts: search_beams(MODEL, texts, 1, 1, "confident"),
        lambda texts: beam_search(MODEL, texts, beam=3, n=2),
        lambda texts: [[draft] if draft.finished else [] for draft in fill_in_parallel(MODEL, texts)],
        lambda texts: [[draft] if draft.finished else [] for draft in fill_in_parallel_slowly(MODEL, texts)],
        lambda texts: sample(MODEL, texts, n=2),
    ],
    ids=["greedy", "greedy by objects", "beam", "parallel", "parallel by objects", "sampling"],
)
def test_a_watched_text_is_given_up_when_its_watch_says_so_and_the_others_go_on(search):
    texts = [text_of(canvas) for canvas in ("a ___[3] b", "___[4] c ___[5]", "___[2]")]
    unwatched, seen = search(texts), []

    def watch(so_far):
        seen.append(so_far())
        return len(seen) < 3

    watched = search([texts[0], replace(texts[1], watch=watch), texts[2]])
    assert watched[1] == [] and len(seen) in (3, 4)  # both draws of a text are asked in the pass that stops them
    assert seen[0] == texts[1].first_draft() and not any(draft.finished for draft in seen)
    for found, expected in ((watched[0], unwatched[0]), (watched[2], unwatched[2])):
        assert [draft.items for draft in found] == [draft.items for draft in expected]


def test_a_watch_that_never_objects_changes_nothing():
    text, seen = text_of("a ___[3] b ___[2]"), []
    watched = replace(text, watch=lambda so_far: seen.append(so_far()) is None)
    assert beam_search(MODEL, [watched])[0][0].items == beam_search(MODEL, [text])[0][0].items
    assert [draft.steps for draft in seen] == [0, 1, 2, 3, 4]


def test_a_text_filled_in_parallel_as_tensors_can_be_given_up_too():
    texts = [text_of(canvas) for canvas in ("a ___ b", "___ c ___", "___")]
    unwatched, seen = fill_in_parallel(LIKELY_TO_STOP, texts), []
    first, given_up, last = fill_in_parallel(
        LIKELY_TO_STOP, [texts[0], replace(texts[1], watch=lambda so_far: seen.append(so_far())), texts[2]]
    )
    assert (first.items, last.items) == (unwatched[0].items, unwatched[2].items)
    assert seen == [texts[1].first_draft()] and given_up.items == texts[1].ids
