"""``blanklm.fit``: from texts to a model that fills, in one call."""

import inspect
import json

import pytest
import torch

import blanklm
from blanklm.api import BlankLM
from blanklm.errors import BlankLMError
from blanklm.training.config import FitOptions, TrainingConfig, parse_options
from blanklm.training.fit import read_and_split

TEXTS = [
    f"the {noun} was {adjective} ." for noun in ("food", "staff", "soup", "room") for adjective in ("good", "bad")
] * 6
SMALL = {"size": "tiny", "steps": 4, "tokens_per_batch": 128, "evaluate_every": 2, "save_every": 2}


def fit(texts, out, **options):
    return blanklm.fit(texts, out, show_progress=False, **SMALL | options)


def same_weights(first, second):
    weights, others = first.model.state_dict(), second.model.state_dict()
    return weights.keys() == others.keys() and all(torch.equal(weights[name], others[name]) for name in weights)


def test_a_list_of_texts_becomes_a_model_that_fills(tmp_path, capsys):
    model = fit(TEXTS, tmp_path / "run")
    fill = model.fill("the ___[1] was good .")
    assert fill.text.startswith("the ") and fill.text.endswith(" was good .")
    assert model.about["data"] == "48 texts" and (tmp_path / "run/model.safetensors").exists()
    assert capsys.readouterr() == ("", "")


def test_files_and_the_command_give_the_same_weights_as_the_list(blanklm, tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    expected = fit(TEXTS, tmp_path / "list", seed=3, dropout=0.2)
    for number, texts in enumerate(("texts.txt", "texts.jsonl", "*.txt")):
        assert same_weights(expected, fit(tmp_path / texts, str(tmp_path / f"{number}"), seed=3, dropout=0.2))
    options = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)]
    command = ["train", tmp_path / "texts.txt", "--out", tmp_path / "command", "--seed", 3, "--dropout", 0.2, *options]
    code, _, said = blanklm(*command)
    assert code == 0 and "44 texts to train on, 4 texts to validate on" in said and "best validation bound" in said
    assert same_weights(expected, BlankLM.from_pretrained(tmp_path / "command"))
    settings = [(tmp_path / name / "run.json").read_text() for name in ("list", "command")]
    assert settings[0] == settings[1]


def test_messages_say_what_is_trained_on_what(tmp_path, capsys):
    blanklm.fit(TEXTS, tmp_path, valid=TEXTS[:3], **SMALL)
    said = capsys.readouterr().err
    assert "48 texts to train on, 3 texts to validate on" in said and "tiny model" in said and "vocabulary 13" in said
    assert "best validation bound" in said


def test_a_run_is_resumed_with_the_same_options_only(tmp_path):
    first = fit(TEXTS, tmp_path)
    with pytest.raises(BlankLMError, match="holds a run already: continue it with --resume"):
        fit(TEXTS, tmp_path)
    assert same_weights(first, fit(TEXTS, tmp_path, resume=True))
    with pytest.raises(BlankLMError, match="training setting steps was 4 and is now 6"):
        fit(TEXTS, tmp_path, resume=True, steps=6)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["one"], {}, "too few to hold one out; give validation texts"),
        (TEXTS, {"size": "huge"}, "size must be tiny or small or base, not 'huge'"),
        (TEXTS, {"tokenizer": "syllable"}, "tokenizer must be word or character or bpe, not 'syllable'"),
        (TEXTS, {"stpes": 5}, "there is no training option 'stpes'"),
        (TEXTS, {"max_length": 0}, "max_length must be at least 1"),
        (TEXTS, {"seed": -1}, "seed must be 0 or more"),
        (TEXTS, {"from_disk": True}, "give validation texts"),
        (TEXTS, {"from_disk": True, "valid": TEXTS}, "give a path or a pattern"),
        (TEXTS, {"backbone": "bert-base-cased"}, "a backbone has its own size and dropout"),
        ("no-such-file.txt", {}, "there is no file"),
    ],
)
def test_each_mistake_is_one_line(tmp_path, texts, options, message):
    with pytest.raises(BlankLMError, match=message) as error:
        fit(texts, tmp_path / "run", **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "rate", "warmup"),
    [
        ({}, 1e-3, 500),
        ({"steps": 100}, 1e-3, 10),
        ({"optimizer": "muon", "warmup": None}, 3e-3, 500),
        ({"backbone": "bert-base-cased", "optimizer": "muon"}, 2e-4, 500),
        ({"learning_rate": 0.5, "warmup": 0, "optimizer": "muon"}, 0.5, 0),
    ],
)
def test_the_learning_rate_and_its_warmup_follow_from_the_other_options(options, rate, warmup):
    config = parse_options(options)[1]
    assert (config.learning_rate, config.warmup) == (rate, warmup)


def test_without_options_both_classes_have_their_defaults():
    assert parse_options({}) == (FitOptions(), TrainingConfig())


def test_fit_shows_its_options_and_their_help():
    parameters = inspect.signature(blanklm.fit).parameters
    assert parameters["steps"].default == 10_000 and parameters["learning_rate"].default is None
    assert "vocabulary: Maximum size of the vocabulary." in blanklm.fit.__doc__


@pytest.mark.parametrize(("texts", "held_out"), [(2, 1), (100, 10), (1000, 50), (8000, 80), (500_000, 2000)])
def test_a_hundredth_is_held_out_but_not_too_few_or_too_many(texts, held_out):
    lines = [str(number) for number in range(texts)]
    training, validation = read_and_split(lines, seed=0)
    assert len(validation) == held_out and sorted(training + validation) == sorted(lines)
