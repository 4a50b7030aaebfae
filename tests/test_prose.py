"""Prose repeats no measured number: it is rendered from results/, or it is not there."""

import re

import pytest

from blanklm.paper import render
from tests.support.paths import ROOT

HISTORY = ("log.md", "design.md")  # dated notes of what was measured before and on the way
DOCUMENTS = [path for path in render.documents() if path.name not in HISTORY]
# Decimals, shares, and whatever has a unit in which we measure.
NUMBER = re.compile(
    r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?"
    r"(?:\s?%|\s(?:%|(?:to|and)\s\d[\d,.]*\s)?(?:points?|times|ms|seconds?|s\b|minutes?|nats|BLEU|[KMG]B|faster|slower"
    r"|M\b|(?:tokens?|words?|characters?|token-orders|texts?|lines)(?:/s\b|\sper\ssecond)))"
    r"|(?<![\w.,-])\d+\.\d+(?![.\d]*\w)"
)
# What is no measurement: versions, licences, settings of the software, numbers of sections, what others published.
# A number in prose has to be rendered, or to stand in one of these, word for word.
KNOWN = """
Python 3.11 or 3.12 | about 1.3 GB, most of it | CC BY-SA 4.0 | CC BY-SA 3.0 | CC BY 4.0 | CC BY 3.0 | 
CC BY 2.0 FR | CDLA-Sharing 1.0 | Qwen 2, 2.5 and 3 | (Section 4.3 of the paper) | u^0.8 | u^0.4 | tokens^0.8 | 
p(n = 1) is at least 0.2 | adds 95 % intervals | Both have 95 % intervals | Intervals are 95 % |
probability of 0.9 | from 0.5 |
first restorations with 70% | 1 % (at least 50 | read all texts 30 times | with 30 % of the words hidden | 
(3.7 M parameters) | a model of 3.7 M parameters for tests | waits up to 10 ms |
the last 30 % of the training | 55 % of the canvases hide spans | 
on 30 % of those that hide spans | a learning rate of 0.002 | mix of 35.7 million words | 
1,000 GPUs fill 1,000 times as much | more than 80 M parameters | and 53 M characters of Greek literature | 
chance is 20 % | at least 80 % probable | shortest range with at least 80 % | CC BY-NC-SA 4.0
"""


def prose(text: str) -> str:
    """What is neither a table nor code, a link's target or a number that is rendered, on one line."""
    for passage in (
        r"^---\n.*?\n---\n",
        r"```.*?```",
        r"<!-- (?:table|number): .*?<!-- end -->",
        r"^\|.*?$",
        r"`[^`]*`",
    ):
        text = re.sub(passage, " ", text, flags=re.DOTALL | re.MULTILINE)
    return " ".join(re.sub(r"\]\([^)]*\)", "]", text).split())


def unknown_numbers(text: str) -> list[str]:
    """The numbers of a document's prose that look measured and are neither rendered nor known, with what is beside."""
    words = prose(text)
    for known in map(str.strip, " ".join(KNOWN.split()).split("|")):
        words = words.replace(known, " ")
    return [words[max(0, m.start() - 40) : m.end() + 20] for m in NUMBER.finditer(words)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_measured_number_is_written_by_hand(document):
    assert unknown_numbers(document.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "It is 7 to 9 points above the paper.",
        "That is 8 points better.",
        "The BLM has 84.6 BLEU.",
        "It fills 5 times as fast.",
        "5.0x padded, or 3.4 times.",
        "It writes 400,000 tokens per second.",
        "About 12 % of them fail.",
        "A fill takes 480 ms.",
        "The first fill takes three to 5 minutes.",
        "Each loses 0.07 nats.",
    ],
)
def test_a_sentence_with_a_number_of_its_own_is_noticed(sentence):
    document = "# Title\n\nSome words.\n\n" + sentence
    assert unknown_numbers(document) != [] and unknown_numbers("# Title\n\nSome words in Python 3.11 or 3.12.") == []


def test_numbers_in_prose_are_rendered():
    wrong = "It learnt for <!-- number: models/english training[steps]:, -->1<!-- end --> steps."
    right = render.rendered(wrong)
    assert right == wrong.replace(">1<", ">6,280<") and unknown_numbers(right) == [] and render.rendered(right) == right
    with pytest.raises(FileNotFoundError):
        render.rendered("<!-- number: models/nothing steps -->1<!-- end -->")
