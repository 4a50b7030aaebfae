"""The Insertion Transformer against a slow and obvious version of itself: one canvas, one action at a time."""

import math
from dataclasses import replace
from itertools import permutations, product
from random import Random

import numpy as np
import pytest
import torch

from blanklm.core import likelihood
from blanklm.core.special import BLANK
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data.masking import mask_words
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.baselines import insertion
from blanklm.paper.baselines.insertion import STOP, InsertionTransformer
from blanklm.paper.baselines.predictor import CanvasIds, PredictorConfig
from blanklm.paper.baselines.slot_insertion import SlotInsertion
from blanklm.paper.baselines.systems import Infiller
from blanklm.paper.tasks.infilling import evaluate, failure
from blanklm.training.epochs import training_epoch
from tests.support.baselines import allow_all, batch_of, make, random_texts
from tests.support.oracles import joint, log_p_of_order
from tests.support.runs import SENTENCES, corpus

VOCABULARY = 8


@pytest.fixture(scope="module")
def model():
    return make(InsertionTransformer, VOCABULARY, max_length=14)


def test_the_actions_of_a_canvas_have_probability_one(model):
    for canvas in ([], [4], [4, 4, 6]):
        assert joint(model, canvas).exp().sum() == pytest.approx(1.0, abs=1e-5)
    assert joint(model, []).exp()[:, STOP].sum() == 0


@pytest.mark.parametrize("text", [[4], [4, 4], [5, 6, 5], [7, 4, 6, 4]])
def test_the_exact_likelihood_sums_over_all_orders_and_ends_with_the_stop(model, text):
    slow = np.logaddexp.reduce([log_p_of_order(model, text, order) for order in permutations(range(len(text)))])
    assert likelihood.exact(model, text) == pytest.approx(slow, abs=1e-4)


def test_no_probability_is_lost_or_made():
    """All texts of up to three words, and the chance of going on after the third."""
    model = make(InsertionTransformer, 6)
    words = range(2, 6)
    with torch.no_grad():
        model.embedding.weight[STOP] *= 3  # so that stopping early is likely
    ended = sum(math.exp(likelihood.exact(model, list(x))) for n in (1, 2, 3) for x in product(words, repeat=n))

    def goes_on(canvas, steps):
        """The chance of a fourth insertion, from a canvas on which some words stand."""
        p = joint(model, canvas).exp()
        insertions = [(s, w, float(p[s, w])) for s in range(len(canvas) + 1) for w in words]
        if steps == 0:
            return sum(chance for _, _, chance in insertions)
        return sum(chance * goes_on([*canvas[:s], w, *canvas[s:]], steps - 1) for s, w, chance in insertions)

    assert ended + goes_on([], 3) == pytest.approx(1.0, abs=1e-4)
    assert ended > 0.01


def test_the_estimates_are_of_the_exact_value(model):
    texts = [[5, 6, 5], [7, 4, 6, 4, 5]]
    exact = np.array([likelihood.exact(model, text) for text in texts])
    estimate = likelihood.monte_carlo(model, texts, orders=400)
    assert (abs(estimate.log_likelihoods - exact) < 5 * estimate.standard_errors + 1e-3).all()
    bound = likelihood.bound(model, texts, draws=400)
    assert (bound < exact + 1e-3).all()
    orders = [np.mean([log_p_of_order(model, text, o) for o in permutations(range(len(text)))]) for text in texts[:1]]
    assert bound[0] == pytest.approx(math.log(math.factorial(3)) + orders[0], abs=0.15)


def test_the_loss_is_the_bound_with_the_stop_at_every_slot(model):
    text = [5, 6, 5]
    batch = batch_of([text] * 3000)
    batch = replace(batch, fractions=(torch.arange(3000) + 0.5) / 3000)
    losses = model.loss(model.prepare(batch)).detach()
    stop = joint(model, text)[:, STOP]
    everywhere = math.log(4) + float(stop.mean())
    assert everywhere < float(stop.logsumexp(0))
    words = np.mean([log_p_of_order(model, text, order) for order in permutations(range(3))]) - float(stop.logsumexp(0))
    assert float(losses.mean()) == pytest.approx(-math.log(6) - words - everywhere, abs=0.1)


def test_the_loss_of_slots_that_end_counts_each_missing_word_and_each_slot_that_misses_none():
    model, text = make(SlotInsertion, VOCABULARY), [5, 6, 5, 7]
    batch = replace(batch_of([text] * 400), fractions=torch.rand(400, generator=torch.Generator().manual_seed(0)))
    losses = model.loss(model.prepare(batch)).detach()
    ranks, _ = model.orders(batch.tokens, batch.lengths, batch.seeds)
    for rank, fraction, loss in zip(ranks.tolist(), batch.fractions.tolist(), losses.tolist(), strict=True):
        shown = [position for position in range(4) if rank[position] < int(fraction * 4)]
        log_p = joint(model, [text[position] for position in shown])
        stop, total, missing = log_p[:, STOP] - log_p.logsumexp(1), 0.0, set()
        for position in set(range(4)) - set(shown):
            slot = sum(other < position for other in shown)
            missing.add(slot)
            total += float(log_p[slot, text[position]])
        total += sum(float(stop[slot]) for slot in range(len(shown) + 1) if slot not in missing)
        assert loss == pytest.approx(-4 / (4 - len(shown)) * total, abs=1e-3)


@pytest.mark.parametrize("kind", [InsertionTransformer, SlotInsertion])
def test_sequences_laid_into_rows_have_the_same_loss(kind):
    model = make(kind, VOCABULARY, max_length=14)
    batch = batch_of(random_texts(30, VOCABULARY))
    in_rows = model.prepare(replace(batch, for_gpu=True))
    assert (in_rows.insertions if kind is InsertionTransformer else in_rows).packing.row == 64
    torch.testing.assert_close(model.loss(in_rows), model.loss(model.prepare(batch)), atol=1e-4, rtol=1e-4)


def write_slowly(model, ids, bans, free):
    """(items, origins): the best (slot, word) at each step; the paper's three rules unless ``free``.

    Where each slot ends by itself, one whose best content is STOP takes no word.
    """
    items, owners = [], [-1]
    for i in ids:
        if i == BLANK:
            owners[-1] = max(owners) + 1
        else:
            items.append(i)
            owners.append(-1)
    origins = [-1] * len(items)
    unfilled = set(owners) - {-1}
    while True:
        log_p = joint(model, items)
        log_p_slot = log_p.logsumexp(1)
        may = [s for s, owner in enumerate(owners) if free or (owner in unfilled if unfilled else owner >= 0)]
        log_p = log_p[may] - log_p_slot[may].logsumexp(0)
        stop, words = log_p[:, STOP].clone(), log_p + bans[0]
        place, word = divmod(int(words.argmax()), VOCABULARY)
        may_stop = bool(items) if free else not unfilled
        if may_stop and model.each_slot_ends:
            words[stop > words.max(1).values] = -torch.inf
            place, word = divmod(int(words.argmax()), VOCABULARY)
            stop[:] = -torch.inf if words.max().isfinite() else 0.0
        if may_stop and (stop.max() > words.max() or len(items) >= model.config.max_length):
            return items, origins
        slot = may[place]
        unfilled -= {owners[slot]}
        items.insert(slot, word)
        origins.insert(slot, owners[slot])
        owners.insert(slot, owners[slot])


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kind", [InsertionTransformer, SlotInsertion])
def test_filling_is_what_the_paper_describes(kind, free):
    model = make(kind, VOCABULARY, max_length=14)
    canvases = [[4, 1, 5, 1], [1, 5], [1], [4, 6, 4, 1, 5, 6, 1, 4], [7, 1, 6]]
    bans = allow_all(model)
    written = model.write([CanvasIds(ids, [False] * ids.count(BLANK)) for ids in canvases], bans, free=free)
    for ids, found in zip(canvases, written, strict=True):
        items, origins = write_slowly(model, ids, bans, free)
        if free:
            assert found.whole == items
        else:
            spans = [[i for i, o in zip(items, origins, strict=True) if o == k] for k in range(ids.count(BLANK))]
            assert found.spans == spans and all(spans)


@pytest.mark.parametrize("kind", [InsertionTransformer, SlotInsertion])
def test_made_valid_it_never_fails_and_free_it_does(kind):
    texts = ["the food was good and we liked it .", "i will never come back to this place !", "it was fine ."]
    tokenizer = Tokenizer.train("word", texts)
    system = Infiller(make(kind, len(tokenizer), max_length=24), tokenizer)
    masked = [mask_words(text, 0.4, Random(i)) for i, text in enumerate(texts)]
    canvases = [str(m.template) for m in masked]
    assert [failure(m, f) for m, f in zip(masked, system.fill(canvases), strict=True)] == [None] * 3
    freely = [failure(m, f) for m, f in zip(masked, system.fill(canvases, free=True), strict=True)]
    assert set(freely) <= {None, "wrong_blanks"} and "wrong_blanks" in freely  # it cannot lose words


def test_two_blanks_side_by_side_are_refused(model):
    with pytest.raises(BlankLMError, match="side by side"):
        model.write([CanvasIds([4, 1, 1], [False, False])], allow_all(model))


@pytest.mark.parametrize("kind", [InsertionTransformer, SlotInsertion])
def test_a_span_that_goes_on_and_on_is_closed(kind, monkeypatch):
    monkeypatch.setattr(insertion, "LONGEST_SPAN", 3)
    model = make(kind, VOCABULARY, max_length=100)
    with torch.no_grad():
        model.embedding.weight[STOP] = 0
        model.word_bias[STOP] = -50  # it never stops by itself
    (written,) = model.write([CanvasIds([4, 1, 5, 1], [False, False])], allow_all(model))
    assert [len(span) for span in written.spans] == [3, 3]


@pytest.mark.slow
def test_trained_it_stops_when_the_blanks_it_may_fill_are_full():
    """On ten sentences known by heart."""
    tokenizer, _ = corpus()
    texts = TokenisedTexts.from_ids(tokenizer.encode_many(SENTENCES * 8))
    torch.manual_seed(0)
    model = SlotInsertion(PredictorConfig(len(tokenizer), EncoderConfig(2, 2, 32, 64, dropout=0.0), 40))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(300):
        for draw in training_epoch(texts, 2048, seed=0, epoch=epoch, skew=0.5):
            (model.loss(model.prepare(draw.collate(texts))).sum() / texts.tokens).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    (report,) = evaluate(Infiller(model, tokenizer), SENTENCES * 3, ratios=[0.2], seed=1).values()
    assert report["bleu"] > 95 and report["length_error"] < 0.1 and report["failure_rate"] == 0
