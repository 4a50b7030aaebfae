"""Texts in capitals are filled in small letters, and come back in capitals."""

import pytest

from blanklm.api import BlankLM
from blanklm.core.template import Template
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.capitals import in_capitals, in_small_letters
from tests.support.models import make_span_blm


@pytest.mark.parametrize(
    ("text", "capitals"),
    [
        ("FIREFIGHTERS RESCUE ___ FROM ___", True),
        ('"WHERE ARE YOU?" ___', True),
        ("ΠΥΡΟΣΒΕΣΤΕΣ ΣΩΖΟΥΝ ___", True),
        ("FIREFIGHTERS Rescue ___", False),
        ("I ___", False),
        ("NASA ___ ESA", False),
        ("UNCHARACTERISTICALLY ___", False),  # one word
        ("東京東京東京 東京東京東京 ___", False),  # letters without capitals
        ("12,345,678.90 1234567890 ___", False),
    ],
)
def test_a_text_is_in_capitals_if_all_its_letters_are_and_they_are_many(text, capitals):
    assert in_capitals(Template.parse(text)) is capitals


def test_small_letters_keep_the_capitals_of_sentences_and_of_i():
    template = Template.parse('"WHERE ARE YOU?" ___ SHE SAID. I\'M ___! (NOBODY KNOWS.) ___ IS IT I?')
    assert str(in_small_letters(template)) == ('"Where are you?" ___ she said. I\'m ___! (Nobody knows.) ___ is it I?')


@pytest.fixture(scope="module")
def model() -> BlankLM:
    lines = ["The food was good and the service was great.", "It was bad, and I was sad."] * 9
    tokenizer = Tokenizer.train("bpe", lines, vocabulary=330)
    model = make_span_blm(vocabulary=len(tokenizer))
    model.set_vocabulary(tokenizer)
    return BlankLM(model, tokenizer)


def test_a_text_in_capitals_is_filled_as_its_small_letters_are(model):
    small, capitals = (
        model.fill(text, n=3) for text in ("The food was ___ and ___[2].", "THE FOOD WAS ___ AND ___[2].")
    )
    assert [fill.text for fill in capitals.ranked] == [fill.text.upper() for fill in small.ranked]
    assert [fill.log_prob for fill in capitals.ranked] == [fill.log_prob for fill in small.ranked]
    assert "".join(span.upper() for span in small.spans) == "".join(capitals.spans)
    canvases = [str(canvas) for canvas in capitals.trajectory.canvases]
    assert all(canvas == canvas.upper() for canvas in canvases) and canvases[-1] == capitals.text
    samples = model.sample("THE FOOD WAS ___ AND ___.", n=3)
    assert all(fill.text == fill.text.upper() for fill in samples)


def test_constraints_hold_in_capitals_whatever_case_they_are_written_in(model):
    text = "THE FOOD WAS ___ AND ___."
    assert "GOOD" in model.fill(text, constraints=[{"require": ["GOOD"]}, {}]).spans[0].split()
    assert model.fill(text, constraints=[{"only": ["GREAT", "Bad"], "max": 1}, {}]).spans[0] in ("GREAT", "BAD")
    first = model.fill("THE FOOD WAS ___[1] AND GOOD.").spans[0]
    assert model.fill("THE FOOD WAS ___[1] AND GOOD.", constraints={"ban": [first.title()]}).spans[0] != first
