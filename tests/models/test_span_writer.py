"""A BLM that writes spans from left to right: what it is told, and that each word knows all that stands before it."""

import math

import numpy as np
import pytest
import torch

from blanklm.core.conceal import conceal
from blanklm.core.special import BLANK
from blanklm.core.texts import Batch, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.core.writing import END
from blanklm.models import span_writer
from blanklm.models.int8 import to_int8
from blanklm.models.llama import LlamaConfig
from blanklm.models.span_blm import LENGTH_WEIGHT, SPAN, SPAN_OF
from blanklm.models.span_writer import WORD_WEIGHT
from blanklm.training import checkpoint
from tests.support.models import make_span_writer

TEXT = [5, 20, 6, 21, 22, 7, 23, 8]  # 20 and above begin words
REGION = [1, 2, 3, 6]
LLAMA = LlamaConfig(2, heads=4, key_value_heads=2, width=32, head_width=8, feedforward=48, longest=512)


@pytest.fixture
def writer(monkeypatch):
    region = torch.zeros(1, len(TEXT), dtype=torch.bool)
    region[0, REGION] = True
    monkeypatch.setattr(span_writer, "draw_regions", lambda tokens, *rest: region.expand(len(tokens), -1))
    model = make_span_writer(vocabulary=30, written=1.0)
    model.starts_word[:20] = False
    return model


def batch_of(*texts, seeds=None):
    tokens, lengths = pad(list(texts))
    return Batch(tokens, lengths, torch.linspace(0, 0.9, len(texts)), seeds or torch.arange(len(texts)))


@pytest.mark.parametrize("told", [True, False])
def test_a_span_is_told_its_words_and_then_how_many_are_left(writer, monkeypatch, told):
    monkeypatch.setattr(span_writer, "UNTOLD", 0.0 if told else 1.0)
    monkeypatch.setattr(span_writer, "TOLD", 1.0)
    targets = writer.prepare_written(batch_of(TEXT))
    symbols = targets.writings.symbols.tolist()
    assert symbols == [5, BLANK, 22, 7, BLANK, 8, BLANK, 20, 6, 21, BLANK, 23]
    canvas = [0, SPAN, 0, 0, SPAN, 0]
    if told:
        assert targets.kinds.tolist() == [*canvas, *(SPAN_OF + n for n in (2, 1, 1, 0, 1, 0))]
    else:
        assert targets.kinds.tolist() == [*canvas, SPAN, 0, 0, 0, SPAN, 0]
    assert targets.words.tolist() == [2, 1]
    assert targets.asked.tolist() == ([0.0, 0.0] if told else [0.5, 0.5])
    assert targets.writings.target.tolist() == [20, 6, 21, END, 23, END]


def test_the_loss_is_that_of_its_words_and_of_the_lengths_it_is_not_told(writer, monkeypatch):
    monkeypatch.setattr(span_writer, "UNTOLD", 1.0)
    targets = writer.prepare(batch_of(TEXT))
    with torch.inference_mode():
        z = writer.read(targets.written)
        log_p = writer.word_logits(z).log_softmax(1)
        log_p_length = writer.length_of_blank(z).log_softmax(1)
        words = [(6, 20), (7, 6), (8, 21), (9, END), (10, 23), (11, END)]
        expected = -WORD_WEIGHT * sum(log_p[at, token] for at, token in words)
        expected -= LENGTH_WEIGHT * len(TEXT) * (log_p_length[6, 2] + log_p_length[10, 1]) / 2
        torch.testing.assert_close(writer.loss(targets), expected[None])


def test_what_comes_later_changes_nothing_before_it(writer):
    other = [token + 1 if i in (3, 6) else token for i, token in enumerate(TEXT)]  # the end of one span, and the next
    with torch.inference_mode():
        first, second = (writer.read(writer.prepare_written(batch_of(text))) for text in (TEXT, other))
    same = (first - second).abs().amax(1) < 1e-5
    assert same.tolist() == [True] * 9 + [False] * 3


def test_the_texts_that_are_written_and_the_others_have_the_losses_they_have_alone():
    model = make_span_writer(vocabulary=30, written=0.5)
    texts = [np.random.default_rng(seed).integers(4, 30, 3 + seed % 9).tolist() for seed in range(40)]
    batch = batch_of(*texts)
    with torch.inference_mode():
        targets = model.prepare(batch)
        assert 10 < int(targets.is_written.sum()) < 30
        losses = model.loss(targets)
        for b, text in enumerate(texts):
            alone = Batch(*pad([text]), batch.fractions[b : b + 1], batch.seeds[b : b + 1])
            prepared = model.prepare(alone)
            assert (prepared.drawn is None) == bool(targets.is_written[b])
            torch.testing.assert_close(model.loss(prepared)[0], losses[b], rtol=1e-4, atol=1e-4)
    assert all(math.isfinite(loss) for loss in losses.tolist())


def test_it_is_saved_as_what_it_is(tmp_path):
    tokenizer = Tokenizer.train("word", ["one two three four"])
    model = make_span_writer(vocabulary=len(tokenizer), written=0.25)
    checkpoint.save(tmp_path / "model", model, tokenizer, {})
    loaded = checkpoint.load(tmp_path / "model").model
    assert isinstance(loaded, span_writer.SpanWriter) and loaded.config == model.config


@pytest.mark.parametrize("in_int8", [False, True])
@pytest.mark.parametrize("encoder", [None, LLAMA])
def test_pages_that_are_written_symbol_by_symbol_are_read_as_one_sequence(monkeypatch, encoder, in_int8):
    texts = [[5, 20, 6, 21, 22, 7, 23, 8], [20, 21, 22, 5, 6], [23, 24, 5]]
    hidden = [[1, 2, 3, 6], [0, 4], [1]]
    regions = torch.zeros(3, 8, dtype=torch.bool)
    for region, places in zip(regions, hidden, strict=True):
        region[places] = True
    monkeypatch.setattr(span_writer, "draw_regions", lambda *rest: regions)
    model = make_span_writer(vocabulary=30, written=1.0, encoder=encoder)
    model.starts_word[:20] = False
    if in_int8:
        to_int8(model)
    targets = model.prepare_written(batch_of(*texts))
    writings = targets.writings
    with torch.inference_mode():
        z = model.read(targets)[writings.predicts]
        expected = model.word_logits(z).log_softmax(1)  # [S, V]
        lengths = model.length_of_blank(z).log_softmax(1)
    concealed = conceal(*pad(texts), ~regions)
    pages = model.open_pages(concealed.canvas, concealed.lengths, int(concealed.lengths.max()))
    symbols, kinds = writings.symbols[writings.predicts].tolist(), targets.kinds[writings.predicts].tolist()
    of = writings.text.tolist()
    rows = {b: [s for s in range(len(of)) if of[s] == b] for b in range(3)}
    for step in range(max(map(len, rows.values()))):  # the pages of different lengths together
        at = {b: own[step] for b, own in rows.items() if step < len(own)}
        told = [kinds[s] - SPAN_OF if kinds[s] >= SPAN_OF else -1 for s in at.values()]
        scores = model.write([pages[b] for b in at], [symbols[s] for s in at.values()], told)
        for r, (b, s) in enumerate(at.items()):
            torch.testing.assert_close(scores.log_p[r], expected[s], rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(scores.log_p_length[r], lengths[s], rtol=1e-4, atol=1e-4)
            pages[b] = scores.pages[r]


def test_pages_go_on_from_one_canvas_in_different_ways(writer):
    canvas = torch.tensor([[5, BLANK, 22, 7, BLANK, 8]])
    (page,) = writer.open_pages(canvas, torch.tensor([6]), 6)
    begun = writer.write([page, page], [BLANK, BLANK], [2, -1]).pages
    together = writer.write([begun[0], begun[1], begun[0]], [20, 21, 23], [1, -1, 1])
    for r, (before, symbol, told) in enumerate([(begun[0], 20, 1), (begun[1], 21, -1), (begun[0], 23, 1)]):
        alone = writer.write([before], [symbol], [told])
        torch.testing.assert_close(together.log_p[r], alone.log_p[0])
