"""Spans hidden as people leave them blank, and what is counted of their fills."""

import json
import math

import pytest

from blanklm.core.canvas import Fill
from blanklm.core.template import Blank, Template
from blanklm.data import MaskedText
from blanklm.errors import DataError
from blanklm.paper.tasks.fluency import perplexity
from blanklm.paper.tasks.metrics import corpus_bleu
from blanklm.paper.tasks.spans import (
    KINDS,
    MOST_SPANS,
    echoes,
    evaluate_spans,
    hide_spans,
    hide_spans_of_corpus,
    score_spans,
    sentences,
)

TEXTS = [
    "The food was good, and the staff was friendly. We sat outside (by the river) for hours! Would I come back? Yes.",
    "On Friday Mr. Smith drove to the market in St. Ives; he bought apples, pears and some old books there.",
    "the room was clean . i will never come back to this place ! it is too far from the sea , sadly .",
    'She said: "We have no time." He waited at the door, and the rain began to fall on all of them, slowly.',
    "Ten words stand in this text, and no more do.",
    "It rains.",
]
SEEDS = range(30)


def masked_of(canvas, *spans):
    return MaskedText(Template.parse(canvas), spans)


def filled(masked, *spans):
    return Fill(masked.template.render(spans), spans, 0.0)


def cases(kind):
    found = [hide_spans(text, kind, seed) for text in TEXTS for seed in SEEDS]
    return [masked for masked in found if masked]


@pytest.mark.parametrize("kind", KINDS)
def test_the_original_is_hidden_in_one_to_three_blanks_of_any_length(kind):
    long = " ".join(TEXTS)
    for masked in (*cases(kind), *(hide_spans(long, kind, seed) for seed in SEEDS)):
        assert masked.text in (*TEXTS, long) and set(masked.template.blanks) == {Blank()}
        assert Template.parse(str(masked.template)) == masked.template
    assert {len(hide_spans(long, kind, seed).spans) for seed in SEEDS} == {1, 2, 3} and MOST_SPANS == 3


@pytest.mark.parametrize("kind", [1, 2, 3, 5, 8])
def test_each_span_is_k_whole_words_without_the_marks_after_the_last(kind):
    for masked in cases(kind):
        for number, span in enumerate(masked.spans):
            before, after = masked.template.pieces[number : number + 2]
            assert len(span.split()) == kind and span[-1].isalnum() and span == span.strip()
            assert not before or before[-1].isspace()
            assert not after or not after[0].isalnum()


def test_a_comma_after_the_span_is_given():
    canvases = {str(hide_spans("we had a dog, and a cat", 2, seed).template) for seed in range(60)}
    assert "we had ___, and a cat" in canvases and not any("___ and a cat" in canvas for canvas in canvases)


@pytest.mark.parametrize("kind", KINDS)
def test_spans_stand_apart_and_no_more_is_hidden_than_given(kind):
    for masked in cases(kind):
        for between in masked.template.pieces[1:-1]:
            words = between.split() if between[0].isspace() else between.split()[1:]  # without a mark that was left
            assert len(words) >= 2
        assert 2 * sum(len(span.split()) for span in masked.spans) <= len(masked.text.split())


def test_a_sentence_is_hidden_whole_with_its_mark():
    whole = {"The food was good, and the staff was friendly.", "We sat outside (by the river) for hours!"}
    whole |= {"Would I come back?", "Yes."}
    assert {span for seed in range(60) for span in hide_spans(TEXTS[0], "sentence", seed).spans} == whole
    assert hide_spans("There is only one sentence in this text.", "sentence") is None
    for seed in SEEDS:
        of_marks = hide_spans("So . . . . we left them there .", "sentence", seed)
        assert "." not in of_marks.spans  # marks alone are no sentence
        text = "She said that it was so. But then"  # what has no mark at its end is no sentence either
        assert hide_spans(text, "sentence", seed) is None
        assert hide_spans(f"It was so. {text}", "sentence", seed).spans == ("It was so.",)


def test_where_sentences_end():
    def cut(text):
        words = text.split()
        return [" ".join(words[start:end]) for start, end in sentences(words)]

    assert cut(TEXTS[1]) == [TEXTS[1]]  # abbreviations
    assert cut("it was clean . i left ! why , though") == ["it was clean .", "i left !", "why , though"]
    assert cut(TEXTS[3])[0] == 'She said: "We have no time."'
    assert cut("J. R. Brown etc. came. So did I. Then") == ["J. R. Brown etc. came.", "So did I.", "Then"]
    assert cut("It costs 3.5 dollars... or so. ") == ["It costs 3.5 dollars... or so."] and cut("") == []


def test_texts_too_short_for_a_kind_are_left_out_of_it():
    assert hide_spans("It rains.", 1) is not None and hide_spans("It rains.", 2) is None
    assert [len(hide_spans_of_corpus(TEXTS, kind)) for kind in (1, 2, 5, 8)] == [6, 5, 5, 4]
    assert hide_spans("", 1) is None and hide_spans(". . . .", 1) is None
    with pytest.raises(DataError, match="at least one word"):
        hide_spans("It rains.", 0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_hidden_depends_on_text_and_seed_alone(kind):
    alone = [hide_spans_of_corpus([text], kind, 1) for text in TEXTS]
    assert hide_spans_of_corpus(TEXTS[::-1], kind, 1) == [masked for found in alone[::-1] for masked in found]
    assert hide_spans_of_corpus(TEXTS, kind, 2) != hide_spans_of_corpus(TEXTS, kind, 1)


MASKED = [
    masked_of("The ___, and the staff ___ friendly.", "food was good", "was very"),
    masked_of("I will ___ to this place!", "never come back"),
    masked_of("Ask ___ at the door.", "him again"),
]
FILLS = [
    filled(MASKED[0], "food was great", "was"),
    filled(MASKED[1], "always happily come back"),
    Fill("Ask at the door.", ("",), 0.0),  # wrong: the blank is empty
]


def test_lengths_and_failures_are_counted_per_blank_and_per_text():
    row = score_spans(MASKED, FILLS)
    assert row["texts"] == 3 and row["blanks"] == 4 and row["failure_rate"] == pytest.approx(1 / 3)
    assert row["hidden"] == pytest.approx(8 / 3) and row["written"] == pytest.approx(8 / 3)  # of fills that are valid
    assert row["exact"] == pytest.approx(1 / 3) and row["length_error"] == pytest.approx(2 / 3)
    longer = score_spans(MASKED[1:2], FILLS[1:2])
    assert longer["written_to_hidden"] == pytest.approx(4 / 3) and longer["exact"] == 0


def test_bleu_is_that_of_the_corpus():
    originals = [masked.text for masked in MASKED]
    assert score_spans(MASKED, FILLS)["bleu"] == pytest.approx(corpus_bleu([fill.text for fill in FILLS], originals))
    short = masked_of("I ___ to it", "came back")
    bleu = score_spans([short], [filled(short, "went")])["bleu"]  # smoothed: no four words in a row are right
    assert bleu == pytest.approx(corpus_bleu(["I went to it"], [short.text])) and bleu > 0
    perfect = [filled(masked, *masked.spans) for masked in MASKED]
    assert score_spans(MASKED, perfect)["bleu"] == pytest.approx(100)


def test_distinct_words_are_counted_whatever_their_case_and_marks():
    masked = [masked_of("___ is here.", "the man"), masked_of("here is ___", "the woman .")]
    row = score_spans(masked, [filled(masked[0], "The food,"), filled(masked[1], "food food !")])
    assert row["distinct"] == pytest.approx(2 / 4) and row["hidden_distinct"] == pytest.approx(3 / 4)


@pytest.mark.parametrize(
    ("canvas", "hidden", "written", "count"),
    [
        ("the food was ___ and we left", "fine", "food", 1),
        ("the food was ___ and we left", "fine", '"Food,"', 1),  # case and marks do not matter
        ("the food was ___ and we left", "fine", "good", 0),
        ("the food was ___ and we left", "fine", "we", 0),  # a short word
        ("the food was ___ and we left", "food", "food", 0),  # so it is in the original
        ("food a b c d e ___ and we left", "fine", "food", 1),  # six words
        ("food a b c d e f ___ and we left", "fine", "food", 0),  # seven
        ("we left ___ a b c d e food", "fine", "food", 1),
        ("we left ___ then", "very soon", "quite quite", 2),
        ("we left ___ and ___ today", "soon", "later", 2),
        ("food food ___ left", "they", "soon", 0),  # what is given is no fault of the fill
    ],
)
def test_an_echo_is_a_long_written_word_near_itself_where_the_original_has_none(canvas, hidden, written, count):
    template = Template.parse(canvas)
    masked = MaskedText(template, (hidden,) * len(template.blanks))
    if len(template.blanks) == 2:
        masked = MaskedText(template, (hidden, "here"))
    fill = filled(masked, *(written,) * len(template.blanks))
    assert echoes(masked, fill) == count
    assert score_spans([masked], [fill])["echoes"] == pytest.approx(count / len(" ".join(fill.spans).split()))


def test_intervals_hold_the_value_and_narrow_with_more_texts():
    few, many = score_spans(MASKED * 4, FILLS * 4), score_spans(MASKED * 64, FILLS * 64)
    for name, (low, high) in few["intervals"].items():
        assert low <= few[name] <= high and few[name] == pytest.approx(many[name])
    low, high = many["intervals"]["failure_rate"]
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(1 / 3 * 2 / 3 / 192), rel=0.1)  # of a proportion
    assert high - low < few["intervals"]["failure_rate"][1] - few["intervals"]["failure_rate"][0]
    assert score_spans(MASKED, FILLS) == score_spans(MASKED, FILLS)


class Echo:
    """A system that writes the same words into each blank, and remembers what it was asked."""

    def __init__(self, words="one two"):
        self.words, self.asked = words, []

    def fill(self, texts, progress=None, **options):
        self.asked.append((list(texts), options))
        templates = [Template.parse(text) for text in texts]
        if progress:
            progress(len(texts))
        return [Fill(t.render([self.words] * len(t.blanks)), (self.words,) * len(t.blanks), 0.0) for t in templates]


class Judge:
    """Gives every word one nat, and counts what it is asked."""

    def __init__(self):
        self.judged = []

    def log_prob(self, texts):
        self.judged += texts
        return [-float(len(text.split())) for text in texts]


def test_every_kind_is_filled_and_reported_ready_for_json():
    system, judge, done = Echo(), Judge(), []
    report = evaluate_spans(system, TEXTS, seed=3, progress=done.append, judge=judge, beam=2)
    assert list(report) == ["1", "2", "3", "5", "8", "sentence"] and json.loads(json.dumps(report)) == report
    assert report["2"]["exact"] == 1 and report["3"]["length_error"] == 1 and report["2"]["failure_rate"] == 0
    assert all(options == {"beam": 2} for _, options in system.asked)
    assert system.asked[0][0] == [str(masked.template) for masked in hide_spans_of_corpus(TEXTS, 1, 3)]
    assert sum(done) == len(TEXTS) * len(KINDS)
    originals = [masked.text for masked in hide_spans_of_corpus(TEXTS, 8, 3)]
    assert report["8"]["original_perplexity"] == pytest.approx(perplexity(Judge(), originals))
    fills = [fill.text for fill in Echo().fill(system.asked[4][0])]
    assert report["8"]["perplexity"] == pytest.approx(perplexity(Judge(), fills))
    assert len(judge.judged) == len(set(judge.judged))  # the originals once


def test_a_kind_that_no_text_is_long_enough_for_has_a_row_without_numbers():
    for judge in (None, Judge()):
        report = evaluate_spans(Echo(), ["It rains."], kinds=[1, 8], judge=judge)
        assert report["1"]["texts"] == 1 and report["8"]["texts"] == 0 and report["8"]["bleu"] is None
        assert json.loads(json.dumps(report)) == report


def test_an_oracle_is_told_what_is_hidden():
    class Oracle(Echo):
        oracle = True

        def fill(self, texts, hidden, progress=None):
            return [Fill(Template.parse(t).render(h), tuple(h), 0.0) for t, h in zip(texts, hidden, strict=True)]

    report = evaluate_spans(Oracle(), TEXTS)
    assert all(row["bleu"] == pytest.approx(100) and row["exact"] == 1 for row in report.values())
