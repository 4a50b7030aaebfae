"""``blanklm.fit``: from texts to a model that fills, in one call."""

import inspect
import json
import re
import shutil

import pytest
import torch

import blanklm
from blanklm.api import BlankLM
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError, BlankLMWarning
from blanklm.fitting import choose_start
from blanklm.training.config import FitOptions, TrainingConfig, parse_options
from blanklm.training.fit import read_and_split
from blanklm.training.run import Run
from tests.support.runs import new_model

TEXTS = [
    f"the {noun} was {adjective} ." for noun in ("food", "staff", "soup", "room") for adjective in ("good", "bad")
] * 6
SMALL = {"size": "tiny", "tokenizer": "word", "steps": 4, "tokens_per_batch": 128, "evaluate_every": 2, "save_every": 2}


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
    with pytest.raises(BlankLMError, match="training setting seed was 0 and is now 6"):
        fit(TEXTS, tmp_path, resume=True, seed=6)


def test_a_folder_that_does_not_fit_is_named_before_any_text_is_read(tmp_path):
    fit(TEXTS, tmp_path)
    with pytest.raises(BlankLMError, match="holds a run already"):
        fit("nowhere.txt", tmp_path)
    with pytest.raises(BlankLMError, match="there is no run to resume in"):
        fit("nowhere.txt", tmp_path / "other", resume=True)


def test_a_run_can_be_made_longer_and_keeps_what_was_decided_for_it(tmp_path):
    fit(TEXTS, tmp_path, optimizer="adamw")
    fit(TEXTS, tmp_path, resume=True, steps=6)
    run = json.loads((tmp_path / "run.json").read_text())["training"]
    assert (run["steps"], run["optimizer"], run["learning_rate"], run["warmup"]) == (6, "adamw", 1e-3, 0)
    assert max(map(last_step, tmp_path.glob("state-*"))) == 6
    with pytest.raises(BlankLMError, match="has done 6 steps already"):
        fit(TEXTS, tmp_path, resume=True, steps=5)


def last_step(state):
    return int(state.name.removeprefix("state-"))


def test_resuming_says_where_it_goes_on(tmp_path, capsys):
    blanklm.fit(TEXTS, tmp_path, **SMALL)
    assert "starting from scratch" in capsys.readouterr().err
    for options in ({"resume": True}, {"resume": True, "steps": 6}):
        blanklm.fit(TEXTS, tmp_path, **SMALL | options)
    said = capsys.readouterr().err
    assert "starting" not in said
    assert f"{tmp_path} is done (step 4 of 4, after" in said and "needs more --minutes or --steps" in said
    assert f"continuing {tmp_path} at step 4 of 6" in said
    for state in tmp_path.glob("state-*"):
        shutil.rmtree(state)
    blanklm.fit(TEXTS, tmp_path, **SMALL | {"resume": True, "steps": 6})
    assert f"nothing has been saved in {tmp_path} yet: the run starts again" in capsys.readouterr().err


def test_at_the_end_fills_of_held_out_texts_bleu_and_the_next_command_are_shown(tmp_path, capsys):
    blanklm.fit(TEXTS, tmp_path / "run", **SMALL)
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("now type: blanklm fill '") and said[-1].endswith(f"--model {tmp_path / 'run'}")
    assert re.fullmatch(r"BLEU of 4 held-out texts with 30% of their .* no infill, .* after", said[-2])
    assert sum(line.startswith("held out  ") for line in said) == 3 and "___" in said[-1]


@pytest.mark.slow
def test_english_texts_continue_the_small_english_model_and_show_what_changed(tmp_path, capsys):
    texts = [f"{name} went to the {place} and bought some milk." for name in ("Ann", "Bob", "Eve") for place in PLACES]
    model = blanklm.fit(texts, tmp_path, steps=2, tokens_per_batch=256)
    said = capsys.readouterr().err
    assert "starting from english-small, which knows English" in said
    assert "  before  " in said and " before, " in said and "  after   " in said
    assert model.about["started_from"] == "english-small" and len(model.tokenizer) == 12_000
    again = blanklm.fit(texts, tmp_path, steps=2, tokens_per_batch=256, resume=True, show_progress=False)
    assert same_weights(model, again)


PLACES = ("shop", "market", "farm", "village", "city")
ENGLISH = ["She opened the door and went out alone.", "They also have a lot of books about the war."]
LATIN = ["dis manibus sacrum iuliae felici vixit annis viginti", "gallia est omnis divisa in partes tres"]


@pytest.mark.parametrize(
    ("options", "texts", "start"),
    [
        ({}, ENGLISH, "english-small"),
        ({}, LATIN, "scratch"),
        ({"start": "scratch"}, ENGLISH, "scratch"),
        ({"start": "english"}, LATIN, "english"),
        ({"size": "small"}, ENGLISH, "scratch"),
        ({"tokenizer": "character"}, ENGLISH, "scratch"),
        ({"blanks": "words"}, ENGLISH, "scratch"),
    ],
)
def test_english_starts_from_a_bundled_model_unless_something_else_is_asked_for(options, texts, start):
    assert choose_start(parse_options(options)[0], texts)[0] == start


def test_untrained_weights_say_so_when_they_are_used_and_trained_ones_do_not(tmp_path, recwarn):
    tokenizer = Tokenizer.train("word", TEXTS)
    texts = TokenisedTexts.from_ids(tokenizer.encode_many(TEXTS))
    run = Run(new_model(tokenizer), tokenizer, texts, texts, TrainingConfig(steps=1), tmp_path, None)
    run.begin()
    with pytest.warns(BlankLMWarning, match="have not been trained"):
        BlankLM.from_pretrained(tmp_path)
    run.go(lambda *_: None)
    recwarn.clear()
    BlankLM.from_pretrained(tmp_path)
    assert not recwarn.list


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
        ({}, 3e-3, 50),
        ({"steps": 10_000}, 3e-3, 500),
        ({"steps": 100}, 3e-3, 10),
        ({"optimizer": "adamw", "steps": 10_000}, 1e-3, 500),
        ({"backbone": "bert-base-cased", "optimizer": "muon", "steps": 10_000}, 2e-4, 500),
        ({"learning_rate": 0.5, "warmup": 0, "optimizer": "muon"}, 0.5, 0),
    ],
)
def test_the_learning_rate_and_its_warmup_follow_from_the_other_options(options, rate, warmup):
    chosen, config = parse_options(options)
    config = chosen.complete(config)
    assert (config.learning_rate, config.warmup) == (rate, warmup)


@pytest.mark.parametrize(
    ("options", "tokens", "steps", "batch", "seconds"),
    [
        ({}, 35_000, 30 * 33, 1093, 600),
        ({}, 10_000_000, 30 * 1221, 8192, 600),
        ({"minutes": 2}, 100, 200, 1024, 120),
        ({"steps": 5}, 35_000, 5, 1093, 0),
        ({"steps": 5, "minutes": 1, "tokens_per_batch": 64}, 35_000, 5, 64, 60),
    ],
)
def test_steps_follow_from_the_corpus_and_the_time(options, tokens, steps, batch, seconds):
    chosen, config = parse_options(options)
    config = chosen.complete(config, tokens)
    assert (config.steps, config.tokens_per_batch, config.seconds) == (steps, batch, seconds)


def test_several_processes_have_no_clock_unless_it_is_asked_for(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert FitOptions().complete(TrainingConfig(), 35_000).seconds == 0
    assert FitOptions(minutes=1).complete(TrainingConfig(), 35_000).seconds == 60


def test_without_options_both_classes_have_their_defaults():
    assert parse_options({}) == (FitOptions(), TrainingConfig())


def test_fit_shows_its_options_and_their_help():
    parameters = inspect.signature(blanklm.fit).parameters
    assert parameters["evaluate_every"].default == 500 and parameters["learning_rate"].default is None
    assert "vocabulary: Maximum size of the vocabulary." in blanklm.fit.__doc__


@pytest.mark.parametrize(("texts", "held_out"), [(2, 1), (100, 10), (1000, 50), (8000, 80), (500_000, 2000)])
def test_a_hundredth_is_held_out_but_not_too_few_or_too_many(texts, held_out):
    lines = [str(number) for number in range(texts)]
    training, validation = read_and_split(lines, seed=0)
    assert len(validation) == held_out and sorted(training + validation) == sorted(lines)
