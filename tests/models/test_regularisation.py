"""The levers against overfitting: each does what it says in training, nothing otherwise, and nothing when it is off."""

import json
import math
from collections import Counter

import numpy as np
import pytest
import torch

from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, EOS
from blanklm.core.texts import Batch, TokenisedTexts, TokenStream, pad, sentence_lengths
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.scores import score
from blanklm.errors import BlankLMError, TrainingError
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import Encoder, EncoderConfig, drop_words
from blanklm.paper.baselines.insertion import InsertionTransformer
from blanklm.paper.baselines.left_to_right import LeftToRight, LeftToRightStream
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.training import checkpoint
from blanklm.training.epochs import GOLDEN, POOL, Draw, split_by_budget, training_epoch, validation_epoch
from blanklm.training.run import TrainingConfig, train
from tests.support.baselines import make
from tests.support.models import make_blm
from tests.support.oracles import reference

LEVERS = {name: 0.5 for name in ("dropout", "hidden_dropout", "output_dropout")}


def encoder_of(**levers):
    torch.manual_seed(0)
    return Encoder(EncoderConfig(2, 2, 16, 32, **({"dropout": 0.0} | levers)))


def encoded(encoder, vectors):
    torch.manual_seed(1)
    return encoder(vectors, Packing.of(torch.tensor([len(vectors)]), len(vectors)))


def test_every_lever_is_off_by_default_and_outside_training():
    vectors = torch.randn(6, 16)
    plain = encoder_of()
    expected = reference(plain, vectors, causal=False)
    torch.testing.assert_close(encoded(plain.train(), vectors), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(encoded(encoder_of(**LEVERS).eval(), vectors), expected, atol=1e-5, rtol=1e-4)
    config = EncoderConfig(2, 2, 16, 32)
    before = {"layers": 2, "heads": 2, "width": 16, "feedforward": 32, "dropout": 0.1}  # as saved models have it
    assert checkpoint.from_json(EncoderConfig, json.loads(json.dumps(before))) == config


@pytest.mark.parametrize("lever", LEVERS)
def test_every_lever_changes_training_at_random_and_by_itself(lever):
    vectors = torch.randn(6, 16)
    encoder = encoder_of(**{lever: 0.5}).train()
    changed = encoded(encoder, vectors)
    assert not torch.allclose(changed, encoded(encoder.eval(), vectors))
    encoder.train()
    assert torch.equal(encoded(encoder, vectors), changed)  # by the seed alone
    with pytest.raises(BlankLMError, match=f"{lever.replace('_', ' ')} must be 0 or more and below 1"):
        EncoderConfig(2, 2, 16, 32, **{lever: 1.0})


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


# --- The order of the data --------------------------------------------------------------------------------------------


def epoch_as_it_was(texts, tokens_per_batch, seed, epoch, skew):
    """Every text with one canvas, by its number."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(texts))
    fractions = np.empty(len(texts))
    fractions[order] = ((rng.random() + GOLDEN * np.arange(len(texts))) % 1.0) ** skew
    seeds = rng.integers(np.iinfo(np.int64).max) // 2 + np.arange(len(texts))
    pool = max(1, round(POOL * tokens_per_batch / (texts.tokens / len(texts))))
    draws = []
    for start in range(0, len(order), pool):
        members = order[start : start + pool]
        members = members[np.argsort(texts.lengths[members], kind="stable")]
        for batch in split_by_budget(texts.lengths[members], tokens_per_batch):
            draws.append(Draw(members[batch], fractions[members[batch]], seeds[members[batch]]))
    return [draws[i] for i in rng.permutation(len(draws))]


def test_one_canvas_a_text_draws_what_was_always_drawn():
    rng = np.random.default_rng(0)
    texts = TokenisedTexts([rng.integers(4, 100, size=rng.integers(1, 60)).tolist() for _ in range(800)])
    for before, now in zip(epoch_as_it_was(texts, 64, 3, 1, 0.7), training_epoch(texts, 64, 3, 1, 0.7), strict=True):
        for part in ("indices", "fractions", "seeds"):
            np.testing.assert_array_equal(getattr(before, part), getattr(now, part))


def test_several_canvases_of_a_text_stand_in_its_batch_and_differ():
    texts = TokenisedTexts([[5] * 8 for _ in range(50)])
    draws = training_epoch(texts, 64, 0, 0, canvases=4)
    assert Counter(i for draw in draws for i in draw.indices) == dict.fromkeys(range(50), 4)
    assert all(len(set(draw.indices)) == 2 for draw in draws)
    seeds = [seed for draw in draws for seed in draw.seeds]
    assert len(set(seeds)) == 200
    of_a_text = [f for draw in draws for i, f in zip(draw.indices, draw.fractions, strict=True) if i == draw.indices[0]]
    assert max(of_a_text[:4]) - min(of_a_text[:4]) > 0.5  # spread over t
    with pytest.raises(TrainingError, match="canvases must be at least 1"):
        TrainingConfig(canvases=0)


def test_a_stream_is_cut_elsewhere_in_every_epoch():
    stream = TokenStream([[5, 6, 7], [], [8, 9]], 3)
    assert stream.flat.tolist() == [5, 6, 7, EOS, EOS, 8, 9, EOS] and stream.tokens == 8
    firsts = set()
    for epoch in range(30):
        members = stream.of_epoch(seed=0, epoch=epoch)
        firsts.add(int(members[0]))
        assert np.concatenate([stream[i] for i in members]).tolist() == stream.flat[members[0] :].tolist()
        drawn = sorted(i for draw in training_epoch(stream, 6, 0, epoch) for i in draw.indices)
        assert drawn == members.tolist() == stream.of_epoch(seed=0, epoch=epoch).tolist()
    assert firsts == {0, 1, 2}
    tokens, lengths = stream.padded(np.array([1, 6]))
    assert lengths.tolist() == [3, 2] and tokens.tolist() == [[6, 7, EOS], [9, EOS, 0]]
    assert stream.fingerprint != TokenStream([[5, 6, 7], [], [8, 9]], 4).fingerprint


def test_sentences_go_to_their_ends_and_take_the_ends_of_lines_with_them():
    stop = 4
    stream = [5, 6, stop, 7, stop, EOS, EOS, 8, 9, EOS, stop, 5, 6, 7, 8, 9]
    assert sentence_lengths(stream, [stop], 10) == [3, 4, 3, 1, 5]
    assert sentence_lengths(stream, [], 10) == [7, 3, 6]
    assert sentence_lengths(stream, [], 3) == [3, 3, 1, 3, 3, 3]
    assert sentence_lengths([], [stop], 3) == []


def test_texts_in_context_come_after_what_stands_before_them():
    flat = np.array([5, 6, 7, EOS, EOS, 8, 9, EOS])
    texts = TokenisedTexts.flat_of(flat, [3, 3, 2], context=2)
    tokens, lengths = texts.padded(np.arange(3))
    assert texts.given(np.arange(3)).tolist() == [0, 2, 2] and texts.sizes.tolist() == lengths.tolist() == [3, 5, 4]
    read = [row[:length].tolist() for row, length in zip(tokens, lengths, strict=True)]
    assert read == [flat[:3].tolist(), flat[1:6].tolist(), flat[4:].tolist()]
    assert texts.tokens == 8  # the context is not counted again
    batch = Draw(np.array([0, 2]), np.zeros(2), np.zeros(2)).collate(texts)
    assert batch.given.tolist() == [0, 2] and batch.lengths.tolist() == [3, 4]
    for draws in (training_epoch(texts, 10, 0, 0), validation_epoch(texts, 10)):
        assert all(draw.collate(texts).tokens.numel() <= 10 for draw in draws)  # what is read counts
    many = TokenisedTexts.flat_of(np.full(2600, 5), [1, 25] * 100, context=20)
    drawn = [many.lengths[draw.indices].mean() for draw in training_epoch(many, 900, 0, 0)]
    assert len(drawn) == 10 and min(drawn) > 5 and max(drawn) < 21  # short and long ones together
    for part_of in (lambda: texts.some(0, 2), lambda: TokenisedTexts.joined([texts, texts])):
        with pytest.raises(BlankLMError, match="texts in context stand in one stream"):
            part_of()
    alone = TokenisedTexts.flat_of(flat, [3, 3, 2])
    assert alone.sizes.tolist() == alone.padded(np.arange(3))[1].tolist() == [3, 3, 2]
    assert Draw(np.array([0, 2]), np.zeros(2), np.zeros(2)).collate(alone).given is None
    assert texts.fingerprint != alone.fingerprint != TokenisedTexts.flat_of(flat, [3, 3, 2], context=1).fingerprint


def test_a_model_that_has_no_use_for_a_context_says_so(tmp_path):
    model, tokenizer = make(InsertionTransformer, 12), Tokenizer.train("word", ["a b c d e f g h i j"])
    chunks = TokenisedTexts.flat_of(np.array([5, 6, 7, 8, 9]), [2, 2, 1], context=2)
    with pytest.raises(TrainingError, match="InsertionTransformer has no use for a context"):
        train(model, tokenizer, chunks, chunks, TrainingConfig(steps=1), tmp_path / "run")


def test_a_softened_model_is_less_sure_of_words_and_of_nothing_else():
    blm = make_blm()  # one of its own: it is changed in place
    canvas, temperature = [BLANK, 5, BLANK, 6], 1.7
    before = score(blm, [canvas])
    pairs = torch.arange(2).repeat_interleave(12), torch.arange(12).repeat(2)
    before_sides = before.log_p_sides(*pairs)
    blm.apply_temperature(temperature)
    after = score(blm, [canvas])
    torch.testing.assert_close(after.log_p_word, (before.log_p_word / temperature).log_softmax(1))
    torch.testing.assert_close(after.log_p_blank, before.log_p_blank)
    torch.testing.assert_close(after.log_p_sides(*pairs), before_sides)
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(BlankLMError, match="a temperature is a number above 0"):
            blm.apply_temperature(wrong)


@torch.no_grad()
@pytest.mark.parametrize("kind", [InsertionTransformer, LeftToRight])
def test_softened_baselines(kind):
    model, temperature = make(kind, 12), 0.6
    z = torch.randn(5, 16)

    def read(model):
        vectors = model.slot_vectors(z, torch.arange(4)) if kind is InsertionTransformer else model.encoder.norm(z)
        return model.word_logits(vectors), model.slot_logits(vectors) if kind is InsertionTransformer else None

    words, slots = read(model)
    model.apply_temperature(temperature)
    softer, slots_after = read(model)
    torch.testing.assert_close(softer, words / temperature)
    torch.testing.assert_close(slots_after, slots)
