"""Reading what people write takes time in proportion to its length, whatever they write."""

import gc
import time
from collections.abc import Callable

import pytest

from blanklm.choosing.question import _whole_texts
from blanklm.core.template import LONGEST_TEXT, Template
from blanklm.decoding.constraint import LONGEST_WORD, Constraint
from blanklm.errors import BlankLMError, CanvasError, ConstraintError
from blanklm.repairing.lexicon import Lexicon
from blanklm.repairing.proposals import Proposer
from blanklm.repairing.repair import locked
from blanklm.repairing.units import units_of
from blanklm.restoration.notation import parse

TIMES = 8  # how much longer the longer text is; its reading may take three times as much again


def seconds(read: Callable[[str], object], text: str) -> float:
    """Return the least of several measurements, since the machine may be busy."""
    taken = []
    gc.collect()
    gc.disable()  # which has a growth of its own
    for _ in range(3):
        started = time.process_time()
        try:
            read(text)
        except BlankLMError as error:
            assert "\n" not in str(error) and len(str(error)) < 400
        taken.append(time.process_time() - started)
    gc.enable()
    return min(taken)


def assert_linear(read: Callable[[str], object], text_of: Callable[[int], str], size: int) -> None:
    short, long = (seconds(read, text_of(n)) for n in (size, TIMES * size))
    assert long < 3 * TIMES * max(short, 0.002)


def written_again(text: str) -> str:
    return str(Template.parse(text))


@pytest.mark.parametrize(
    "part",
    [r"\___[", r"\\___", "\\", "_", "___ ", "___[3] ", "a\n___[3]", "___[1-]", r"___\[", "___[", "___[3-    "],
)
def test_the_blank_syntax_is_read_in_linear_time(part):
    assert_linear(written_again, lambda n: part * n, 2_000)


@pytest.mark.parametrize("end", [" ", " b", "\n", "b"])
def test_whole_texts_to_choose_among_are_compared_in_linear_time(end):
    assert_linear(lambda text: _whole_texts([text, "a b"]), lambda n: "a" + end * n, 2_000)


def test_words_to_keep_are_found_in_linear_time():
    assert_linear(lambda text: locked(text, units_of(text), ["a"] * 20), lambda n: "a " * n, 200)


def test_a_word_without_end_is_looked_at_in_linear_time():
    lexicon = Lexicon({word: (word, 9000) for word in ("ab", "abab")})

    def proposals(text):
        return list(Proposer(text, units_of(text), lexicon, [False]).around(0, [[], []]))

    assert_linear(proposals, lambda n: "ab" * n, 2_000)
    assert [p.text for p in proposals("ababab") if p.rule == "space"] == ["ab abab", "abab ab"]


def test_a_length_of_many_spaces_is_read_in_linear_time():
    assert_linear(written_again, lambda n: "___[3-" + " " * n + "x]", 10_000)


@pytest.mark.parametrize(
    "part",
    [
        "[(",
        "([",
        "{a}",
        "[.",
        "[...]",
        "[c. 5]",
        "<a=b>",
        "(---)",
        "vac. ",
        "- ",
        "+ ",
        "a-\n",
        "1 a\n",
        " \u0323",
        "|",
    ],
)
@pytest.mark.parametrize("close", ["", "]"])
def test_leiden_notation_is_read_in_linear_time(part, close):
    assert_linear(lambda text: parse(text, "leiden"), lambda n: part * n + close, 3_000)


@pytest.mark.parametrize(
    "part",
    [
        "<a>",
        "<gap/>",
        '<gap quantity="3"/>',
        "<lb/>",
        "<div>a</div>",
        "<note>a</note>",
        "<!--",
        "&amp;",
        "<",
        "<gap a='",
    ],
)
def test_epidoc_is_read_in_linear_time(part):
    assert_linear(lambda text: parse(text, "epidoc"), lambda n: f"<ab>{part * n}</ab>", 2_000)


def test_longer_texts_and_words_than_anybody_writes_are_refused_in_one_line():
    with pytest.raises(CanvasError, match="at most 1,000,000 are read: split it"):
        Template.parse("a" * (LONGEST_TEXT + 1))
    for name in ("ban", "only"):
        with pytest.raises(ConstraintError, match="at most 200 are allowed"):
            Constraint(**{name: ["a" * (LONGEST_WORD + 1)]})
    with pytest.raises(ConstraintError, match="at most 2,000 are allowed"):
        Constraint(require=["a " * 2000])
