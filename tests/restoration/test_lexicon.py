"""The lexicon of a corpus, and how it reranks restorations."""

import lzma
import math

import pytest

from blanklm.core.template import Blank
from blanklm.errors import CheckpointError
from blanklm.restoration.lexicon import LEXICON, PAIR_WEIGHT, UNKNOWN_WORD_COST, Lexicon
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.restorer import Restorer
from blanklm.training import checkpoint
from tests.support.models import make_restorer

TEXTS = ["ανηρ καλοσ και αγαθοσ", "καλοσ και -- νοσ", "και αγαθοσ. ανηρ"]


@pytest.fixture
def lexicon():
    return Lexicon.of(TEXTS, least=1, least_pairs=2)


def test_words_and_pairs_are_counted_by_text_and_lost_letters_are_none(lexicon):
    assert lexicon.words == {"ανηρ", "καλοσ", "και", "αγαθοσ", "νοσ"}
    assert lexicon.pairs == {"καλοσ και": 2}
    assert Lexicon.of(TEXTS, least=2, least_pairs=1).words == {"ανηρ", "καλοσ", "και"}


@pytest.mark.parametrize(
    ("before", "restored", "behind", "unknown", "pairs"),
    [
        ("ο ανηρ κα", "λοσ", " και αγαθοσ", 0, 1),
        ("ο ανηρ κα", "μοσ", " και αγαθοσ", 1, 0),
        ("ο ανηρ κα", "λοσ κ", "αι αγαθοσ", 0, 1),
        ("ο ανηρ ", "οσ και", " αγαθοσ", 1, 0),
        ("ο ανηρ κ-", "μοσ", " και αγαθοσ", 0, 0),  # a word with a lost letter says nothing
        ("κα", "μοσ", " και αγαθοσ", 0, 0),  # nor does one that the edge of the text may have cut
        ("ο ανηρ ", "καμοσ", "", 0, 0),
        ("ο ανηρ ", "καμοσ ", "", 1, 0),  # a space ends it, so it is whole
        ("", " καμοσ", " και", 1, 0),
        ("ο ανηρ ", "καμοσ. ", "και αγαθοσ", 1, 0),
        ("ο ανηρ ", "ην . ", "και αγαθοσ", 1, 0),
        ("ο ανηρ ", "καλοσ ", "και αγαθοσ", 0, 1),
        ("", "ο", "", 0, 0),
    ],
)
def test_known_words_and_pairs_that_touch_the_gap_score_a_restoration(
    lexicon, before, restored, behind, unknown, pairs
):
    expected = PAIR_WEIGHT * pairs * math.log1p(2) - UNKNOWN_WORD_COST * unknown
    assert lexicon.score(before, restored, behind) == pytest.approx(expected)


def test_a_folder_keeps_them(lexicon, tmp_path):
    assert Lexicon.load(tmp_path) is None
    lexicon.save(tmp_path)
    assert Lexicon.load(tmp_path) == lexicon


@pytest.mark.parametrize(
    "damaged",
    [
        lzma.compress("λογοσ\nο λογοσ\t7".encode())[:-9],
        lzma.compress("ο λογοσ\tπολλα".encode()),
        lzma.compress("ο λογοσ\t-5".encode()),
        lzma.compress(b"\xff\xfe"),
        lzma.compress(b"\n" * (2**26 + 1)),  # a few kilobytes that would fill a memory
        b"no archive",
    ],
)
def test_a_damaged_file_is_refused(tmp_path, damaged):
    (tmp_path / LEXICON).write_bytes(damaged)
    with pytest.raises(CheckpointError, match=r"words\.tsv\.xz is damaged"):
        Lexicon.load(tmp_path)


def test_what_is_made_of_known_words_gains_what_the_others_lose():
    restorer, document = make_restorer(), ["αγαθη ", Blank(2, 2), " τυχη"]
    (plain,) = restorer.rank([document])[0]
    known = [c.text for c in plain if " " not in c.text][-1]  # not the most probable one
    taught = Restorer(restorer.model, restorer.tokenizer, lexicon=Lexicon(frozenset({known}), {}))
    (ranked,) = taught.rank([document])[0]
    before, after = ({c.text: c.log_prob for c in candidates} for candidates in (plain, ranked))
    assert set(after) == set(before)
    assert sum(map(math.exp, after.values())) == pytest.approx(sum(map(math.exp, before.values())))
    others = [text for text in before if text.strip() not in ("", known)]
    gains = {text: after[text] - before[text] for text in before}
    assert [gains[known] - gains[text] for text in others] == pytest.approx([UNKNOWN_WORD_COST] * len(others))
    options = RestoreOptions(count="characters")
    assert [c.text for c in taught.restore(document, options).gaps[0].candidates] == [c.text for c in ranked]


def test_a_model_folder_brings_its_words_along(tmp_path, lexicon):
    restorer = make_restorer()
    checkpoint.save(tmp_path, restorer.model, restorer.tokenizer, restorer.about)
    assert Restorer.from_pretrained(tmp_path, device="cpu").lexicon is None
    lexicon.save(tmp_path)
    assert Restorer.from_pretrained(tmp_path, device="cpu").lexicon == lexicon


def test_a_gap_of_unknown_length_is_reranked_by_the_lexicon_too():
    restorer, document = make_restorer(), ["αγαθη ", Blank(2, 3), " τυχη"]
    (plain,) = restorer.restore(document).gaps
    known = [c.text for c in plain.candidates if " " not in c.text][-1]
    taught = Restorer(restorer.model, restorer.tokenizer, lexicon=Lexicon(frozenset({known}), {}))
    (ranked,) = taught.restore(document).gaps
    before, after = ({c.text: c.log_prob for c in gap.candidates} for gap in (plain, ranked))
    assert after[known] > before[known]
    assert sum(map(math.exp, after.values())) == pytest.approx(sum(map(math.exp, before.values())))
