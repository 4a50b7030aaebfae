"""The sentiment recipe runs from corpora to table and bundled model, on a few lines and a few steps."""

import json
import time
from pathlib import Path

import pytest

from blanklm import Transfer, pretrained
from blanklm.models.encoder import EncoderConfig
from blanklm.recipes import sentiment
from blanklm.tasks.sentiment import PUBLISHED
from blanklm.transfer import Weights

RESULTS = Path(__file__).parents[1] / "results"
GOOD = ["the food was great .", "i love this place !", "very nice staff and good service ."]
BAD = ["the food was awful .", "i hate this place !", "very rude staff and bad service ."]


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    for corpus, references in (("yelp", 4), ("amazon", 1)):
        folder = tmp_path / "data" / corpus
        (folder / "baseline_outputs").mkdir(parents=True)
        for style, (own, other) in enumerate(((BAD, GOOD), (GOOD, BAD))):
            for split, times in (("train", 20), ("valid", 2), ("test", 1)):
                (folder / f"{split}.{style}").write_text("\n".join(own * times), encoding="utf-8")
            for number in range(references):
                (folder / f"reference.{style}.{number}").write_text("\n".join(other), encoding="utf-8")
            for name in PUBLISHED[corpus]:
                with_source = [f"{source}\t{output}\t{style}" for source, output in zip(own, other, strict=True)]
                file, lines = (
                    (f"{name}.test.{style}.tsf", other)
                    if corpus == "yelp"
                    else (f"sentiment.test.{style}.{name}", with_source[::-1])
                )
                (folder / "baseline_outputs" / file).write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path / "data"))


def test_from_corpora_to_table_and_model(corpora, tmp_path, monkeypatch):
    tiny = EncoderConfig(1, 2, 16, 32, dropout=0.0)
    for name, value in {"TABLE": tiny, "SMALL": tiny, "VALIDATION": 2}.items():
        monkeypatch.setattr(sentiment, name, value)
    monkeypatch.setitem(sentiment.MIN_COUNT, "yelp", 1)
    out = tmp_path / "out"
    sentiment.tokenise(out, "yelp")
    for name in sentiment.PARTS:
        sentiment.train_part(out, "yelp", name, time.time() + 0.3)
    for system in sentiment.SYSTEMS:
        for style in (0, 1):
            sentiment.write_pool(out, "yelp", system, style, "test")
            if system == "two":
                sentiment.write_pool(out, "yelp", system, style, "valid")
    result = sentiment.score_corpus(out, "yelp")
    assert json.loads((out / "yelp" / "result.json").read_text()) == result
    assert set(result["ours"]) == set(sentiment.ROWS)
    assert result["known"]["copy of the source"]["self_bleu"] == pytest.approx(100)
    assert set(result["parts"]) == set(sentiment.PARTS)
    sentiment.bundle(out, "yelp")
    rewritten = Transfer.from_pretrained(out / "yelp" / "model", "cpu").rewrite("i love this place !", "negative")
    assert rewritten.to == "negative" and rewritten.text
    source, *rows = sentiment.compare_temperatures(out, "yelp")
    assert source["self_bleu"] == pytest.approx(100) and len(rows) == 6


def test_published_outputs_are_scored_without_any_model_of_ours(corpora, tmp_path):
    sentiment.tokenise(tmp_path, "amazon")
    for name in ("classifier", "judge"):
        assert 0 <= sentiment.train_part(tmp_path, "amazon", name, time.time() + 0.3)["test_accuracy"] <= 100
    result = sentiment.score_corpus(tmp_path, "amazon")
    assert result["ours"] == {} and set(result["parts"]) == {"classifier", "judge"}
    for who in PUBLISHED["amazon"].values():  # the references themselves, in reverse: placed by their sources
        assert result["known"][who]["bleu"] == pytest.approx(100)


def test_the_default_weight_of_content_is_the_one_that_the_results_choose():
    validations = [json.loads((RESULTS / f"sentiment-{c}.json").read_text())["validation"] for c in sentiment.CORPORA]
    assert sentiment.content_to_choose(validations) == Weights().content
    costly = {
        "0": {"classifier_accuracy": 90.0},
        "1": {"classifier_accuracy": 89.6},
        "2": {"classifier_accuracy": 89.4},
    }
    assert sentiment.content_to_choose([costly]) == 1.0


def test_the_bundled_model_is_small():
    size = sum(path.stat().st_size for path in (pretrained.HERE / "sentiment").iterdir())
    assert size <= 6_000_000


def test_a_job_that_fails_or_dawdles_does_not_keep_the_others(tmp_path, capfd):
    began = time.monotonic()
    sentiment.run_all(tmp_path, [("score", "nowhere"), ("tokenise", "nowhere")], time.time() + 60)
    assert time.monotonic() - began < 60
    assert "score nowhere: 1" in capfd.readouterr().out
    assert "Error" in (tmp_path / "logs" / "score-nowhere.txt").read_text()
    sentiment.run_all(tmp_path, [("train", "yelp", "guided-0", str(time.time() + 60))], time.time() + 2)
    assert "out of time" in capfd.readouterr().out


def test_the_command_makes_the_whole_table_only(blanklm, tmp_path):
    code, _, said = blanklm("reproduce", "sentiment", "--out", tmp_path, "--corpus", "yelp")
    assert code == 1 and "as a whole" in said
