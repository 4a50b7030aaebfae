"""The recipes of restoration run from corpus to result, on a few texts and for a moment."""

import json
from dataclasses import replace
from functools import partial

import pytest

from blanklm.core.template import Blank
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.encoder import EncoderConfig
from blanklm.paper import runner
from blanklm.paper.bundled import greek, latin, restorer_recipe
from blanklm.paper.bundled.characters import encode_characters, pieces_of, snippets
from blanklm.paper.tables import restoration
from blanklm.restoration.restorer import Restorer

LEXICON = "words.tsv.xz"
TINY = EncoderConfig(1, 2, 16, 32, dropout=0.0)
GREEK = ["αγαθηι τυχηι εδοξεν τηι βουληι και τωι δημωι -- #", "διονυσιοσ ανηρ αγαθοσ ων διατελει περι τον δημον"] * 8
LATIN = ["dis manibus sacrum # vixit nnos xx et nnis ii", "iulia pia hic sita est sit tibi terra levis bene"] * 8


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A data root with a few damaged texts, small models, and a moment to train them in."""
    files = {f"greek_documentary/{split}.txt": GREEK for split in ("train", "valid", "test")}
    files |= {"greek_literature/perseus.txt": GREEK, "edh_latin/train.txt": LATIN}
    for split, ending in {"valid": "sacra", "test": "sacris"}.items():  # texts that also stand in train are left out
        files[f"edh_latin/{split}.txt"] = [text.replace("sacrum", ending) for text in LATIN]
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
    monkeypatch.setattr(restorer_recipe, "PYTHIA_WORDS", 8)
    small = partial(restorer_recipe.PythiaConfig, embedding=8, width=8)
    monkeypatch.setattr(restorer_recipe, "PythiaConfig", small)


def quiet(line):
    pass


@pytest.mark.parametrize("name", [name for name, system in restoration.SYSTEMS.items() if not system.lexicon_of])
def test_every_system_gets_its_row(damaged, tmp_path, name):
    (experiment,) = restoration.experiments(tmp_path, None, [name], texts=2, seconds=0.3)
    (row,) = runner.run_experiments([experiment], say=quiet)
    assert json.loads((tmp_path / "results" / f"{name}.json").read_text()) == row
    measured = {key: row[key] for key in experiment.measurements()}
    assert all(value["cer"] >= 0 and value["gaps"] for value in measured.values())
    assert row["training"]["steps"] >= 1 and row["valid_bound"] > 0 and row["tokens_read"] > 0
    assert row["provenance"]["hardware"]["cores"] >= 1
    assert (tmp_path / name / "model" / LEXICON).exists() == (experiment.recipe.kind == "mixed")
    assert f"{name}: single " in restoration.table([row])
    if name in ("greek", "latin"):
        restorer = Restorer.from_pretrained(tmp_path / name / "model", device="cpu")
        assert measured["editors"]["gaps"] and len(restorer.fill([["α", Blank(2, 2)]])) == 1


def test_latin_words_without_their_first_letter_are_repaired():
    assert latin.repaired("vixit nnos xx annis nnorum connos nnum") == "vixit annos xx annis annorum connos nnum"


@pytest.mark.parametrize("recipe", [latin, greek])
def test_the_recipes_read_no_test_file(recipe, monkeypatch):
    asked = []

    def read(name, split):
        asked.append(split)
        return ["dis manibus sacrum"] * 3

    monkeypatch.setattr(recipe, "read_corpus", read)
    made = recipe.corpus()
    assert len(made.texts) >= 3 and sorted(asked) in (["train", "valid"], ["perseus", "train", "valid"])


def test_inscriptions_that_stand_in_the_training_file_are_not_asked_about(monkeypatch):
    texts = {"train": ["dis manibus sacrum", "vixit annis"], "test": ["vixit annis", "hic situs est", "dis manibus"]}
    monkeypatch.setattr(restoration, "read_corpus", lambda name, split: texts[split])
    assert sorted(m.text for m in restoration.slots("edh_latin", None, 10)) == ["dis manibus", "hic situs est"]


def test_texts_are_cut_without_loss():
    text = "αγαθηι τυχηι εδοξεν τηι βουληι και τωι δημωι " * 9
    pieces = pieces_of([text, "---"], 100)
    assert all(len(piece) <= 100 for piece in pieces) and " ".join(pieces).split() == text.split()
    cut = snippets([text], 10, 60, seed=1)
    assert "".join(cut) == text and all(len(piece) <= 60 for piece in cut)
    tokenizer = Tokenizer.train("character", [text])
    encoded = encode_characters([text, "xα"], tokenizer)
    assert [encoded[i].tolist() for i in range(2)] == tokenizer.encode_many([text, "xα"])


def test_what_is_measured_is_not_measured_again(damaged, tmp_path, monkeypatch):
    (experiment,) = restoration.experiments(tmp_path, None, ["greek-lblm"], texts=2, seconds=0.3)
    (row,) = runner.run_experiments([experiment], say=quiet)
    experiment.row_file.unlink()
    (tmp_path / "greek-lblm" / "measured" / "greek-lblm-papyri-2.json").unlink()
    monkeypatch.setattr(restoration, "evaluate_fill", None)
    again = runner.run_experiments([experiment], say=quiet)[0]
    assert again["0.25"] == row["0.25"] and again["papyri"]["gaps"] == row["papyri"]["gaps"]


def test_a_model_that_exists_is_measured_with_and_without_its_lexicon(damaged, tmp_path, blanklm):
    (made,) = restoration.experiments(tmp_path / "made", None, ["latin"], texts=2, seconds=0.3)
    made.train(quiet)
    model = tmp_path / "made" / "latin" / "model"
    arguments = ("reproduce", "restoration", "--out", tmp_path / "out", "--texts", 2, "--model", model)
    code, lines, said = blanklm(*arguments, "--system", "latin-words")
    assert code == 0 and "letters alone, single" in lines[0] and "and words, single" in lines[0], said
    row = json.loads((tmp_path / "out" / "results" / "latin-words.json").read_text())
    assert row["letters alone"].keys() == row["and words"].keys() == {"single"}
    code, _, said = blanklm(*arguments)
    assert code == 1 and "say with --system" in said
