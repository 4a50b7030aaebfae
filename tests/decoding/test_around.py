"""What the text around a blank says of what is written there: line ends, sentences, quotation marks."""

import pytest
import torch

from blanklm.core.template import Template
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.around import SENTENCE_ENDS, Quotes, as_one_line, for_sentences, quotes
from blanklm.decoding.fill import fill
from blanklm.decoding.options import FillOptions
from blanklm.decoding.request import Request
from tests.support.canvases import sample
from tests.support.models import make_span_blm

BPE = Tokenizer.train("bpe", ["the quick brown fox jumps over the lazy dog again and again"] * 9, vocabulary=290)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Spring ___[1]\na frog jumps into ___\nthen silence", "Spring ___[1], a frog jumps into ___, then silence"),
        ("the calm shore,\n___ once more", "the calm shore, ___ once more"),
        ("Dear Anna,\n\n___\n\nYours,\nKate", "Dear Anna, ___ Yours, Kate"),
        ("Shopping\n___\n___\neggs", "Shopping, ___, ___, eggs"),
        ("one \n two ___, three\n", "one two ___, three"),
        ("\n___\n", "___"),
        ("two  spaces ___ stay", "two  spaces ___ stay"),
    ],
)
def test_a_line_end_beside_a_blank_is_read_as_a_comma_where_no_mark_says_otherwise(written, read):
    assert str(as_one_line(Template.parse(written))) == read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The door opened. ___ Nobody was hurt.", [True]),
        ("“Go,” he said. ___ “All right.”", [True]),
        ("It rained. ___", [True]),
        ("Dear Anna,\n\n___\n\nYours,", [True]),
        ("___ Street is closed.", [False]),  # a name as well as a sentence
        ("Ask Dr. ___ Smith. She left. ___ Smith stayed.", [False, True]),
        ("It rained. ___ I stayed.", [False]),  # "So I stayed."
        ("It rained. ___, but we went.", [False]),
        ("It rained. ___.", [False]),
        ("It rained ___ We went.", [False]),
        ("It rained. ___ ___ We went.", [False, False]),
    ],
)
def test_a_blank_between_sentences_stands_for_a_sentence(text, expected):
    assert for_sentences(Template.parse(text)) == expected


def test_quotation_marks_that_are_in_order_stay_so():
    def of(text):
        return quotes(Template.parse(text))

    assert of('He called it "the ___" (or ___).') == [Quotes.NONE, Quotes.EVEN]
    assert of('She said, "___') == [Quotes.ANY]
    assert of("no ___ at all") == [Quotes.EVEN]


def fills_of(text, *tokens, bias=40.0):
    """Some fills and samples of a model that likes to write these tokens."""
    model = make_span_blm(vocabulary=len(BPE), seed=5, spans=1.0)
    with torch.no_grad():
        for token in tokens:
            model.word_bias[BPE.encode(token)[0]] += bias
    request = Request.parse(text, None, BPE, max_length=200)
    drafts = [*fill(model, [request], FillOptions(n=3))[0], *sample(model, [request], None, n=5)[0]]
    return [request.to_fill(draft) for draft in drafts]


def test_what_stands_for_a_sentence_ends_as_sentences_do():
    for filled in fills_of("The fox jumps. ___[1-4] The dog.", "."):
        assert filled.spans[0].rstrip("\"'”’)]»").endswith(SENTENCE_ENDS), filled.text
        assert len(filled.spans[0].split()) > 1
    assert all(len(filled.spans[0].split()) == 1 for filled in fills_of("The fox jumps. ___[1] The dog."))


def test_no_quotation_marks_are_written_into_a_quotation_and_an_even_number_elsewhere():
    inside, outside = fills_of('he said "the ___[1-3] dog"', '"'), fills_of("the ___[1-3] dog", '"')
    assert not any('"' in filled.spans[0] for filled in inside)
    assert any('"' in filled.spans[0] for filled in outside)
    assert all(filled.spans[0].count('"') % 2 == 0 for filled in outside)


def test_two_blanks_of_a_text_do_not_hold_the_same():
    for filled in fills_of("the ___ dog and the ___ fox", " again"):
        assert " again" in f" {filled.spans[0]} {filled.spans[1]}"
        assert filled.spans[0] != filled.spans[1]


def test_what_was_given_comes_back_as_it_was():
    for filled in fills_of("the fox\n___\n\n  the dog ___\nand so"):
        assert filled.text == "the fox\n{}\n\n  the dog {}\nand so".format(*filled.spans)
        assert not any(span != span.strip() for span in filled.spans)
