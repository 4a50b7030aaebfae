"""The infilling task: one scorer for every system that can fill."""

import math

import numpy as np
import pytest

from blanklm.core.canvas import Fill
from blanklm.core.template import Template
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.paper.tasks.infilling import evaluate, failure, fills_of, in_pieces, score
from blanklm.paper.tasks.masking import mask_corpus, no_infill, read_masks, write_masks
from blanklm.paper.tasks.metrics import bleu_interval, corpus_bleu
from tests.support.oracles import slow_bleu
from tests.support.paths import FIXTURES

SENTENCES = FIXTURES / "yelp_test.txt"
PAPER = {0.1: 75.2, 0.2: 55.0, 0.3: 37.4, 0.4: 23.6, 0.5: 13.0}  # Table 1, "No infill"

TEXTS = ["the food was really good and the staff was friendly .", "i will never come back to this place !"] * 5


class Oracle:
    """Fills each blank with what was hidden, or with whatever it is told."""

    def __init__(self, seed, change=lambda spans: spans):
        self.seed, self.change = seed, change

    def fill(self, texts, progress=None, ratio=0.3):
        hidden = {str(m.template): m.spans for m in mask_corpus(TEXTS, ratio, self.seed)}
        fills = []
        for text in texts:
            spans = self.change(hidden[text])
            fills.append(Fill(Template.parse(text).render(spans), tuple(spans), 0.0))
        return fills


def test_putting_back_what_was_hidden_is_perfect():
    (report,) = evaluate(Oracle(seed=1), TEXTS, ratios=[0.3], seed=1).values()
    assert report["bleu"] == pytest.approx(100.0) and report["failure_rate"] == 0 and report["length_error"] == 0
    assert report["no_infill_bleu"] < 60 and report["texts"] == 10 and report["words_per_second"] > 0


def test_length_errors_are_counted_per_blank():
    (report,) = evaluate(Oracle(1, lambda spans: [span + " x" for span in spans]), TEXTS, ratios=[0.3], seed=1).values()
    assert report["length_error"] == 1.0 and report["bleu"] < 90


def test_an_empty_span_or_a_changed_text_is_a_failure():
    class Losing(Oracle):
        def fill(self, texts, progress=None):
            fills = super().fill(texts)
            fills[0] = Fill("something else", fills[0].spans, 0.0)
            fills[1] = Fill(fills[1].text, ("", *fills[1].spans[1:]), 0.0)
            return fills

    (report,) = evaluate(Losing(1), TEXTS, ratios=[0.3], seed=1).values()
    assert report["failure_rate"] == pytest.approx(0.2)


@pytest.mark.parametrize("kind", ["word", "bpe"])
@pytest.mark.parametrize("ratio", [0.02, 0.3, 0.9, 1.0])
def test_a_long_text_is_filled_in_pieces_and_scored_whole(kind, ratio):
    text = "  ".join(" ".join(TEXTS[:2]) for _ in range(20)) + "\t"
    tokenizer = Tokenizer.train(kind, TEXTS, vocabulary=400)
    (masked,) = mask_corpus([text], ratio, 0)
    pieces = in_pieces(masked, tokenizer, 60)
    assert "".join(piece.text for piece in pieces) == text
    assert [span for piece in pieces for span in piece.spans] == list(masked.spans)
    sizes = [len(tokenizer.encode(piece.text)) for piece in pieces]
    alone = [len(piece.spans) == 1 and not "".join(piece.template.pieces).strip() for piece in pieces]
    assert all(size <= 60 or is_alone for size, is_alone in zip(sizes, alone, strict=True))
    assert in_pieces(masked, tokenizer, 10_000) == [masked]
    if ratio == 0.3:  # there are spaces between given words enough
        assert len(pieces) < 3 * sum(sizes) / 60
        assert all(piece.template.pieces[0].strip() for piece in pieces[1:])

    class Reader:
        longest = 60

        def fill(self, texts, progress=None):
            spans = [piece.spans for piece in pieces if piece.spans]
            progress(len(texts))
            return [Fill(Template.parse(t).render(s), s, -1.0) for t, s in zip(texts, spans, strict=True)]

    system = Reader()
    system.tokenizer, done = tokenizer, []
    (fill,) = fills_of(system, [masked], progress=done.append)
    assert fill.text == text and fill.spans == masked.spans and failure(masked, fill) is None
    assert sum(done) == pytest.approx(1)


def test_failures_are_told_apart_by_what_became_of_the_given_words():
    (masked,) = mask_corpus(["when time flies , where does it go ?"], 0.3, 3)
    spans = tuple("x" for _ in masked.spans)
    good = masked.template.render(spans)
    kinds = {
        good: None,
        good + " and": "wrong_blanks",  # words where there was no blank
        no_infill(masked): "wrong_blanks",  # blanks left empty
        good.replace(no_infill(masked).split()[2], "y"): "lost_words",
        " ".join(reversed(good.split())): "lost_words",
    }
    fills = [Fill(text, spans if kind is None else ("",) * len(spans), 0.0) for text, kind in kinds.items()]
    assert [failure(masked, fill) for fill in fills] == list(kinds.values())
    report = score([masked] * 5, fills)
    assert (report["failure_rate"], report["lost_words"], report["wrong_blanks"]) == (0.8, 0.4, 0.4)
    assert report["length_error"] == score([masked], fills[:1])["length_error"]  # of the valid one alone


def test_masks_come_back_from_their_file(tmp_path):
    masked = mask_corpus([*TEXTS, "a \\___ of its own \u2028 ___ here"], 0.4, 0)
    write_masks(tmp_path / "masks" / "test.jsonl", masked)
    assert read_masks(tmp_path / "masks" / "test.jsonl") == masked


def test_the_no_infill_row_of_real_sentences():
    """ceil(r n) words hidden, and the BLEU of what is left as its definition says."""
    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()
    assert len(sentences) == 200
    for ratio in PAPER:
        masked = mask_corpus(sentences, ratio, 0)
        bare = [no_infill(m) for m in masked]
        assert [len(text.split()) - len(b.split()) for text, b in zip(sentences, bare, strict=True)] == [
            math.ceil(round(ratio * len(text.split()), 9)) for text in sentences
        ]
        assert corpus_bleu(bare, sentences) == pytest.approx(slow_bleu(bare, sentences), abs=1e-6)


def test_the_interval_of_bleu_is_that_of_bleu_over_texts_drawn_again():
    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()
    bare = [no_infill(m) for m in mask_corpus(sentences, 0.1, 0)]
    low, high = bleu_interval(bare, sentences, resamples=200)
    rng, drawn = np.random.default_rng(0), []
    for places in rng.integers(200, size=(200, 200)):
        drawn.append(corpus_bleu([bare[i] for i in places], [sentences[i] for i in places]))
    assert [low, high] == pytest.approx([np.quantile(drawn, 0.025), np.quantile(drawn, 0.975)])
    assert low < corpus_bleu(bare, sentences) < high
    assert bleu_interval(sentences, sentences, resamples=5) == pytest.approx([100, 100])


@pytest.mark.usefixtures("corpora")
@pytest.mark.slow
def test_the_no_infill_row_of_the_paper():
    documents = list(read_corpus("yahoo", "test"))
    for ratio, expected in PAPER.items():
        masked = mask_corpus(documents, ratio, 0)
        assert corpus_bleu([no_infill(m) for m in masked], documents) == pytest.approx(expected, abs=0.3), ratio
