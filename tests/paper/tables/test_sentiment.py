"""The sentiment recipe runs from corpora to table and bundled model, on a few lines and a few steps."""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from blanklm import BlankLM, Transfer, pretrained
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.tables import sentiment
from blanklm.paper.tables.sentiment import Setting
from blanklm.paper.tasks.sentiment import PUBLISHED
from blanklm.transfer.transfer import CONTRAST, SAMPLES, TEMPERATURE, Weights
from tests.support.paths import ROOT, YELP_WORDS

RESULTS = ROOT / "results"
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


@pytest.mark.slow
def test_from_corpora_to_table_and_model(corpora, tmp_path, monkeypatch):
    tiny = EncoderConfig(1, 2, 16, 32, dropout=0.0)
    settings = {"TABLE": tiny, "VALIDATION": 2, "DRAWN": [(0.5, 0.0), (1.0, 1.0)]}
    for name, value in settings.items():
        monkeypatch.setattr(sentiment, name, value)
    monkeypatch.setitem(sentiment.MIN_COUNT, "yelp", 1)
    out = tmp_path / "out"
    sentiment.tokenise(out, "yelp")
    for name in sentiment.PARTS:
        sentiment.train_part(out, "yelp", name, time.time() + 0.3)
    sentiment.bundle(out, "yelp")
    for style in "01":
        for writer in sentiment.WRITERS:
            sentiment.job(out, "draw", "yelp", writer, style)
        sentiment.job(out, "write", "yelp", "two", style, "valid")
    choice = sentiment.choose(out, "yelp")
    assert choice["chosen"].keys() == {"two", "one", "small"}
    for system in {*sentiment.SYSTEMS} - sentiment.GRID | sentiment.needed(choice).keys():
        for style in (0, 1):
            sentiment.write_pool(out, "yelp", system, style, "test")
    result = sentiment.score_corpus(out, "yelp")
    assert json.loads((out / "yelp" / "result.json").read_text()) == result
    assert set(result["ours"]) == set(sentiment.rows_of(choice))
    assert result["known"]["copy of the source"]["self_bleu"] == pytest.approx(100)
    assert set(result["parts"]) == set(sentiment.PARTS)
    rewritten = Transfer.from_pretrained(out / "yelp" / "model", "cpu").rewrite("i love this place !", "negative")
    assert rewritten.to == "negative" and rewritten.text


def test_the_bundled_writer_begins_as_yelp_words():
    words = Tokenizer.train("word", ["the food was great !", "qwertyuiop"], lowercase=True, marks_apart=True)
    model, start = sentiment.small_blm(words, Path()), BlankLM.from_pretrained(YELP_WORDS, device="cpu")
    for word, known in (("food", "food"), ("qwertyuiop", "<unk>")):
        own, its = (m.backend.token_to_id(w) for m, w in ((words, word), (start.tokenizer, known)))
        assert torch.equal(model.embedding.weight[own], start.model.embedding.weight[its])
        assert model.word_bias[own] == start.model.word_bias[its]
    assert torch.equal(model.sides_out.weight, start.model.sides_out.weight)


def test_published_outputs_are_scored_without_any_model_of_ours(corpora, tmp_path):
    sentiment.tokenise(tmp_path, "amazon")
    for name in ("classifier", "judge"):
        assert 0 <= sentiment.train_part(tmp_path, "amazon", name, time.time() + 0.3)["test_accuracy"] <= 100
    result = sentiment.score_corpus(tmp_path, "amazon")
    assert result["ours"] == {} and set(result["parts"]) == {"classifier", "judge"}
    for who in PUBLISHED["amazon"].values():  # the references themselves, in reverse: placed by their sources
        assert result["known"][who]["bleu"] == pytest.approx(100)


class Finds:
    """A judge that finds what is in the wanted style by a word, and each record's samples."""

    def log_probs(self, texts):
        good = np.array(["good" in text for text in texts])
        return np.log(np.stack((~good, good), axis=1) + 1e-9)


def test_settings_are_chosen_by_what_is_kept_of_those_accurate_enough():
    source, kept, lost = "a b c d e f", "a b c d e good", "u v w x y good"
    # text, words masked, log p(style), words kept, log p a word
    samples = [[kept, 1, -0.3, 0.9, -1.0], [lost, 2, -0.1, 0.1, -0.2], [source, 2, -0.2, 0.8, -9.0]]
    wanted = sentiment.with_repetitions({"source": source, "samples": samples})
    unwanted = wanted | {"samples": wanted["samples"][2:]}
    valid = sentiment.OnValidation(Finds(), {"one": [wanted, unwanted]})
    whole, nested = (Setting("one", 2, fewer, sentiment.BY_CLASSIFIER) for fewer in (False, True))
    keeping = replace(nested, weights=Weights(content=10.0))
    wrong = replace(whole, weights=Weights(content=10.0))
    assert [setting.best(wanted)[0] for setting in (whole, nested, keeping, wrong)] == [lost, lost, kept, source]
    assert [s[0] for s in replace(nested, samples=1).among(wanted)] == [kept, lost]
    assert valid.accuracy(valid.written(whole)) == 100 and valid.accuracy(valid.written(wrong)) == 50
    chosen = valid.choose([whole, keeping, wrong])
    assert Setting.of(chosen["setting"]) == keeping and chosen["accuracy"] == 100 and chosen["of"] == 3
    assert Setting.of(valid.choose([whole, keeping, wrong], may_cost=60)["setting"]) == wrong


def test_only_what_was_chosen_is_drawn_for_the_test_sentences():
    settings = [Setting("one-0.5-1", 10, True, Weights()), Setting("one-0.5-1", 20, False, Weights())]
    settings.append(Setting("two", 10, False, Weights()))
    choice = {"chosen": {"one": {str(i): {"setting": setting.to_json()} for i, setting in enumerate(settings)}}}
    assert sentiment.needed(choice) == {"one-0.5-1": (20, True), "two": (10, False)}


def test_the_command_writes_as_was_chosen_for_the_bundled_model():
    choice = json.loads((RESULTS / "sentiment-choice.json").read_text())["yelp"]
    setting = choice["chosen"]["small"]["ranking, whole mask"]["setting"]
    assert Weights(**setting["weights"]) == Weights()
    assert (setting["temperature"], setting["contrast"]) == (TEMPERATURE, CONTRAST)
    assert (setting["samples"], setting["fewer"]) == (SAMPLES, False)


def test_the_bundled_model_is_small():
    size = sum(path.stat().st_size for path in (pretrained.HERE / "sentiment").iterdir())
    assert size <= 6_000_000


def test_validation_sentences_are_drawn_before_the_choice_and_test_sentences_after_it(tmp_path, monkeypatch):
    done = []

    def run(out, jobs, until):
        done.append(jobs)
        for what, corpus, *_ in jobs:
            (out / corpus).mkdir(exist_ok=True)
            if what == "choose":
                ranking = {"setting": Setting("one-0.7-1", 10, True, Weights()).to_json()}
                sentiment.write_json(out / corpus / "choice.json", {"chosen": {"one": {"ranking": ranking}}})
            if what == "score":
                (out / "logs").mkdir(exist_ok=True)
                (out / "logs" / f"score-{corpus}.txt").write_text("")

    monkeypatch.setattr(sentiment, "run_all", run)
    sentiment.main(tmp_path)
    tokenise, train, first, choose, chosen, score = done
    assert {job[0] for job in (*tokenise, *train, *choose, *score)} == {"tokenise", "train", "choose", "score"}
    assert {job[2] for job in first if job[0] == "draw"} == set(sentiment.WRITERS)
    assert not [job for job in first if job[0] == "write" and job[2] in sentiment.GRID]
    assert ("draw", "amazon", "small", "0") not in first and ("draw", "yelp", "small", "0") in first
    assert set(chosen) == {("write", c, "one-0.7-1", style, "test") for c in sentiment.CORPORA for style in "01"}


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
