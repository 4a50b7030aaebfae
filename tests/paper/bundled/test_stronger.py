"""The recipe of stronger restorers: what it reads, and what it leaves out."""

import json

import pytest

from blanklm.core.template import Blank
from blanklm.paper.bundled import stronger
from blanklm.paper.bundled.characters import without_held_out
from blanklm.restoration.restorer import Restorer
from blanklm.training.checkpoint import load

GREEK = ["αγαθηι τυχηι εδοξεν τηι βουληι", "και τωι δημωι", "διονυσιοσ ειπεν επειδη"]


def test_what_is_held_out_and_what_stands_twice_is_left_out_by_its_letters():
    texts = ["και τωι. δημωι", "ο δημοσ", "αγαθηι τυχηι", "οδη-μοσ", "χαιρε"]
    assert without_held_out(texts, ["καιτωι δημωι", "χαιρε και συ"]) == ["ο δημοσ", "αγαθηι τυχηι", "χαιρε"]


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    files = {f"greek_documentary/{split}.txt": [GREEK[i]] * 3 for i, split in enumerate(("train", "valid", "test"))}
    files |= {
        "greek_literature/perseus.txt": [GREEK[0] + " χαιρε", GREEK[2]],
        "greek_literature/first1k.txt": GREEK[1:2],
    }
    more = {"papygreek": "χαιρε [και] συ", "crete": "νομοσ", "igcyr": "ιεροσ", "iospe": "αρχων"}
    rows = [json.dumps({"source": source, "norm": text}, ensure_ascii=False) for source, text in more.items()]
    files["greek_more/train.jsonl"] = rows
    files |= {
        "edh_latin/train.txt": ["vixit nnos xx"],
        "edh_latin/valid.txt": ["dis manibus"],
        "edh_latin/test.txt": [],
    }
    files |= {
        "latin_literature/perseus.txt": ["arma virumque cano"],
        "edcs_latin/train.txt": ["dis. manibus", "hic situs"],
    }
    for name, lines in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path))


def test_only_what_may_be_shared_is_read(corpora):
    made = stronger.corpus("greek")
    read = "\n".join(made.texts)
    assert {GREEK[0] + " χαιρε", GREEK[0], "χαιρε και συ"} <= set(made.texts)
    assert made.dropped == 4  # two repeats, two held-out texts
    assert not any(text in read for text in ("νομοσ", "ιεροσ", "αρχων", *GREEK[1:]))


def test_edcs_is_read_only_when_it_is_asked_for(corpora):
    assert "hic situs" not in stronger.corpus("latin").texts
    made = stronger.corpus("latin", edcs=True)
    assert {"hic situs", "vixit annos xx"} <= set(made.texts) and made.dropped == 1


@pytest.mark.slow
def test_the_recipe_makes_a_model_of_few_bits(corpora, tmp_path):
    made = stronger.recipe("greek", tiny=True)
    result = made.make(tmp_path / "out", stronger.corpus("greek", tiny=True), 1.0, 2, lambda line: None)
    assert result["texts_dropped"] == 4 and load(tmp_path / "out" / "model").model.config.max_length == 768
    restorer = Restorer.from_pretrained(tmp_path / "out" / "model", device="cpu")
    assert len(restorer.fill([["αγαθ", Blank(2, 2)]])[0][0]) == 2
