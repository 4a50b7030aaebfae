"""Every recipe runs from corpus to result, on a few lines and a few steps."""

import json
from dataclasses import replace

import pytest
import torch

from blanklm import BlankLM
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.blm import BLM
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.bundled import english, yelp_words
from tests.support.backbones import publish_causal
from tests.support.models import make_blm

TINY = EncoderConfig(1, 2, 16, 32, dropout=0.0)
LINES = ["The food was really good, and we liked it.", "I will never come back to this place!", "It was fine."] * 20


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """A data root with a few lines in place of every file that the recipes read."""
    files = [f"yelp/{split}.{side}" for split in ("train", "valid") for side in (0, 1)]
    files += [f"english/{part}.txt" for part in ("mix.0", "valid")] + ["sentence_completion/train.0.txt"]
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


def test_english_on_a_backbone_and_then_from_its_own_weights(corpora, tmp_path, monkeypatch):
    monkeypatch.setattr(english, "MERGES", 20)
    monkeypatch.setitem(english.SETTINGS, "max_length", 64)
    backbone = publish_causal(tmp_path / "backbone", "llama")
    begun = english.begin(str(backbone), None, None)
    parts = ["english/mix.0", "english/mix.0", "sentence_completion/train.0"]
    result = english.main(tmp_path / "out", *begun, few(english.TRAINING), parts, english.ABOUT)
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == result
    assert result["parts"] == parts and result["training"]["bits"] == 4
    assert sorted(path.name for path in (tmp_path / "out" / "tokens").iterdir()) == [
        "english-mix.0-50.npz", "english-valid-0.npz", "sentence_completion-train.0-50.npz",
    ]  # fmt: skip
    again = english.tokenised(tmp_path / "out" / "tokenizer.json", parts)
    assert again.fingerprint == english.tokenised(tmp_path / "out" / "tokenizer.json", parts).fingerprint
    model = BlankLM.from_pretrained(tmp_path / "out" / "model", device="cpu")
    fill = model.fill("I went to ___[1], then (___[2])!")
    assert fill.text == "I went to {}, then ({})!".format(*fill.spans)
    assert model.model.edges.any() and model.score("It was fine.", orders=2).log_prob < 0
    shorter, tokenizer = english.begin(None, str(tmp_path / "out" / "model"), 1)
    assert shorter.config.encoder.layers == 1 and len(tokenizer) == len(model.tokenizer)
    assert torch.equal(shorter.embedding.weight, model.model.embedding.weight)
    assert shorter.parameter_count < model.parameters


def test_shortening_keeps_the_first_and_the_last_layer():
    config = make_blm().config
    model = BLM(replace(config, encoder=replace(config.encoder, layers=5)))
    shorter = english.shortened(model, 2)
    assert shorter.config.encoder.layers == 2
    for new, old in ((0, 0), (1, 4)):
        weights = model.encoder.layers[old].state_dict()
        assert all(torch.equal(w, weights[name]) for name, w in shorter.encoder.layers[new].state_dict().items())


def test_some_texts_are_written_in_capitals_and_parts_may_come_twice(corpora, tmp_path):
    Tokenizer.train("bpe", LINES, vocabulary=300).save(tmp_path / "tokenizer.json")
    texts = english.tokenised(tmp_path / "tokenizer.json", ["english/mix.0", "english/mix.0"], capitals=10)
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    read = [tokenizer.decode(texts[i]) for i in range(len(texts))]
    assert len(read) == 2 * len(LINES) and read[: len(LINES)] == read[len(LINES) :]
    assert [text.upper() for text in LINES[::10]] == read[: len(LINES) : 10] and read[1] == LINES[1]
