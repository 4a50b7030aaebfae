"""Regularisers: each does what it says in training, nothing otherwise, and nothing when it is off."""

import json
import math

import pytest
import torch

from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, EOS
from blanklm.core.texts import Batch, pad
from blanklm.decoding.scores import score
from blanklm.errors import BlankLMError
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import Encoder, EncoderConfig, drop_words
from blanklm.paper.baselines.insertion import InsertionTransformer
from blanklm.paper.baselines.left_to_right import LeftToRight, LeftToRightStream
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.paper.baselines.temperature import apply_temperature
from blanklm.training import checkpoint
from tests.support.baselines import make
from tests.support.models import make_blm
from tests.support.oracles import reference

REGULARISERS = {name: 0.5 for name in ("dropout", "hidden_dropout", "output_dropout")}


def encoder_of(**regularisers):
    torch.manual_seed(0)
    return Encoder(EncoderConfig(2, 2, 16, 32, **({"dropout": 0.0} | regularisers)))


def encoded(encoder, vectors):
    torch.manual_seed(1)
    return encoder(vectors, Packing.of(torch.tensor([len(vectors)]), len(vectors)))


def test_every_regulariser_is_off_by_default_and_outside_training():
    vectors = torch.randn(6, 16)
    plain = encoder_of()
    expected = reference(plain, vectors, causal=False)
    torch.testing.assert_close(encoded(plain.train(), vectors), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(encoded(encoder_of(**REGULARISERS).eval(), vectors), expected, atol=1e-5, rtol=1e-4)
    config = EncoderConfig(2, 2, 16, 32)
    before = {"layers": 2, "heads": 2, "width": 16, "feedforward": 32, "dropout": 0.1}  # as saved models have it
    assert checkpoint.from_json(EncoderConfig, json.loads(json.dumps(before))) == config


@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_every_regulariser_changes_training_at_random_and_by_itself(regulariser):
    vectors = torch.randn(6, 16)
    encoder = encoder_of(**{regulariser: 0.5}).train()
    changed = encoded(encoder, vectors)
    assert not torch.allclose(changed, encoded(encoder.eval(), vectors))
    encoder.train()
    assert torch.equal(encoded(encoder, vectors), changed)  # by the seed alone
    with pytest.raises(BlankLMError, match=f"{regulariser.replace('_', ' ')} must be 0 or more and below 1"):
        EncoderConfig(2, 2, 16, 32, **{regulariser: 1.0})


def test_settings_of_earlier_versions_load_where_they_were_off():
    before = {"layers": 2, "heads": 2, "width": 16, "feedforward": 32, "input_dropout": None, "layer_dropout": 0.0}
    assert checkpoint.from_json(EncoderConfig, before) == EncoderConfig(2, 2, 16, 32)
    with pytest.raises(TypeError, match="layer_dropout"):
        checkpoint.from_json(EncoderConfig, before | {"layer_dropout": 0.2})


def test_word_dropout_takes_the_vectors_of_words_and_never_of_blanks_or_ends():
    embedding = torch.nn.Embedding(10, 4)
    symbols = torch.tensor([BLANK, 5, EOS, 6] * 1000)
    torch.manual_seed(0)
    vectors = drop_words(embedding.train(), symbols, 0.3)
    whole = embedding(symbols)
    lost = (vectors == 0).all(1)
    assert not lost[::2].any() and abs(float(lost[1::2].float().mean()) - 0.3) < 0.04
    assert torch.equal(vectors[~lost], whole[~lost])
    assert torch.equal(drop_words(embedding.eval(), symbols, 0.3), whole)
    assert torch.equal(drop_words(embedding.train(), symbols, 0.0), whole)


@pytest.mark.parametrize("kind", [BLM, InsertionTransformer, LeftToRight, LeftToRightStream])
def test_gradients_stay_small_where_every_word_is_lost(kind):
    torch.manual_seed(0)
    encoder = EncoderConfig(6, 2, 64, 256, dropout=0.0, word_dropout=0.99)
    model = kind((BLMConfig if kind is BLM else PredictorConfig)(50, encoder)).train()
    texts = [[5], [6, 7], [8, 9, 10, 11] * 4]
    batch = Batch(*pad(texts * 20), torch.linspace(0, 0.99, 60, dtype=torch.double), torch.arange(60))
    (model.loss(model.prepare(batch)).sum() / batch.lengths.sum()).backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    assert 0 < float(norm) < 100


def test_a_softened_model_is_less_sure_of_words_and_of_nothing_else():
    blm = make_blm()  # one of its own: it is changed in place
    canvas, temperature = [BLANK, 5, BLANK, 6], 1.7
    before = score(blm, [canvas])
    pairs = torch.arange(2).repeat_interleave(12), torch.arange(12).repeat(2)
    before_sides = before.log_p_sides(*pairs)
    apply_temperature(blm, temperature)
    after = score(blm, [canvas])
    torch.testing.assert_close(after.log_p_word, (before.log_p_word / temperature).log_softmax(1))
    torch.testing.assert_close(after.log_p_blank, before.log_p_blank)
    torch.testing.assert_close(after.log_p_sides(*pairs), before_sides)
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(BlankLMError, match="the temperature must be above 0"):
            apply_temperature(blm, wrong)


@torch.no_grad()
@pytest.mark.parametrize("kind", [InsertionTransformer, LeftToRight])
def test_softened_baselines(kind):
    model, temperature = make(kind, 12), 0.6
    z = torch.randn(5, 16)

    def read(model):
        vectors = model.slot_vectors(z, torch.arange(4)) if kind is InsertionTransformer else model.encoder.norm(z)
        return model.word_logits(vectors), model.slot_logits(vectors) if kind is InsertionTransformer else None

    words, slots = read(model)
    apply_temperature(model, temperature)
    softer, slots_after = read(model)
    torch.testing.assert_close(softer, words / temperature)
    torch.testing.assert_close(slots_after, slots)
