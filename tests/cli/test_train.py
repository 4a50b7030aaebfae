"""``blanklm train``: the command is ``fit`` with options from the same fields."""

import json
import math

import pytest

from blanklm.training import checkpoint
from blanklm.training.config import TrainingConfig
from blanklm.training.run import Run
from tests.support.runs import corpus, new_model


def test_train_then_fill(blanklm, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(["the cat sat on the mat", "the dog lay on the rug", ""] * 40))
    command = ["train", texts, "--out", tmp_path / "run", "--size", "tiny", "--steps", 30, "--tokens-per-batch", 256]
    options = ["--evaluate-every", 10, "--save-every", 10, "--warmup", 5]
    code, _, err = blanklm(*command, *options)
    assert code == 0 and "best validation bound" in err
    code, out, _ = blanklm("fill", "the ___[1] sat", "--model", tmp_path / "run")
    assert code == 0 and out[0].endswith(" sat")
    code, _, err = blanklm(*command, *options)
    assert code == 1 and "holds a run already" in err
    code, _, err = blanklm(*command, *options, "--resume")
    assert code == 0
    for bad in (
        ["--steps", 0],
        ["--learning-rate", "nan"],
        ["--dropout", 1.5],
        ["--ema", 2],
        ["--vocabulary", 2],
        ["--max-length", -2],
    ):
        code, _, err = blanklm("train", texts, "--out", tmp_path / "bad", "--size", "tiny", *bad)
        assert code == 1 and err.splitlines()[-1].startswith("error: "), (bad, err)


@pytest.mark.parametrize("from_disk", [False, True])
def test_training_begins_at_the_frequencies_of_the_training_words_and_at_neighbours(blanklm, tmp_path, from_disk):
    texts, valid = tmp_path / "texts.txt", tmp_path / "valid.txt"
    texts.write_text("a a a a a a b\n" * 50)
    valid.write_text("b b b b b b a\n" * 50)  # says the opposite, and must not be heard
    command = ["train", texts, "--valid", valid, "--out", tmp_path / "run", "--size", "tiny", "--steps", 1]
    command += ["--tokenizer", "word"]
    assert blanklm(*command, "--tokens-per-batch", 64, *["--from-disk"] * from_disk)[0] == 0
    loaded = checkpoint.load(tmp_path / "run")
    a, b = loaded.tokenizer.encode("a b")
    ahead = (loaded.model.word_bias[a] - loaded.model.word_bias[b]).item()
    assert ahead == pytest.approx(math.log(6), abs=0.05)
    first, second = (layer.queries_keys_values.bias.abs().max() for layer in loaded.model.encoder.layers[:2])
    assert first > 1 > second


def test_train_by_muon_at_its_own_rate(blanklm, tmp_path):
    (tmp_path / "texts.txt").write_text("the food was good .\nthe staff was rude .\n" * 60)
    run = tmp_path / "run"
    command = ("train", tmp_path / "texts.txt", "--out", run, "--size", "tiny", "--steps", 4)
    assert blanklm(*command, "--optimizer", "muon")[0] == 0
    training = json.loads((run / "run.json").read_text())["training"]
    assert (training["optimizer"], training["learning_rate"]) == ("muon", 3e-3)


def test_train_from_disk(blanklm, tmp_path):
    for shard in range(3):
        lines = [
            f"the {noun} was {adjective} {shard}" for noun in ["food", "staff", "soup"] for adjective in ("good", "bad")
        ]
        (tmp_path / f"{shard}.txt").write_text("\n".join(lines) + "\n")
    arguments = ["train", f"{tmp_path}/*.txt", "--out", tmp_path / "run", "--size", "tiny", "--steps", 4, "--from-disk"]
    code, _, err = blanklm(*arguments)
    assert code == 1 and "give validation texts" in err
    code, _, err = blanklm(*arguments, "--valid", tmp_path / "0.txt", "--tokens-per-batch", 64)
    assert code == 0 and "3 files to train on, 6 texts to validate on" in err, err
    assert blanklm("fill", "the ___ was good", "--model", tmp_path / "run", "--max", 2)[0] == 0
    code, _, err = blanklm("train", f"{tmp_path}/*.none", "--out", tmp_path / "x")
    assert code == 1 and "no file matches" in err


def test_a_command_says_that_the_weights_it_uses_are_not_trained_yet(blanklm, tmp_path):
    tokenizer, texts = corpus()
    Run(new_model(tokenizer), tokenizer, texts, texts, TrainingConfig(steps=1), tmp_path, None).begin()
    code, out, err = blanklm("fill", "the ___[1] was good", "--model", tmp_path)
    assert (
        code == 0 and len(out) == 1 and err.startswith(f"warning: {tmp_path} holds weights that have not been trained")
    )
