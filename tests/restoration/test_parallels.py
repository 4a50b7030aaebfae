"""Parallels: the longest agreement comes first, and only whole words agree."""

import json
import lzma

import pytest

from blanklm.paper.bundled import formulae
from blanklm.restoration.parallels import Formulae, Parallel, Parallels, TrainingTexts, records
from blanklm.restoration.proposals import FORMULAE, Index

TEXTS = [
    ("A", "iovi optimo maximo votum solvit libens merito"),
    ("B", "deae votum solvit libens laetus"),
    ("C", "mercurio votum solvit"),
    ("D", "iovi optimo maximo votum solvit libens merito"),
    ("E", "votum solvit- libens # merito"),
]


def stretches(found):
    return [(parallel.words, parallel.texts, parallel.examples) for parallel in found]


def test_the_text_that_agrees_furthest_comes_first():
    found = TrainingTexts(TEXTS).find("Iovi Optimo Maximo votum sol", "vit li", "bens merito")
    assert stretches(found) == [
        ("iovi optimo maximo votum solvit libens merito", 2, ("A", "D")),
        ("votum solvit libens", 1, ("B",)),
    ]
    assert (found[1].before, found[1].behind) == ("deae", "laetus")


@pytest.mark.parametrize(
    ("before", "restored", "behind"),
    [
        ("votum sol", "vi", " libens"),  # no such word
        ("votum sol", "vit", "-libens"),  # the word goes on, nobody knows how
        ("votum ", "   ", " libens"),
        ("votum ", "", " libens"),
        ("x ", "libens", " y"),  # a word alone speaks for nothing
        ("votum ", "d", " libens"),
    ],
)
def test_where_there_is_no_parallel_none_is_found(before, restored, behind):
    assert TrainingTexts(TEXTS).find(before, restored, behind) == []


def test_no_more_than_asked_for():
    assert len(TrainingTexts(TEXTS).find("votum ", "solvit", " libens", most=1)) == 1
    assert TrainingTexts([]).find("votum ", "solvit", " libens") == []


def test_formulae_are_runs_of_words_in_several_texts():
    found = formulae.formulae(TEXTS)
    assert found == {"votum solvit": (4, ["A", "B", "C"]), "votum solvit libens": (3, ["A", "B", "D"])}
    index = Formulae(Index({words: (texts, tuple(names)) for words, (texts, names) in found.items()}))
    assert index.find("votum sol", "vit", " libens merito") == [Parallel("votum solvit libens", 3, ("A", "B", "D"))]
    assert index.find("votum sol", "vit", " laetus") == [Parallel("votum solvit", 4, ("A", "B", "C"))]
    assert index.find("x ", "libens", " merito") == []


def test_a_run_that_is_only_a_part_of_a_longer_one_is_left_out():
    texts = [(str(number), "a b c d" if number < 3 else "b c") for number in range(4)]
    assert formulae.formulae(texts) == {"a b c d": (3, ["0", "1", "2"]), "b c": (4, ["0", "1", "2"])}


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path))
    Parallels.of.cache_clear()
    yield tmp_path
    Parallels.of.cache_clear()


def test_the_corpus_is_searched_where_it_is_at_hand_and_the_index_where_not(corpus, monkeypatch):
    assert isinstance(Parallels.of("latin"), Formulae)
    Parallels.of.cache_clear()
    (corpus / "edh_latin").mkdir()
    rows = [{"id": name, "norm": text.replace("vit", "[vit]")} for name, text in TEXTS]
    (corpus / "edh_latin" / "train.jsonl.xz").write_bytes(lzma.compress("\n".join(map(json.dumps, rows)).encode()))
    assert isinstance(Parallels.of("latin"), TrainingTexts)
    assert Parallels.of("latin").find("deae votum ", "solvit", " libens")[0].words == "deae votum solvit libens"


def test_names_of_texts(corpus):
    (corpus / "greek_documentary").mkdir()
    rows = [
        {"id": "edh:HD000001", "norm": "α"},
        {"id": "iip:caes0001", "norm": "α"},
        {"source": "iphi", "place": "Attica", "date": "-400±5", "norm": "α"},
        {"source": "papyri", "place": "unspecified subregion", "norm": "[α]β"},
    ]
    path = corpus / "greek_documentary" / "train.jsonl.xz"
    path.write_bytes(lzma.compress("\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()))
    names, texts = zip(*records("greek"), strict=True)
    assert names == ("HD000001", "iip caes0001", "I.PHI, Attica, -400±5", "papyri.info") and texts[-1] == "αβ"


def test_the_index_that_comes_with_the_package(corpus):
    for language, phrase in (("latin", "votum solvit libens merito"), ("greek", "τηι βουληι και τωι δημωι")):
        index = Parallels.of(language)
        assert isinstance(index, Formulae) and len(index.formulae) > 1000
        words = phrase.split()
        found = index.find(f"{words[0]} {words[1]} ", words[2], " " + " ".join(words[3:]))
        assert found and words[2] in found[0].words.split() and found[0].texts >= formulae.LEAST and found[0].examples
    assert sum(path.stat().st_size for path in FORMULAE.iterdir()) < 1_000_000
