"""Every recipe runs from corpus to result, on a few lines and a few steps."""

import json
import tarfile
from dataclasses import replace
from functools import partial

import pytest
import torch

from blanklm import BlankLM
from blanklm.baselines import Infiller, LanguageModel
from blanklm.models.encoder import EncoderConfig
from blanklm.recipes import (
    english,
    english_backbone,
    english_baselines,
    greek,
    latin,
    restoration,
    restorers,
    yelp_words,
)
from blanklm.recipes.clock import encode_characters, pieces_of, snippets
from blanklm.restoring import Gap, Restorer
from blanklm.tokenizer import Tokenizer
from tests.test_backbone import publish

TINY = EncoderConfig(1, 2, 16, 32, dropout=0.0)
LINES = ["The food was really good, and we liked it.", "I will never come back to this place!", "It was fine."] * 20


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """A data root with a few lines in place of every file that the recipes read."""
    files = [f"yelp/{split}.{side}" for split in ("train", "valid") for side in (0, 1)]
    files += [f"english/{part}.txt" for part in (*english.PARTS, "valid")]
    for name in files:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(LINES), encoding="utf-8")
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path / "data"))


def few(training):
    return replace(training, steps=4, tokens_per_batch=512, warmup=1, evaluate_every=2, save_every=4, log_every=1)


def test_yelp_words(corpora, tmp_path, monkeypatch):
    monkeypatch.setattr(yelp_words, "MODEL", TINY)
    monkeypatch.setattr(yelp_words, "SENTENCES", 2)
    monkeypatch.setattr(yelp_words, "DECODINGS", {"greedy": {"constraints": {"max": 3}}})
    result = yelp_words.main(tmp_path / "out", few(yelp_words.TRAINING))
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == result
    assert set(result["valid_bleu"]) == {"no infill", "greedy"}
    assert BlankLM.from_pretrained(tmp_path / "out" / "model", device="cpu").fill("it ___[1] .").spans[0]


def test_english(corpora, tmp_path, monkeypatch):
    monkeypatch.setattr(english, "MODEL", TINY)
    monkeypatch.setattr(english, "VOCABULARY", 300)
    monkeypatch.setattr(english, "DECODINGS", {"greedy": {"constraints": {"max": 2}}})
    result = english.main(tmp_path / "out", few(english.TRAINING))
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == result
    assert result["valid_bleu"]["greedy"]["0.3"]["failure_rate"] == 0
    model = BlankLM.from_pretrained(tmp_path / "out" / "run", device="cpu")
    fill = model.fill("I went to ___[1], then (___[2])!")
    assert fill.text == "I went to {}, then ({})!".format(*fill.spans)
    assert model.model.edges.any() and model.score("It was fine.", orders=2).log_prob < 0


@pytest.mark.parametrize("name", english_baselines.MODELS)
def test_english_baselines(corpora, tmp_path, monkeypatch, capsys, name):
    monkeypatch.setattr(english, "MODEL", TINY)
    monkeypatch.setattr(english, "VOCABULARY", 300)
    monkeypatch.setattr(english, "MAX_LENGTH", 64)
    result = english_baselines.main(tmp_path / "out", name, few(english.TRAINING))
    assert json.loads((tmp_path / "out" / name / "result.json").read_text()) == result
    assert f"{name} step 4: loss" in capsys.readouterr().out
    if name == "lm":
        judge = LanguageModel.from_pretrained(tmp_path / "out" / name / "run", device="cpu")
        assert judge.log_prob(["It was fine."])[0] < 0
        return
    system = Infiller.from_pretrained(tmp_path / "out" / name / "run", device="cpu")
    assert torch.equal(system.model.starts_word, torch.from_numpy(system.tokenizer.starts_word))
    (fill,) = system.fill(["I went to ___, then (___)!"], **({"hidden": [["Rome", "home"]]} if system.oracle else {}))
    assert fill.text == "I went to {}, then ({})!".format(*fill.spans)


def test_english_backbone(corpora, tmp_path, monkeypatch):
    monkeypatch.setattr(english, "VOCABULARY", 300)
    result = english_backbone.main(
        tmp_path / "out", str(publish(tmp_path / "bert", "bert")), few(english_backbone.TRAINING)
    )
    assert json.loads((tmp_path / "out" / "backbone" / "result.json").read_text()) == result
    model = BlankLM.from_pretrained(tmp_path / "out" / "backbone" / "run", device="cpu")
    assert model.tokenizer.kind == "bpe" and model.model.config.whole_words and model.model.edges.any()


GREEK = ["αγαθηι τυχηι εδοξεν τηι βουληι και τωι δημωι -- #", "διονυσιοσ ανηρ αγαθοσ ων διατελει περι τον δημον"] * 8
LATIN = ["dis manibus sacrum # vixit nnos xx et nnis ii", "iulia pia hic sita est sit tibi terra levis bene"] * 8


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A data root with a few damaged texts, small models, and a moment to train them in."""
    files = {f"greek_documentary/{split}.txt": GREEK for split in ("train", "valid", "test")}
    files |= {"greek_literature/perseus.txt": GREEK, "edh_latin/train.txt": LATIN, "edh_latin/valid.txt": LATIN}
    files["edh_latin/test.txt"] = [text.replace("sacrum", "sacris") for text in LATIN]
    files["edh_latin/test.marked.txt"] = ["dis [man]ibus [sacrum aeternae memoriae]", "[#] iuli[a] pia"]
    files["greek_documentary/test.jsonl"] = [json.dumps({"norm": "αγ[αθηι] τυχηι"}, ensure_ascii=False)]
    item = ["3", "Ἀγαθῆι τ", "ύχη", "ι ἔδοξεν"]
    files["greek_documentary/phi_ml_test_excerpts.tsv"] = [
        "gap_len\tleft\ttarget\tright\tother",
        "\t".join([*item, "υχη"]),
    ]
    files["greek_documentary/restoration_pap_text_ups.tsv"] = ["gap_len\tleft\ttarget\tright", "\t".join(item)]
    for name, lines in files.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path / "data"))
    for module in (greek, latin):
        training = replace(module.RECIPE.training, tokens_per_batch=512, warmup=1, log_every=1, evaluate_every=50)
        monkeypatch.setattr(module, "RECIPE", replace(module.RECIPE, encoder=TINY, words=8, training=training))
    monkeypatch.setattr(restoration, "SMALL", TINY)
    monkeypatch.setattr(restoration, "TEXTS", 2)
    monkeypatch.setattr(restorers, "PYTHIA_WORDS", 8)
    small = partial(restorers.PythiaConfig, embedding=8, width=8)
    monkeypatch.setattr(restorers, "PythiaConfig", small)


@pytest.mark.parametrize("part", restoration.PARTS)
def test_restoration(damaged, tmp_path, capsys, part):
    restoration.run_part(part, tmp_path / "work", seconds=0.3)
    result = json.loads((tmp_path / "work" / part / "result.json").read_text())
    measured = {name: value for name, value in result.items() if name in restoration.evaluations(part)}
    assert measured and not any("error" in value for value in measured.values()), measured
    assert all(0 <= value["cer"] <= 1000 and value["gaps"] for value in measured.values())
    assert result["training"]["steps"] >= 1 and result["valid_bound"] > 0
    (tmp_path / "out").mkdir()
    restoration.pack(tmp_path / "out", tmp_path / "work")
    with tarfile.open(tmp_path / "out" / "results.tar.gz") as archive:
        assert f"{part}/result.json" in archive.getnames()
    assert f"{part}: " in restoration.summary(tmp_path / "work")
    if part in ("greek", "latin"):
        assert measured["editors"]["gaps"] and (tmp_path / "out" / f"{part}.tar").exists()
        assert (
            len(Restorer.from_pretrained(tmp_path / "work" / part / "model", device="cpu").fill([["α", Gap(2, 2)]]))
            == 1
        )


def test_latin_words_without_their_first_letter_are_repaired():
    assert latin.repaired("vixit nnos xx annis nnorum connos nnum") == "vixit annos xx annis annorum connos nnum"


def test_texts_are_cut_without_loss():
    text = "αγαθηι τυχηι εδοξεν τηι βουληι και τωι δημωι " * 9
    pieces = pieces_of([text, "---"], 100)
    assert all(len(piece) <= 100 for piece in pieces) and " ".join(pieces).split() == text.split()
    cut = snippets([text], 10, 60, seed=1)
    assert "".join(cut) == text and all(len(piece) <= 60 for piece in cut)
    tokenizer = Tokenizer.train("character", [text])
    encoded = encode_characters([text, "xα"], tokenizer)
    assert [encoded[i].tolist() for i in range(2)] == tokenizer.encode_many([text, "xα"])
