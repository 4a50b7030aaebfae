"""A BLM that is told whether its blanks stand for words or for spans: its bound, against plain enumeration."""

import itertools
import math

import numpy as np
import pytest
import torch

from blanklm.core.conceal import conceal
from blanklm.core.special import BLANK
from blanklm.core.texts import Batch, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.scores import score
from blanklm.errors import BlankLMError
from blanklm.models import span_blm
from blanklm.models.encoder import EncoderConfig
from blanklm.models.span_blm import SpanBLM, SpanBLMConfig, words_in_blanks
from blanklm.training import checkpoint
from tests.support.models import make_blm, make_span_blm
from tests.support.oracles import log_joint

TEXT, REGION = [5, 9, 5, 7, 6, 8], [1, 2, 4]


def batch_of(text, draws):
    fractions = torch.from_numpy(np.random.default_rng(0).random(draws))
    return Batch(*pad([text] * draws), fractions, torch.arange(draws))


@pytest.mark.parametrize("whole_words", [False, True])
def test_the_loss_is_an_unbiased_draw_of_the_bound_of_a_region(monkeypatch, whole_words):
    """- log p(region | rest) <= - log k! - the mean over orders of the region of log p(region, order | rest)."""
    model = make_span_blm(spans=1.0, whole_words=whole_words)
    if whole_words:  # positions 1 and 2 are one word: only orders in which it grows from left to right are drawn
        model.edges.copy_(torch.tensor([[0, 1]]).expand_as(model.edges))
        model.edges[5, 0] = 1
    drawn = torch.zeros(1, len(TEXT), dtype=torch.bool)
    drawn[0, REGION] = True
    monkeypatch.setattr(span_blm, "draw_regions", lambda tokens, *rest: drawn.expand(len(tokens), -1))
    monkeypatch.setattr(span_blm, "UNTOLD", 1.0)
    rest = [i for i in range(len(TEXT)) if i not in REGION]
    orders = [o for o in itertools.permutations(REGION) if not whole_words or o.index(1) < o.index(2)]
    joints = [log_joint(model, TEXT, (*rest, *order), first=len(rest)) for order in orders]
    exact = -(math.log(len(orders)) + np.mean(joints))
    draws = 6000
    with torch.inference_mode():
        targets = model.prepare(batch_of(TEXT, draws))
        bounds = model.bound(targets)
    error = bounds.std() / math.sqrt(draws)
    assert abs(bounds.mean() - exact) < 4 * error
    assert error < 0.02 * abs(exact)  # or the line above would say nothing


def test_the_loss_adds_first_words_and_lengths_to_the_bound_per_hidden_token():
    model = make_span_blm(vocabulary=30)
    model.starts_word[:10] = False
    texts = [np.random.default_rng(seed).integers(4, 30, 12).tolist() for seed in range(40)]
    targets = model.prepare(Batch(*pad(texts), torch.linspace(0, 0.9, 40), torch.arange(40)))
    with torch.inference_mode():
        expected = model.bound(targets) / targets.lengths * 12
        packing = targets.actions.packing
        canvases, kinds = packing.padded(targets.actions.canvas), packing.padded(targets.kinds)
        for b in range(len(texts)):
            ours = (targets.actions.text[targets.first] == b).nonzero().squeeze(1)
            if not len(ours):
                assert not kinds[b].any()  # words were hidden, not spans
                continue
            canvas, length = canvases[b : b + 1], packing.lengths[b : b + 1]
            scores = model.score_spans(canvas, length, canvas.shape[1], kinds[b : b + 1] - span_blm.SPAN_OF)
            assert len(scores.log_p_first) == len(ours)
            told = (kinds[b][canvas[0] == BLANK] - span_blm.SPAN_OF).tolist()
            for row, f in enumerate(ours.tolist()):
                first = scores.log_p_first[row, targets.actions.word[targets.first[f]]]
                length_part = scores.log_p_length[row, targets.words[f]] if told[row] < 0 else 0.0
                assert told[row] in (-1, int(targets.words[f]))
                expected[b] -= 12 * (span_blm.FIRST_WEIGHT * first + span_blm.LENGTH_WEIGHT * length_part) / len(ours)
        torch.testing.assert_close(model.loss(targets), expected, atol=1e-3, rtol=1e-4)


def test_the_words_in_blanks_are_the_hidden_tokens_that_start_one():
    rng = np.random.default_rng(0)
    for _ in range(50):
        starts, shown = rng.random(12) < 0.6, torch.from_numpy(rng.random((1, 12)) < 0.5)
        concealed = conceal(torch.arange(4, 16)[None], torch.tensor([11]), shown)
        counted = words_in_blanks(concealed, torch.from_numpy(starts)[None])[0]
        for position in (concealed.hidden[0] & (concealed.left[0] == 0)).nonzero().flatten().tolist():
            run = range(position, position + int(concealed.right[0, position]) + 1)
            assert counted[position] == sum(bool(starts[i]) or i == 0 for i in run)


def test_lengths_are_told_in_some_canvases_in_others_not_and_in_part_of_some():
    model = make_span_blm(spans=1.0, vocabulary=30)
    texts = [np.random.default_rng(seed).integers(4, 30, 30).tolist() for seed in range(300)]
    targets = model.prepare(Batch(*pad(texts), torch.full((300,), 0.5), torch.arange(300)))
    untold = torch.zeros(300).index_add(0, targets.actions.text[targets.first], targets.asked)
    whole = torch.zeros(300).index_add(0, targets.actions.text[targets.first], targets.share)
    torch.testing.assert_close(whole, torch.ones(300))
    for share in ((untold < 1e-6), (untold > 1 - 1e-6), ((untold > 1e-6) & (untold < 1 - 1e-6))):
        assert 0.15 < share.float().mean() < 0.6


def test_fresh_canvases_have_nothing_of_their_region_written():
    model = make_span_blm(spans=1.0, fresh=0.999999)
    targets = model.prepare(batch_of(TEXT, 200))
    assert torch.equal(targets.hidden, targets.lengths)


def test_a_told_length_changes_what_is_written_and_the_last_words_close_the_blank():
    model = make_span_blm()
    canvas, length = torch.tensor([[5, BLANK, 6, BLANK]]), torch.tensor([4])
    untold = model.score_spans(canvas, length, 4, torch.tensor([[-1, -1, -1, -1]]))
    told = model.score_spans(canvas, length, 4, torch.tensor([[0, 3, 0, -1]]))
    assert not torch.allclose(untold.log_p_first, told.log_p_first)
    torch.testing.assert_close(told.log_p_first.exp().sum(1), torch.ones(2))
    torch.testing.assert_close(told.log_p_length.exp().sum(1), torch.ones(2))
    more = told.log_p_more(torch.tensor([0, 1]), torch.tensor([7, 8]))
    torch.testing.assert_close(more.exp().sum(1), torch.ones(2))


def test_told_words_it_is_the_papers_model():
    model, plain = make_span_blm(), make_blm()
    plain.load_state_dict({name: model.state_dict()[name] for name in plain.state_dict()})
    order = (3, 0, 5, 1, 2, 4)
    assert log_joint(model, TEXT, order) == pytest.approx(log_joint(plain, TEXT, order), abs=1e-5)
    assert log_joint(model.for_blanks("words"), TEXT, order) == pytest.approx(log_joint(plain, TEXT, order), abs=1e-5)
    assert log_joint(model.for_blanks(None), TEXT, order) != pytest.approx(log_joint(plain, TEXT, order), abs=1e-2)
    assert plain.for_blanks(None) is plain


def test_texts_without_a_region_have_the_papers_loss(monkeypatch):
    model, plain = make_span_blm(spans=1e-9), make_blm()
    plain.load_state_dict({name: model.state_dict()[name] for name in plain.state_dict()})
    batch = batch_of(TEXT, 50)
    torch.testing.assert_close(model.loss(model.prepare(batch)), plain.loss(plain.prepare(batch)))


def test_a_batch_mixes_both_ways_of_hiding_and_tells_them_apart(monkeypatch):
    monkeypatch.setattr(span_blm, "UNTOLD", 1.0)
    model = make_span_blm()
    batch = batch_of(TEXT, 400)
    targets = model.prepare(batch)
    of_spans = torch.zeros(400, dtype=torch.bool)
    of_spans[targets.actions.text[targets.first]] = True
    assert 0.4 < of_spans.float().mean() < 0.6
    assert (targets.lengths[~of_spans] == len(TEXT)).all()
    assert (targets.lengths[of_spans] < len(TEXT)).any()
    together = model.bound(targets)
    for told, spans in (("spans", True), ("words", False)):
        policy = model.for_blanks(told)
        one = int((of_spans == spans).nonzero()[0])
        row = Batch(*(part[one : one + 1] for part in (batch.tokens, batch.lengths, batch.fractions, batch.seeds)))
        alone = model.prepare(row)
        log_p = policy.read_out(policy.encode(alone.actions.canvas, alone.actions.packing), alone.actions)
        torch.testing.assert_close(policy.loss_of(log_p, alone)[0], together[one], atol=1e-4, rtol=1e-4)


def test_a_text_of_one_word_is_all_of_its_region():
    model = make_span_blm(spans=1.0)
    targets = model.prepare(batch_of([7], 20))
    assert (targets.lengths == 1).all() and torch.isfinite(model.loss(targets)).all()


def test_a_model_refuses_blanks_that_it_has_not_learnt():
    with pytest.raises(BlankLMError, match="stand for spans"):
        make_span_blm(spans=1.0).for_blanks("words")
    with pytest.raises(BlankLMError, match="stand for words"):
        make_blm().for_blanks("spans")
    with pytest.raises(BlankLMError, match="`spans` must be above 0"):
        SpanBLMConfig(12, EncoderConfig(1, 1, 8, 8), spans=0.0)
    with pytest.raises(BlankLMError, match="`fresh` must be 0"):
        SpanBLMConfig(12, EncoderConfig(1, 1, 8, 8), fresh=1.0)


def test_it_is_the_same_after_saving_and_loading(tmp_path):
    tokenizer = Tokenizer.train("bpe", ["Fill the blank, please."], vocabulary=270)
    model = make_span_blm(vocabulary=len(tokenizer), whole_words=True)
    model.set_vocabulary(tokenizer)
    checkpoint.save(tmp_path, model, tokenizer)
    loaded = checkpoint.load(tmp_path).model
    assert isinstance(loaded, SpanBLM) and loaded.told == "words"
    batch = batch_of(tokenizer.encode("Fill the blank, please."), 30)
    torch.testing.assert_close(loaded.loss(loaded.prepare(batch)), model.loss(model.prepare(batch)))


def test_it_continues_from_a_model_of_words():
    tokenizer = Tokenizer.train("bpe", ["Fill the blank, please."], vocabulary=270)
    plain = make_blm(vocabulary=len(tokenizer), whole_words=True)
    model = SpanBLM.from_words(plain, tokenizer).eval()
    canvas = [[5, BLANK, 6, BLANK]]
    for told in ("words", "spans"):  # at first they mean the same
        scores = score(model.for_blanks(told), canvas)
        torch.testing.assert_close(scores.log_p_word, score(plain, canvas).log_p_word)
