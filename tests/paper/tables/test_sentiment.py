"""The sentiment recipe runs from corpora to table and bundled model, on a few lines and a few steps."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from blanklm import BlankLM, Transfer, pretrained
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.encoder import EncoderConfig
from blanklm.paper import runner
from blanklm.paper.tables import sentiment, sentiment_choice, sentiment_models, sentiment_pools
from blanklm.paper.tables.sentiment_choice import Setting
from blanklm.paper.tasks.sentiment import PUBLISHED
from blanklm.transfer.options import CONTRAST, SAMPLES, TEMPERATURE, Weights
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


@pytest.fixture
def tiny(monkeypatch):
    """Small models, few steps, few samples."""
    monkeypatch.setattr(sentiment_models, "TABLE", EncoderConfig(1, 2, 16, 32, dropout=0.0))
    monkeypatch.setattr(sentiment_models.yelp_words, "MODEL", EncoderConfig(1, 2, 16, 32, dropout=0.0))
    monkeypatch.setattr(sentiment_pools, "VALIDATION", 2)
    for drawings in (sentiment_pools, sentiment_choice):
        monkeypatch.setattr(drawings, "DRAWINGS", [(0.5, 0.0), (1.0, 1.0)])
    for name in [name for name in sentiment_pools.GRID if not name.endswith(("0.5-0", "1-1"))]:
        monkeypatch.delitem(sentiment_pools.GRID, name)
    monkeypatch.setitem(sentiment_models.MIN_COUNT, "yelp", 1)
    for name, system in sentiment_models.SYSTEMS.items():
        few = replace(system.training, steps=3, tokens_per_batch=256, warmup=1, evaluate_every=3, log_every=1)
        monkeypatch.setitem(sentiment_models.SYSTEMS, name, replace(system, training=few))


def quiet(line):
    pass


@pytest.mark.slow
def test_from_corpora_to_table_and_model(corpora, tiny, tmp_path, monkeypatch):
    out = tmp_path / "out"
    (result,) = sentiment.run(out, ["yelp"], say=quiet)
    assert json.loads((out / "results" / "yelp.json").read_text()) == result and result["provenance"]["command"]
    choice = json.loads((out / "yelp" / "choice.json").read_text())
    assert choice["chosen"].keys() == {"two", "one", "small"}
    assert set(result["ours"]) == set(sentiment_choice.rows_of(choice))
    assert result["known"]["copy of the source"]["self_bleu"] == pytest.approx(100)
    assert set(result["parts"]) == set(sentiment_models.SYSTEMS)
    rewritten = Transfer.from_pretrained(out / "yelp" / "model", "cpu").rewrite("i love this place !", "negative")
    assert rewritten.to == "negative" and rewritten.text
    # What is done is not done again: neither trainings nor pools, only what is missing.
    (out / "results" / "yelp.json").unlink()
    (out / "yelp" / "pools" / "masked.test.1.json").unlink()
    monkeypatch.setattr(runner, "Run", None)
    monkeypatch.setattr(sentiment_pools, "transfer_of", None)
    assert sentiment.run(out, ["yelp"], say=quiet)[0]["ours"] == result["ours"]


@pytest.mark.parametrize("asks", ["the table", "the choice of settings"])
def test_the_classifier_that_ranks_is_not_the_judge(asks, tmp_path, corpora, monkeypatch):
    class Asked(Exception):
        pass

    def load(folder):
        raise Asked(folder.parent.name)

    monkeypatch.setattr(sentiment_choice.StyleClassifier, "from_pretrained", load)
    monkeypatch.setattr(sentiment_choice, "records_of", lambda *of: [])
    ask = {
        "the table": lambda: sentiment.score_corpus(tmp_path, "yelp"),
        "the choice of settings": lambda: sentiment_choice.ValidationScores.of(tmp_path, "yelp", ["two"]),
    }[asks]
    with pytest.raises(Asked, match=r"^judge$"):
        ask()


def test_the_small_writer_starts_from_the_model_that_is_given():
    words = Tokenizer.train("word", ["the food was great !", "qwertyuiop"], lowercase=True, marks_apart=True)
    experiment = sentiment_models.Experiment(out=None, corpus="yelp", system="blm-small", start=str(YELP_WORDS))
    model, start = sentiment_models.small_blm(words, experiment), BlankLM.from_pretrained(YELP_WORDS, device="cpu")
    for word, known in (("food", "food"), ("qwertyuiop", "<unk>")):
        own, its = (m.backend.token_to_id(w) for m, w in ((words, word), (start.tokenizer, known)))
        assert torch.equal(model.embedding.weight[own], start.model.embedding.weight[its])
        assert model.word_bias[own] == start.model.word_bias[its]
    assert torch.equal(model.sides_out.weight, start.model.sides_out.weight)
    scratch = sentiment_models.small_blm(words, replace(experiment, start=None))
    assert scratch.config.encoder == start.model.config.encoder and not scratch.word_bias.any()


def test_published_outputs_are_scored_without_any_model_of_ours(corpora, tiny, tmp_path):
    sentiment_models.tokenise(tmp_path, "amazon", quiet)
    for experiment in sentiment_models.experiments(tmp_path, "amazon")[:2]:
        experiment.train(quiet)
        assert 0 <= json.loads(experiment.training_file.read_text())["test_accuracy"] <= 100
    result = sentiment.score_corpus(tmp_path, "amazon", quiet)
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
    wanted = sentiment_pools.with_repetitions({"source": source, "samples": samples})
    unwanted = wanted | {"samples": wanted["samples"][2:]}
    valid = sentiment_choice.ValidationScores(Finds(), {"one": [wanted, unwanted]})
    whole, nested = (Setting("one", 2, fewer, sentiment_choice.BY_CLASSIFIER) for fewer in (False, True))
    keeping = replace(nested, weights=Weights(content=10.0))
    wrong = replace(whole, weights=Weights(content=10.0))
    assert [setting.best(wanted)[0] for setting in (whole, nested, keeping, wrong)] == [lost, lost, kept, source]
    assert [s[0] for s in replace(nested, samples=1).among(wanted)] == [kept, lost]
    assert valid.accuracy(valid.written(whole)) == 100 and valid.accuracy(valid.written(wrong)) == 50
    chosen = valid.choose([whole, keeping, wrong])
    assert Setting.of(chosen["setting"]) == keeping and chosen["accuracy"] == 100 and chosen["of"] == 3
    assert Setting.of(valid.choose([whole, keeping, wrong], margin=60)["setting"]) == wrong


def test_only_what_was_chosen_is_drawn_for_the_test_sentences():
    settings = [Setting("one-0.5-1", 10, True, Weights()), Setting("one-0.5-1", 20, False, Weights())]
    settings.append(Setting("two", 10, False, Weights()))
    choice = {"chosen": {"one": {str(i): {"setting": setting.to_json()} for i, setting in enumerate(settings)}}}
    assert sentiment_choice.needed(choice) == {"one-0.5-1": (20, True), "two": (10, False)}


def test_the_command_writes_as_was_chosen_for_the_bundled_model():
    choice = json.loads((RESULTS / "sentiment-choice.json").read_text())["yelp"]
    setting = choice["chosen"]["small"]["ranking, whole mask"]["setting"]
    assert Weights(**setting["weights"]) == Weights()
    assert (setting["temperature"], setting["contrast"]) == (TEMPERATURE, CONTRAST)
    assert (setting["samples"], setting["fewer"]) == (SAMPLES, False)


def test_the_bundled_model_is_small():
    size = sum(path.stat().st_size for path in (pretrained.HERE / "sentiment").iterdir())
    assert size <= 6_000_000


def test_validation_sentences_are_written_before_the_choice_and_test_sentences_after_it(tmp_path):
    names = [step.name for step in sentiment.steps(tmp_path, "yelp")]
    at = {name: number for number, name in enumerate(names)}
    for step in sentiment.steps(tmp_path, "yelp"):
        assert all(at[name] < at[step.name] for name in step.after)
    assert at["write yelp one-0.7-1 valid"] < at["choose yelp"] < at["write yelp as chosen"] < at["score yelp"]
    assert not [name for name in names if name.endswith("test") and name.split()[2] in sentiment_pools.GRID]
    amazon = [step.name for step in sentiment.steps(tmp_path, "amazon")]
    assert not [name for name in amazon if "small" in name or "bundle" in name]  # the bundled model knows Yelp only


def test_the_command_compares_all_systems(blanklm, tmp_path):
    code, _, said = blanklm("reproduce", "sentiment", "--out", tmp_path, "--system", "blm-0")
    assert code == 1 and "the table sentiment does not take --system" in said
