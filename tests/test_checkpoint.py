"""Model folders: what is saved comes back, and every kind of damage has its own plain sentence."""

import json
import os

import pytest
import torch

from blanklm import checkpoint
from blanklm.errors import CheckpointError
from blanklm.tokenizer import Tokenizer
from tests.conftest import make_blm

SHAPE = ("layers", "heads", "width", "feedforward")


@pytest.fixture
def folder(tmp_path):
    tokenizer = Tokenizer.train("word", ["a b c d e f g h"])
    checkpoint.save(tmp_path / "model", make_blm(len(tokenizer)), tokenizer, {"licence": "none"})
    return tmp_path / "model"


def test_a_model_comes_back_as_it_was(folder):
    loaded = checkpoint.load(folder)
    for name, tensor in make_blm(12).state_dict().items():
        torch.testing.assert_close(loaded.model.state_dict()[name], tensor)
    assert loaded.about == {"licence": "none"}
    assert loaded.tokenizer.encode("a h") == Tokenizer.train("word", ["a b c d e f g h"]).encode("a h")
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors", "tokenizer.json"]


def test_half_precision_is_half_the_size_and_loads_as_float32(folder, tmp_path):
    loaded = checkpoint.load(folder)
    checkpoint.save(tmp_path / "half", loaded.model, loaded.tokenizer, dtype=torch.float16)
    sizes = [(path / "model.safetensors").stat().st_size for path in (tmp_path / "half", folder)]
    assert sizes[0] < 0.6 * sizes[1]
    assert all(p.dtype == torch.float32 for p in checkpoint.load(tmp_path / "half").model.parameters())


def edit_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "config.json is missing"),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda f: (f / "config.json").write_text("{"), "not the config of a blanklm model"),
        (lambda f: (f / "config.json").write_text('{"model_type": "bert"}'), "not the config of a blanklm model"),
        (lambda f: edit_config(f, kind="gpt"), "of kind 'gpt'"),
        (lambda f: edit_config(f, format=99), "format 99"),
        (lambda f: edit_config(f, model={"vocabulary": 12}), "does not describe a model"),
        (lambda f: edit_config(f, kind=["blm"]), "of kind"),
        (lambda f: edit_config(f, model=[1]), "not the config"),
        (lambda f: edit_config(f, about=3), "not the config"),
        (lambda f: edit_config(f, model={"vocabulary": 12, "encoder": dict.fromkeys(SHAPE, 0)}), "does not describe"),
        (lambda f: truncate(f / "model.safetensors"), "damaged or cut short"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "damaged or cut short"),
        (lambda f: Tokenizer.train("word", ["a"]).save(f / "tokenizer.json"), "come from different models"),
    ],
)
def test_damage_is_named_in_one_line(folder, damage, message):
    damage(folder)
    with pytest.raises(CheckpointError, match=message) as error:
        checkpoint.load(folder)
    assert "\n" not in str(error.value)


def test_a_failed_save_leaves_what_was_there(folder, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", no_space)
    loaded = checkpoint.load(folder)
    other = Tokenizer.train("word", ["x y z"])
    with pytest.raises(CheckpointError, match="disk is full"):
        checkpoint.save(folder, loaded.model, other, {"licence": "changed"})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_int8_is_a_quarter_of_the_size_and_close(folder, tmp_path):
    loaded = checkpoint.load(folder)
    checkpoint.save(tmp_path / "int8", loaded.model, loaded.tokenizer, dtype=torch.int8)
    again = checkpoint.load(tmp_path / "int8").model
    for name, tensor in loaded.model.state_dict().items():
        step = tensor.abs().amax(-1, keepdim=True) / 127 if tensor.dim() > 1 else tensor.abs() / 1000 + 1e-7
        assert ((again.state_dict()[name] - tensor).abs() <= 0.51 * step + 1e-7).all(), name


def test_what_tokens_begin_and_end_with_comes_back_in_every_precision(tmp_path):
    tokenizer = Tokenizer.train("bpe", ["some words to learn from"], vocabulary=262)
    model = make_blm(len(tokenizer), whole_words=True)
    model.edges.copy_(torch.from_numpy(tokenizer.edges))
    for dtype in (torch.float32, torch.float16, torch.int8):
        checkpoint.save(tmp_path, model, tokenizer, dtype=dtype)
        assert torch.equal(checkpoint.load(tmp_path).model.edges, model.edges)
    assert model.edges.any()
