"""Ten canvases filled in the ways of other kinds of models."""

import re

import pytest

from blanklm import Blank, BlankLM
from blanklm.core.template import Template
from blanklm.paper.tables import comparison
from tests.support.backbones import publish_tied
from tests.support.paths import YELP_WORDS

CANVASES = [{"id": 10, "text": "the ___ was ___ , but good ."}, {"id": 20, "text": "___[2] is ___[1-2] ."}]


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A tiny language model; it answers nothing sensible."""
    writer = comparison.Continuing.load(publish_tied(tmp_path_factory.mktemp("hub") / "llama", "llama"))
    writer.tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return writer


@pytest.mark.slow
def test_every_way_fills_every_canvas_and_keeps_what_was_given(writer):
    row = comparison.measure(BlankLM.from_pretrained(YELP_WORDS, device="cpu"), writer, CANVASES)
    assert [record["canvas"] for record in row["canvases"]] == [canvas["text"] for canvas in CANVASES]
    for record in row["canvases"]:
        fills, pieces = record["fills"], Template.parse(record["canvas"]).pieces
        assert set(fills) == {"blanklm", "mask", "diffusion", "continued", "chosen", "asked"}
        for way in fills.keys() - {"asked"}:
            pattern = r"\s*(.*?)\s*".join(re.escape(piece.strip()) for piece in pieces)
            assert re.fullmatch(pattern, fills[way]["text"]), (way, fills[way]["text"])
        assert [len(span.split()) for span in fills["mask"]["spans"]] == [1, 1]
        lengths = [[len(span.split()) for span in fills[way]["spans"]] for way in ("blanklm", "diffusion")]
        assert lengths[0] == lengths[1]


def test_the_text_after_a_blank_decides_among_samples_alone():
    class Parrot:
        """Knows two continuations, and likes the text in which "fed" follows "cat"."""

        def continuations(self, text, samples=0):
            return ["dog in the sun.", "cat, of course"][: max(1, samples)]

        def log_prob_per_token(self, text):
            return float("cat is fed" in text)

    templates = [Template.parse("The ___ is fed.")]
    assert comparison.left_to_right(Parrot(), templates)[0]["spans"] == ["dog in the sun"]
    assert comparison.left_to_right(Parrot(), templates, samples=2)[0] == {"text": "The cat is fed.", "spans": ["cat"]}


@pytest.mark.parametrize(
    ("words", "blank", "kept"),
    [
        (" a cat. It is", Blank(), "a cat"),
        (" a cat that I kn", Blank(), "a cat that I"),
        ('"Yes," he said', Blank(), '"Yes'),
        (" a cat that I know", Blank(1, 2), "a cat"),
        ("\n", Blank(), ""),
    ],
)
def test_a_continuation_ends_with_its_first_phrase(words, blank, kept):
    assert comparison.phrase(words, blank) == kept
