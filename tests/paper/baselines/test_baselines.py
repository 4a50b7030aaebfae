"""The models the BLM is compared with, against slow and obvious versions of themselves."""

import math
import random
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch

from blanklm import BlankLM
from blanklm.core.conceal import conceal
from blanklm.core.packing import Packing
from blanklm.core.special import BLANK, EOS, SPECIAL_TOKENS
from blanklm.core.texts import Batch, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.data.masking import mask_words
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.baselines.left_to_right import LeftToRight
from blanklm.paper.baselines.masked import ORDERS, Masked
from blanklm.paper.baselines.predictor import LATER, CanvasIds, PredictorConfig
from blanklm.paper.baselines.slot_insertion import SlotInsertion
from blanklm.paper.baselines.systems import Infiller, LanguageModel, not_writable
from blanklm.paper.baselines.training_masks import LEAST, MOST, draw_hidden, hide_words, words_between_spaces
from blanklm.paper.tasks.fluency import perplexity
from blanklm.paper.tasks.infilling import evaluate
from blanklm.training import checkpoint
from tests.support.baselines import LINES, allow_all, batch_of, make, random_texts


@torch.inference_mode()
def log_p(model, sequence, place):
    """[V] the log-probabilities of the token at a place, from one sequence read alone."""
    z = model.encoder(model.embedding(torch.tensor(sequence)), Packing.of(torch.tensor([len(sequence)]), len(sequence)))
    return model.word_logits(z[place]).log_softmax(-1)


def log_p_of_continuation(model, known, continuation):
    return sum(float(log_p(model, [*known, *continuation[:i]], -1)[token]) for i, token in enumerate(continuation))


# --- Left to right ----------------------------------------------------------------------------------------------


def test_left_to_right_log_p_is_that_of_each_token_after_those_before_it():
    model, texts = make(LeftToRight), [*random_texts(20), []]
    slow = [log_p_of_continuation(model, [EOS], [*text, EOS]) for text in texts]
    np.testing.assert_allclose(model.log_prob(texts, tokens_per_batch=30), slow, rtol=1e-4)
    losses = model.loss(model.prepare(batch_of(texts[:-1]))).detach()
    np.testing.assert_allclose(losses, [-total for total in slow[:-1]], rtol=1e-4)


def test_what_follows_a_prefix_sums_to_one():
    """So that the probabilities of all texts do, <eos> being what ends one."""
    model = make(LeftToRight)
    assert log_p(model, [EOS, 5, 6], -1).exp().sum() == pytest.approx(1.0, abs=1e-5)
    assert log_p(model, [EOS, 5, 6], -1)[BLANK] == -math.inf


def test_fluency_is_perplexity_per_word_whatever_the_tokens():
    class Judge:
        def log_prob(self, texts):
            return [-math.log(10) * (len(text.split()) + 1) for text in texts]

    assert perplexity(Judge(), ["a bb ccc", "d"]) == pytest.approx(10)
    tokenizer = Tokenizer.train("bpe", LINES, vocabulary=280)
    judge = LanguageModel(make(LeftToRight, len(tokenizer)), tokenizer)
    expected = -sum(judge.model.log_prob(tokenizer.encode_many(LINES))) / (9 + 8 + 3 + 3)
    assert math.log(perplexity(judge, LINES)) == pytest.approx(expected)


@pytest.mark.parametrize("kind", [LeftToRight, Masked])
def test_sequences_laid_into_rows_have_the_same_loss(kind):
    """As they are on a GPU."""
    model, batch = make(kind), batch_of(random_texts(30))
    end_to_end = model.loss(model.prepare(batch))
    in_rows = model.prepare(replace(batch, for_gpu=True))
    assert in_rows.packing.row == 64
    torch.testing.assert_close(model.loss(in_rows), end_to_end, atol=1e-4, rtol=1e-4)


# --- What is hidden ---------------------------------------------------------------------------------------------


def test_whole_words_are_hidden_as_many_as_the_protocol_says():
    starts_word = torch.arange(12) % 2 == 0
    texts = random_texts(300)
    batch = batch_of(texts)
    word, hidden = words_between_spaces(batch.tokens, starts_word), draw_hidden(batch, starts_word)
    for row, text in enumerate(texts):
        words = [0]
        for token in text[1:]:
            words.append(words[-1] + (token % 2 == 0))
        assert word[row, : len(text)].tolist() == words
        hidden_words = {w for w, is_hidden in zip(words, hidden[row].tolist(), strict=False) if is_hidden}
        assert hidden[row].tolist() == [i < len(text) and words[i] in hidden_words for i in range(hidden.shape[1])]
        share = LEAST + (MOST - LEAST) * float(batch.fractions[row])
        assert len(hidden_words) == math.ceil(share * (words[-1] + 1))
        alone = Batch(*(part[row : row + 1] for part in (batch.tokens, batch.lengths, batch.fractions, batch.seeds)))
        assert torch.equal(draw_hidden(alone, starts_word)[0], hidden[row])


def test_every_choice_of_words_is_equally_likely():
    draws = 20_000
    word = torch.tensor([[0, 0, 1, 2]]).expand(draws, 4)
    hidden = hide_words(word, torch.full((draws,), 4), torch.full((draws,), 0.4), torch.arange(draws))
    choices, counts = hidden.unique(dim=0, return_counts=True)
    assert sorted(choices.int().tolist()) == [[0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]
    np.testing.assert_allclose(counts / draws, 1 / 3, atol=0.017)  # about five standard deviations


def test_training_canvases_are_those_of_the_evaluation():
    """Words hidden as tokens, and words hidden as text and then turned into tokens, give the same canvas."""
    tokenizer = Tokenizer.train("bpe", LINES, vocabulary=300)
    starts_word = torch.from_numpy(tokenizer.starts_word)
    for seed in range(40):
        text = LINES[seed % 3]
        masked = mask_words(text, 0.4, random.Random(seed))
        ids, spaces = tokenizer.encode_template(masked.template)
        tokens, lengths = pad([tokenizer.encode(text)])
        word = words_between_spaces(tokens, starts_word)[0]
        kept = {i for i, w in enumerate(_word_shown(masked, text)) if w}
        shown = torch.tensor([[int(w) in kept for w in word]])
        concealed = conceal(tokens, lengths, shown)
        assert concealed.canvas[0, : concealed.lengths[0]].tolist() == ids
        spans = tokenizer.encode_many([" " * space + s for s, space in zip(masked.spans, spaces, strict=True)])
        assert tokens[0][concealed.hidden[0]].tolist() == [token for span in spans for token in span]


def _word_shown(masked, text):
    """For each word of the text, whether it is on the canvas."""
    shown = [len(masked.template.pieces[0].split()) * [True]]
    for span, piece in zip(masked.spans, masked.template.pieces[1:], strict=True):
        shown += [len(span.split()) * [False], len(piece.split()) * [True]]
    flags = [flag for part in shown for flag in part]
    assert len(flags) == len(text.split())
    return flags


def unfilled(count, longest=9):
    rng = random.Random(1)
    texts = [
        [BLANK if rng.random() < 0.4 else token for token in text] for text in random_texts(count, longest=longest)
    ]
    some = [ids for ids in texts if BLANK in ids and set(ids) != {BLANK}]  # places of a mere run of masks are alike
    return [CanvasIds(ids, [rng.random() < 0.5 for _ in range(ids.count(BLANK))]) for ids in some]


# --- Masked -------------------------------------------------------------------------------------------------------


def test_masked_loss_is_that_of_each_hidden_token_from_what_is_shown():
    model, texts = make(Masked), random_texts(30)
    batch = batch_of(texts)
    losses = model.loss(model.prepare(batch)).detach()
    hidden = draw_hidden(batch, model.starts_word)
    for row, text in enumerate(texts):
        canvas = [BLANK if hidden[row, i] else token for i, token in enumerate(text)]
        slow = sum(float(log_p(model, canvas, i)[text[i]]) for i in range(len(text)) if hidden[row, i])
        assert float(losses[row]) == pytest.approx(-slow, rel=1e-4)


@pytest.mark.parametrize("order", ORDERS)
def test_masked_writes_the_given_number_of_tokens_in_the_given_order(order):
    model, rng = make(Masked), random.Random(2)
    bans = allow_all(model)
    bans[0, 4::2] = bans[1, 5::2] = -torch.inf
    canvases = [CanvasIds(c.ids, c.spaces, [rng.randrange(1, 4) for _ in c.spaces]) for c in unfilled(30)]
    for canvas, written in zip(canvases, model.write(canvases, bans, order), strict=True):
        assert [len(span) for span in written.spans] == canvas.lengths
        lengths, spaces = iter(canvas.lengths), iter(canvas.spaces)
        runs = [[BLANK] * next(lengths) if i == BLANK else [i] for i in canvas.ids]
        kinds = [[int(next(spaces)), *[LATER] * (len(run) - 1)] if run[0] == BLANK else [LATER] for run in runs]
        text, kinds = list(chain(*runs)), list(chain(*kinds))
        total = 0.0
        while BLANK in text:
            places = [i for i, token in enumerate(text) if token == BLANK]
            best = {i: (log_p(model, text, i) + bans[kinds[i]]).max(0) for i in places}
            if order == "left-to-right":
                places = places[:1]
            if order == "confident":
                places = [max(places, key=lambda i: best[i].values)]
            for i in places:
                text[i], total = int(best[i].indices), total + float(best[i].values)
        filled = [token for run, span in zip(runs, _in_place(canvas, written), strict=True) for token in (span or run)]
        assert filled == text
        assert written.log_prob == pytest.approx(total, rel=1e-4, abs=1e-5)


def _in_place(canvas, written):
    """For each symbol of the canvas, the span written there, if it is a blank."""
    spans = iter(written.spans)
    return [next(spans) if i == BLANK else None for i in canvas.ids]


def test_a_toy_corpus_is_learnt_by_heart(tmp_path):
    lines = ["the cat sat on the mat", "a dog ran to the park with me", "we ate cold soup at noon"]
    tokenizer = Tokenizer.train("word", lines)
    torch.manual_seed(0)
    model = Masked(PredictorConfig(len(tokenizer), EncoderConfig(2, 2, 32, 64, dropout=0.0)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    texts = tokenizer.encode_many(lines) * 8
    for step in range(400):
        fractions = torch.rand(len(texts), dtype=torch.double)
        loss = model.loss(model.prepare(Batch(*pad(texts), fractions, torch.arange(len(texts)) + 100 * step))).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    checkpoint.save(tmp_path, model, tokenizer)
    report = evaluate(Infiller.from_pretrained(tmp_path, device="cpu"), lines, ratios=[0.3])
    assert report["0.3"]["bleu"] == pytest.approx(100)
    with pytest.raises(BlankLMError, match="does not fill blanks"):
        BlankLM.from_pretrained(tmp_path)
    with pytest.raises(BlankLMError, match=r"no log_prob\(\)"):
        LanguageModel.from_pretrained(tmp_path)


def test_an_unknown_order_is_refused():
    with pytest.raises(BlankLMError, match="one-shot"):
        make(Masked).write([CanvasIds([BLANK], [False], [1])], torch.zeros(3, 12), order="best")


# --- As systems that fill text ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_masked_model_is_evaluated_like_any_system(kind):
    tokenizer = Tokenizer.train(kind, LINES, vocabulary=300)
    model = make(Masked, len(tokenizer), max_length=60)
    seen = []
    report = evaluate(Infiller(model, tokenizer), LINES * 3, ratios=[0.2, 0.5], progress=seen.append)
    assert [row["failure_rate"] for row in report.values()] == [0, 0] and sum(seen) == 18
    if kind == "word":
        assert [row["length_error"] for row in report.values()] == [0, 0]
    assert not_writable(tokenizer).isinf()[:, : len(SPECIAL_TOKENS)].all()


def test_a_judge_adds_fluency_to_the_report():
    tokenizer = Tokenizer.train("bpe", LINES, vocabulary=300)
    judge = LanguageModel(make(LeftToRight, len(tokenizer)), tokenizer)
    system = Infiller(make(Masked, len(tokenizer)), tokenizer)
    (row,) = evaluate(system, LINES, ratios=[0.5], judge=judge, order="one-shot").values()
    assert row["original_perplexity"] == pytest.approx(perplexity(judge, LINES))
    assert row["perplexity"] != row["original_perplexity"]


def test_what_a_system_cannot_take_is_one_clear_error():
    tokenizer = Tokenizer.train("bpe", LINES, vocabulary=300)
    kinds = SlotInsertion, Masked
    inserting, masked = (Infiller(make(kind, len(tokenizer), max_length=5), tokenizer) for kind in kinds)
    with pytest.raises(BlankLMError, match="must be told"):
        masked.fill(["It ___ fine."])
    with pytest.raises(BlankLMError, match="is not told"):
        inserting.fill(["It ___ fine."], hidden=[["was"]])
    with pytest.raises(BlankLMError, match="at most 5"):
        inserting.fill(["I will never come back to ___"])
    with pytest.raises(BlankLMError, match="no blank"):
        inserting.fill(["It was"])
    with pytest.raises(BlankLMError, match="unknown length"):
        inserting.fill(["It ___[2]"])
