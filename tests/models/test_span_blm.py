"""A BLM that is told whether its blanks stand for words or for spans: its bound, against plain enumeration."""

import itertools
import math

import numpy as np
import pytest
import torch

from blanklm.core.special import BLANK
from blanklm.core.texts import Batch, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.scores import score
from blanklm.errors import BlankLMError
from blanklm.models import span_blm
from blanklm.models.encoder import EncoderConfig
from blanklm.models.span_blm import SpanBLM, SpanBLMConfig
from blanklm.training import checkpoint
from tests.support.models import make_blm
from tests.support.oracles import log_joint

TEXT, REGION = [5, 9, 5, 7, 6, 8], [1, 2, 4]


def make_span_blm(spans: float = 0.5, seed: int = 0, vocabulary: int = 12, **config) -> SpanBLM:
    torch.manual_seed(seed)
    encoder = EncoderConfig(2, 2, 16, 32, dropout=0.0)
    model = SpanBLM(SpanBLMConfig(vocabulary, encoder, sides_hidden=16, spans=spans, **config))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8.0)
        model.span_blank.normal_(std=2.0)
    return model.eval()


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
    rest = [i for i in range(len(TEXT)) if i not in REGION]
    orders = [o for o in itertools.permutations(REGION) if not whole_words or o.index(1) < o.index(2)]
    joints = [log_joint(model, TEXT, (*rest, *order), first=len(rest)) for order in orders]
    exact = -(math.log(len(orders)) + np.mean(joints))
    draws = 6000
    with torch.inference_mode():
        targets = model.prepare(batch_of(TEXT, draws))
        bounds, losses = model.bound(targets), model.loss(targets)
    error = bounds.std() / math.sqrt(draws)
    assert abs(bounds.mean() - exact) < 4 * error
    assert error < 0.02 * abs(exact)  # or the line above would say nothing
    torch.testing.assert_close(losses, bounds * len(TEXT) / len(REGION))


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


def test_a_batch_mixes_both_ways_of_hiding_and_tells_them_apart():
    model = make_span_blm()
    batch = batch_of(TEXT, 400)
    targets = model.prepare(batch)
    assert 0.4 < targets.spans.float().mean() < 0.6
    assert (targets.lengths[~targets.spans] == len(TEXT)).all()
    assert (targets.lengths[targets.spans] < len(TEXT)).any()
    together = model.bound(targets)
    for told, spans in (("spans", True), ("words", False)):
        policy = model.for_blanks(told)
        one = int((targets.spans == spans).nonzero()[0])
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
