"""The infilling task: one scorer for every system that can fill."""

import pytest

from blanklm.canvas import Fill, Template
from blanklm.data import mask_corpus
from blanklm.tasks.infilling import evaluate

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
