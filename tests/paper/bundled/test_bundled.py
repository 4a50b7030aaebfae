"""Every recipe runs from corpus to result, on a few lines and a few steps."""

import json
from dataclasses import replace

import pytest

from blanklm import BlankLM
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.bundled import english, yelp_words
from blanklm.training import checkpoint

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
    stages = {name: few(training) for name, training in english.STAGES.items()}
    result = english.main(tmp_path / "out", stages)
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == result
    assert result["training"]["learning_rate"] == 1e-3
    assert [stage["training"]["learning_rate"] for stage in result["before"]] == [1.5e-3]
    first, longer = (checkpoint.load(tmp_path / "out" / name / "run").model for name in stages)
    moved = first.embedding.weight - longer.embedding.weight
    assert 0 < moved.abs().max() < 0.02  # it went on from the first stage's weights, not from new ones
    assert english.main(tmp_path / "out", stages)["before"] == result["before"]  # nothing is trained twice
    assert result["valid_bleu"]["greedy"]["0.3"]["failure_rate"] == 0
    model = BlankLM.from_pretrained(tmp_path / "out" / "model", device="cpu")
    fill = model.fill("I went to ___[1], then (___[2])!")
    assert fill.text == "I went to {}, then ({})!".format(*fill.spans)
    assert model.model.edges.any() and model.score("It was fine.", orders=2).log_prob < 0
