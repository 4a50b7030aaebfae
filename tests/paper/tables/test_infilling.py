"""The infilling tables, from corpus to rows, on a few lines and a few steps; and what a cut-off reproduction does."""

import json
from dataclasses import replace

import pytest
import torch

from blanklm import pretrained
from blanklm.core.canvas import Fill
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig
from blanklm.models.init import init_bias_from_frequencies
from blanklm.paper import runner
from blanklm.paper.tables import infilling, infilling_systems
from blanklm.training import checkpoint
from blanklm.training.epochs import training_epoch
from tests.support.backbones import publish

TINY = EncoderConfig(1, 2, 16, 32, dropout=0.0)
DOCUMENTS = [
    "what is the best way to learn ? read a _UNK every day and write a little .",
    "where does time go ? it is recycled and made into new time .",
    "why is the sky blue ? because of the light .",
    "can you help me ? i need to find the name of a song .",
]
SYSTEMS = [name for name in infilling.SYSTEMS if name != "blm-english"]


@pytest.fixture
def experiments(tmp_path, monkeypatch):
    """Experiments on both corpora, tiny."""
    files = [f"yelp/{split}.{side}" for split in ("train", "valid", "test") for side in (0, 1)]
    for name in [*files, "yahoo/valid.txt", "yahoo/test.txt"]:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        documents = [f"well , {document}" for document in DOCUMENTS] if "test" in name else DOCUMENTS
        path.write_text("\n".join(documents * 10), encoding="utf-8")
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(infilling_systems, "HELD_OUT", 8)
    monkeypatch.setattr(infilling, "VALIDATION_TEXTS", 2)
    monkeypatch.setattr(infilling, "RATIOS", (0.2, 0.5))
    infilling_systems._yahoo.cache_clear()
    backbone = str(publish(tmp_path / "bert", "bert"))
    for name, corpus in infilling.CORPORA.items():
        few = replace(corpus.training, steps=4, tokens_per_batch=512, warmup=1, evaluate_every=2, log_every=1)
        tiny = replace(corpus, size=TINY, training=few, max_length=32, min_count=1)
        monkeypatch.setitem(infilling.CORPORA, name, tiny)
    for name, system in infilling.SYSTEMS.items():
        monkeypatch.setitem(infilling.SYSTEMS, name, replace(system, training={}))
    out = tmp_path / "out"
    yield lambda corpus, names: infilling.experiments(out, [corpus], names, texts=4, backbone=backbone)
    infilling_systems._yahoo.cache_clear()


def quiet(line):
    pass


@pytest.mark.parametrize("corpus", ["yahoo", "yelp"])
@pytest.mark.slow
def test_every_system_fills_the_same_canvases_and_gets_its_row(experiments, corpus, tmp_path):
    rows = {row["system"]: row for row in runner.run_experiments(experiments(corpus, SYSTEMS), say=quiet)}
    assert list(rows) == SYSTEMS
    for name, row in rows.items():
        assert json.loads((tmp_path / "out" / "results" / f"{corpus}-{name}.json").read_text()) == row
        assert set(row["ratios"]) == {"0.2", "0.5"} and row["test"]["texts"] == 4 and row["test"]["of"] in (40, 80)
        assert row["training"]["steps"] == 4 and row["training"]["tokens_read"] > 0 and row["provenance"]["date"]
        for share, ratio in row["ratios"].items():
            assert ratio["no_infill_bleu"] == rows["lm"]["ratios"][share]["no_infill_bleu"]
            if name != "lm":
                assert ratio["perplexity"] > 1
                valid = not name.startswith("seq2seq") and name != "insertion-free"
                assert ratio["failure_rate"] == 0 or not valid
    assert set(rows["blm"]["validation_bleu"]) == {"beam 1", "beam 5", "beam 10"}


def test_documents_held_out_are_not_trained_on(experiments):
    for name, corpus in infilling.CORPORA.items():
        held_out, everything = corpus.held_out(), list(infilling_systems.read_corpus("yahoo", "valid"))
        assert held_out and not set(held_out) & set(corpus.test())
        if name == "yahoo":  # one file for both
            assert sorted(held_out + corpus.train()) == sorted(everything)


def test_how_to_fill_is_chosen_without_the_test_canvases(experiments, monkeypatch):
    (experiment,) = experiments("yahoo", ["blm"])
    asked = []

    def fills_of(system, masked, **choice):
        asked.extend(m.text for m in masked)
        return [Fill(m.text, m.spans, 0.0) for m in masked]

    monkeypatch.setattr(infilling, "load_system", lambda folder: None)
    monkeypatch.setattr(infilling, "fills_of", fills_of)
    experiment.choose()
    assert len(asked) > 2 and set(asked) <= set(experiment.data.held_out())


def test_what_is_done_is_not_done_again(experiments, tmp_path, monkeypatch):
    """A system that fills with the model of another has that one trained, and the judge."""
    todo = experiments("yahoo", ["blm-parallel"])
    runner.run_experiments(todo, say=quiet)
    assert {path.parent.name for path in (tmp_path / "out" / "yahoo").glob("*/training.json")} == {"lm", "blm"}
    (tmp_path / "out" / "results" / "yahoo-blm-parallel.json").unlink()
    (tmp_path / "out" / "yahoo" / "blm-parallel" / "fills-0.5.json").unlink()
    before = (tmp_path / "out" / "yahoo" / "blm-parallel" / "fills-0.2.json").stat().st_mtime_ns
    monkeypatch.setattr(runner, "Run", None)  # no training again
    runner.run_experiments(todo, say=quiet)
    assert (tmp_path / "out" / "yahoo" / "blm-parallel" / "fills-0.2.json").stat().st_mtime_ns == before
    assert (tmp_path / "out" / "results" / "yahoo-blm-parallel.json").exists()


def test_from_the_command_line(experiments, tmp_path, blanklm):
    arguments = ("reproduce", "infilling", "--out", tmp_path / "out", "--corpus", "yahoo", "--texts", 4)
    code, lines, said = blanklm(*arguments, "--system", "lm", "--part", "insertion")  # the older name of the option
    assert code == 0 and "yahoo insertion: 50% hidden, filled" in said
    assert [line.split("  ")[0].strip() for line in lines[2:]] == ["yahoo no infill", "yahoo InsT"]
    assert lines[3].count("0.0%") == 2
    code, _, said = blanklm(*arguments, "--system", "gpt")
    assert code == 1 and "there is no system 'gpt' in this table: choose lm, insertion" in said
    code, _, said = blanklm("reproduce", "infilling", "--out", tmp_path / "out", "--corpus", "ptb")
    assert code == 1 and "there is no corpus 'ptb'" in said
    code, _, said = blanklm(*arguments, "--orders", 10)
    assert code == 1 and "does not take --orders" in said


def test_a_training_run_that_was_cut_off_is_resumed(experiments, monkeypatch):
    corpus = infilling.CORPORA["yelp"]
    saving = replace(corpus, training=replace(corpus.training, save_every=2))
    monkeypatch.setitem(infilling.CORPORA, "yelp", saving)
    (experiment,) = experiments("yelp", ["lm"])

    class CutOff(Exception):
        pass

    def cut_off(line):
        if "step 3" in line:
            raise CutOff

    with pytest.raises(CutOff):
        experiment.train(cut_off)
    said = []
    experiment.train(said.append)
    assert [line.split(": ")[0] for line in said] == ["yelp lm step 3", "yelp lm step 4"]
    assert experiment.trained() and not experiment.done()


@torch.no_grad()
@pytest.mark.parametrize("name", ["lm", "insertion", "mlm", "seq2seq-full", "blm"])
def test_a_system_from_scratch_starts_at_the_frequencies_of_what_it_writes(name):
    """Words, and ends of texts or slots: its first loss is lower for that."""
    tokenizer = Tokenizer.train("word", DOCUMENTS)
    texts = TokenisedTexts.from_ids(tokenizer.encode_many(DOCUMENTS * 8))
    system, corpus = infilling.SYSTEMS[name], replace(infilling.CORPORA["yahoo"], size=TINY, max_length=32)
    (draw,) = training_epoch(texts, 10_000, 0, 0, skew=0.4)
    model = system.make(corpus, tokenizer, None).eval()
    before = model.loss(model.prepare(draw.collate(texts))).sum()
    init_bias_from_frequencies(model, system.initial_tokens(texts))
    after = model.loss(model.prepare(draw.collate(texts))).sum()
    assert after < before - 0.1 * texts.tokens


def test_masks_of_another_number_of_texts_are_not_taken_for_these(experiments):
    (experiment,) = experiments("yahoo", ["lm"])
    assert len(experiment.masks("test", 0.5)) == 4
    for texts in (0, 5):
        with pytest.raises(BlankLMError, match="begun with 4 test texts: give --texts 4"):
            replace(experiment, texts=texts).masks("test", 0.5)


def test_the_bundled_model_lends_each_word_the_vector_of_its_likeliest_spelling():
    loaded = checkpoint.load(pretrained.locate("english-small"))
    words = Tokenizer.train("word", ["i 'm in paris , `` the usa '' _UNK"])
    model = infilling_systems._blm_on_bundled(infilling.CORPORA["yahoo"], words, None)
    for word, written in {
        "i": " I",
        "'m": "'m",
        "in": " in",
        "paris": " Paris",
        ",": ",",
        "``": ' "',
        "usa": " USA",
    }.items():
        (token,) = loaded.tokenizer.encode(written)
        assert torch.equal(model.embedding(torch.tensor(words.encode(word)))[0], loaded.model.embedding.weight[token])
    unknown = loaded.model.embedding.weight[loaded.tokenizer.encode("_UNK")].mean(0)
    assert torch.equal(model.embedding(torch.tensor(words.encode("_UNK")))[0], unknown)
    theirs, ours = loaded.model.state_dict(), model.state_dict()
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items() if name.startswith("encoder."))
