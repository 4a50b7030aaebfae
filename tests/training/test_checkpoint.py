"""Model folders: what is saved comes back, and every kind of damage has its own plain sentence."""

import json
import math
import os
import pickle
import resource
import struct
import subprocess
import sys
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save_file

from blanklm import pretrained
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError, CheckpointError
from blanklm.files import sha256_of
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.training import checkpoint, quantise, sums
from tests.support.models import make_blm
from tests.support.paths import YELP_WORDS
from tests.support.runs import Payload

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
    """Change the config as somebody would who makes a folder to do harm: the checksums are those of the new one."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    sums.seal(folder)


def replace_tokenizer(folder):
    Tokenizer.train("word", ["a"]).save(folder / "tokenizer.json")
    sums.seal(folder)


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
        (replace_tokenizer, "come from different models"),
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


# --- Weights of linear layers at a few bits ----------------------------------------------------------------------


def wide_model():
    """Return a BLM with layers whose rows are whole groups, and one (sides_out) whose rows are not."""
    torch.manual_seed(0)
    return BLM(BLMConfig(12, EncoderConfig(2, 2, 128, 256, dropout=0.0), sides_hidden=48)).eval()


@pytest.mark.parametrize("bits", range(2, 9))
def test_linear_layers_come_back_as_they_are_rounded_and_the_rest_as_in_int8(folder, tmp_path, bits):
    model, tokenizer = wide_model(), checkpoint.load(folder).tokenizer
    checkpoint.save(tmp_path / "bits", model, tokenizer, bits=bits)
    checkpoint.save(tmp_path / "int8", model, tokenizer, dtype=torch.int8)
    found, int8 = (checkpoint.load(tmp_path / name).model.state_dict() for name in ("bits", "int8"))
    grouped = quantise.grouped_matrices(model)
    assert {"encoder.layers.0.feedforward_in.weight", "sides_from_word.weight"} <= grouped.keys()
    assert not {"embedding.weight", "sides_out.weight"} & grouped.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor, quantise.rounded(grouped[name], bits) if name in grouped else int8[name]), name
    again = tmp_path / "again"
    checkpoint.save(again, checkpoint.load(tmp_path / "bits").model, tokenizer, bits=bits)
    assert all(torch.equal(tensor, found[name]) for name, tensor in checkpoint.load(again).model.state_dict().items())


def test_words_may_have_bits_of_their_own(folder, tmp_path):
    model, tokenizer = wide_model(), checkpoint.load(folder).tokenizer
    checkpoint.save(tmp_path / "int8", model, tokenizer, bits=4)
    checkpoint.save(tmp_path / "six", model, tokenizer, bits=4, word_bits=6)
    found, int8 = (checkpoint.load(tmp_path / name).model.state_dict() for name in ("six", "int8"))
    assert torch.equal(found.pop("embedding.weight"), quantise.rounded(model.embedding.weight, 6))
    assert all(torch.equal(tensor, int8[name]) for name, tensor in found.items())
    with pytest.raises(CheckpointError, match="not 9"):
        checkpoint.save(tmp_path / "nine", model, tokenizer, word_bits=9)


def test_four_bits_are_half_of_int8_and_weights_may_be_given(folder, tmp_path):
    model, tokenizer, sizes = wide_model(), checkpoint.load(folder).tokenizer, {}
    for bits in (4, 5, 8):
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        checkpoint.save(tmp_path / str(bits), model, tokenizer, weights=weights, bits=bits)
        sizes[bits] = (tmp_path / str(bits) / "model.safetensors").stat().st_size
    in_groups = sum(matrix.numel() for matrix in quantise.grouped_matrices(model).values())
    assert sizes[5] - sizes[4] == pytest.approx(in_groups / 8, abs=64)
    assert sizes[8] - sizes[4] == pytest.approx(in_groups / 2, abs=64)
    assert sizes[4] < 0.65 * sum(p.numel() for p in model.parameters())
    with pytest.raises(CheckpointError, match="weights have 2 to 8 bits, not 1"):
        checkpoint.save(tmp_path / "1", model, tokenizer, bits=1)


def test_groups_that_do_not_fit_their_scales_or_the_model_are_named(folder, tmp_path):
    checkpoint.save(tmp_path / "bits", wide_model(), checkpoint.load(folder).tokenizer, bits=5)
    path = tmp_path / "bits" / "model.safetensors"
    weights, name = load_file(path), "sides_from_word.weight"
    scales = weights[f"{name}.group_scales"]
    for changed in (
        {name: weights[name][:, :-1].contiguous()},
        {name: weights[name][:-1].contiguous()},
        {name: weights[name].float()},
        {f"{name}.group_scales": scales[:, :1].contiguous()},
        {f"{name}.group_scales": scales[0].contiguous()},
        {name: weights[name].repeat(2, 1), f"{name}.group_scales": scales.repeat(2, 1)},
        {f"{name}.group_scales": scales[:, :0].contiguous()},
    ):
        save_file(weights | changed, path)
        with pytest.raises(CheckpointError, match=r"does not fit its config.json .*sides_from_word") as error:
            checkpoint.load(tmp_path / "bits")
        assert "\n" not in str(error.value)
    save_file({key: tensor for key, tensor in weights.items() if key != f"{name}.group_scales"}, path)
    with pytest.raises(CheckpointError, match=r"does not fit its config.json"):
        checkpoint.load(tmp_path / "bits")


# --- Damage that only a checksum shows, and files made to do harm ------------------------------------------------


def test_a_flipped_bit_anywhere_in_a_folder_is_noticed(folder):
    """Or it changed nothing: a bit of the header's padding."""
    sound = checkpoint.load(folder).model.state_dict()
    random = Random(0)
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        path, noticed = folder / name, 0
        whole = path.read_bytes()
        for _ in range(100):
            place = random.randrange(len(whole))
            damaged = bytearray(whole)
            damaged[place] ^= 1 << random.randrange(8)
            path.write_bytes(damaged)
            try:
                loaded = checkpoint.load(folder)
            except CheckpointError as error:
                noticed += 1
                assert "\n" not in str(error)
            else:
                assert all(torch.equal(tensor, sound[key]) for key, tensor in loaded.model.state_dict().items())
        path.write_bytes(whole)
        assert noticed >= 95, name
    path = folder / "model.safetensors"
    whole = bytearray(path.read_bytes())
    whole[-3] ^= 1
    path.write_bytes(whole)
    with pytest.raises(CheckpointError, match="its checksum differs"):
        checkpoint.load(folder)


def test_a_tokenizer_of_the_same_size_from_another_model_is_noticed(folder):
    Tokenizer.train("word", ["s t u v w x y z"]).save(folder / "tokenizer.json")
    with pytest.raises(CheckpointError, match=r"tokenizer.json is not what was saved"):
        checkpoint.load(folder)


def test_folders_from_before_there_were_checksums_load_and_can_be_given_them(folder):
    path = folder / "model.safetensors"
    weights = load_file(path)
    save_file(weights, path)
    config = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(config + b"\n")
    checkpoint.load(folder)
    sums.seal(folder)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in load_file(path).items())
    checkpoint.load(folder)
    (folder / "config.json").write_bytes(config)
    with pytest.raises(CheckpointError, match=r"config.json is not what was saved"):
        checkpoint.load(folder)


def test_every_file_of_every_bundled_model_is_under_its_checksum():
    for name in pretrained.bundled():
        folder = pretrained.HERE / name
        written = sums.written_in(folder)
        files = {key: file for key, file in sums.SUMS.items() if (folder / file).exists()}
        assert len(files) >= 2
        assert all(written[key] == sha256_of(folder / file) for key, file in files.items())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("stored_as", [torch.float32, torch.float16, torch.int8])
def test_weights_that_are_no_numbers_are_refused(tmp_path, value, stored_as):
    tokenizer = Tokenizer.train("word", ["a b c d e f g h"])
    model = make_blm(len(tokenizer))
    with torch.no_grad():
        model.embedding.weight[5, 3] = value
    checkpoint.save(tmp_path, model, tokenizer, dtype=stored_as)
    with pytest.raises(CheckpointError, match=r"does not fit its config.json .*embedding.weight holds values that"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        *({"max_length": value} for value in (math.nan, math.inf, 1e29, 10**29, 2.5, True, "512", None, 0, -1)),
        {"vocabulary": 12.0},
        {"whole_words": 1},
        {"sides_hidden": [16]},
        {"encoder": {**dict.fromkeys(SHAPE, 2), "layers": 10**6}},
        {"encoder": {**dict.fromkeys(SHAPE, 2), "dropout": math.nan}},
        {"encoder": {**dict.fromkeys(SHAPE, 2), "width": "8"}},
        {"encoder": 3},
    ],
    ids=str,
)
def test_a_number_of_the_config_that_is_none_or_out_of_range_is_refused(folder, change):
    edit_config(folder, model=json.loads((folder / "config.json").read_text())["model"] | change)
    with pytest.raises(CheckpointError, match=r"does not describe a model|is not the config of") as error:
        checkpoint.load(folder)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_a_config_in_python_is_checked_likewise():
    encoder = EncoderConfig(1, 2, 4, 4)
    for max_length in (math.nan, math.inf, 1e29, 10**29, 0):
        with pytest.raises(BlankLMError, match="`max_length` must be"):
            BLMConfig(12, encoder, max_length=max_length)


@pytest.mark.parametrize(
    "about", [{"temperature": math.nan}, {"temperature": "1"}, {"temperature": 0}, {"language": []}]
)
def test_what_a_model_says_of_itself_is_checked(folder, about):
    edit_config(folder, about=about)
    with pytest.raises(CheckpointError, match="is not the config of"):
        checkpoint.load(folder)


def test_scales_of_another_shape_are_refused_before_they_multiply(folder):
    loaded = checkpoint.load(folder)
    checkpoint.save(folder, loaded.model, loaded.tokenizer, dtype=torch.int8)
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = next(name for name in weights if f"{name}.row_scale" in weights)
    vector = next(name for name, tensor in weights.items() if tensor.dim() == 1 and tensor.dtype == torch.float16)
    wide = torch.ones(20_000, 1, 1)  # with the matrix: 20,000 times its size
    for changed in (
        {f"{name}.row_scale": wide},
        {name: weights[name][:, :1].contiguous(), f"{name}.row_scale": torch.ones(1, 20_000)},
        {name: torch.ones(20_000, 1, dtype=torch.int8), f"{name}.row_scale": torch.ones(1, 20_000)},
        {vector: weights[vector].to(torch.int8), f"{vector}.row_scale": torch.ones(len(weights[vector]), 1)},
        {f"{name}.row_scale": weights[f"{name}.row_scale"] * math.inf},
        {f"{name}.row_scale": weights[f"{name}.row_scale"] * 0 + 3e38},
    ):
        save_file(weights | changed, path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(CheckpointError, match=r"does not fit its config.json") as error:
            checkpoint.load(folder)
        assert "\n" not in str(error.value)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def header(values, data=b"", length=None):
    raw = values if isinstance(values, bytes) else json.dumps(values).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def tensor(dtype="F32", shape=(2, 2), offsets=(0, 16)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    "content",
    [
        header(b"{}", length=2**63),
        header(b"{}", length=2**40),
        header(b"{" * 100_000),
        header({"a": tensor(shape=(2**40, 2**40))}, b"\0" * 16),
        header({"a": tensor(shape=(2**62, 4), offsets=(0, 0))}),
        header({"a": tensor(offsets=(0, 2**50))}, b"\0" * 16),
        header({"a": tensor(), "b": tensor()}, b"\0" * 16),
        header({"a": tensor(offsets=(16, 0))}, b"\0" * 16),
        header({"a": tensor("P64")}, b"\0" * 16),
        header([1, 2]),
        pickle.dumps({"a": 1}),
        b"PK\x03\x04" + b"\0" * 100,
    ],
    ids=range(12),
)
def test_weights_made_to_do_harm_are_refused(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged or cut short"):
        checkpoint.load(folder)


def test_a_tensor_of_the_wrong_shape_or_name_is_named(folder):
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = next(name for name, tensor in weights.items() if tensor.dim() == 2)
    for changed in ({name: weights[name].T.contiguous()[:, :3].contiguous()}, {"stranger": torch.zeros(2)}):
        save_file(weights | changed, path)
        with pytest.raises(CheckpointError, match=r"does not fit its config.json .*(size mismatch|stranger|too few)"):
            checkpoint.load(folder)


def test_a_config_that_claims_a_huge_model_takes_no_memory(folder):
    config = json.loads((folder / "config.json").read_text())["model"]
    for encoder in ({"width": 2**20, "feedforward": 2**22}, {"feedforward": 2**40}, {"feedforward": 2**70}):
        edit_config(folder, model=config | {"encoder": config["encoder"] | encoder})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(CheckpointError, match=r"does not describe|does not fit"):
            checkpoint.load(folder)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_files_too_large_to_be_ours_are_not_read(folder):
    for name, size in checkpoint.GREATEST_SIZE.items():
        whole = (folder / name).read_bytes()
        os.truncate(folder / name, size + 1)  # a sparse file: takes no room
        with pytest.raises(CheckpointError, match=f"{name} is too large"):
            checkpoint.load(folder)
        (folder / name).write_bytes(whole)


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"model": {"type": "WordLevel", "vocab": {"a": 99999999999999999999}}}', b"\xff\xfe", b"null"],
    ids=range(4),
)
def test_a_tokenizer_made_to_do_harm_is_refused(folder, content):
    (folder / "tokenizer.json").write_bytes(content)
    sums.seal(folder)
    with pytest.raises(CheckpointError, match="not a readable tokenizer file") as error:
        checkpoint.load(folder)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_pickles_are_never_opened(folder, tmp_path):
    for name in ("pytorch_model.bin", "model.pt", "model.safetensors"):
        (folder / name).write_bytes(pickle.dumps(Payload(tmp_path / "owned")))
    with pytest.raises(CheckpointError, match="damaged or cut short"):
        checkpoint.load(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model.safetensors is missing"):
        checkpoint.load(folder)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "name", ["..", "../x", "a/..", "../../etc", "a/../../b", "/etc/x", "~/x", "a/b\0c", "org/na me", "a/-b", "a\\..\\b"]
)
def test_names_that_are_no_hub_names_reach_neither_the_network_nor_other_folders(name, monkeypatch):
    def no_network(*_, **__):
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", no_network)
    monkeypatch.setattr("socket.getaddrinfo", no_network)
    with pytest.raises(CheckpointError) as error:
        checkpoint.load(pretrained.locate(name))
    assert "network was asked" not in str(error.value)


@pytest.mark.slow
def test_loading_draws_nothing_and_imports_no_compiler(tmp_path):
    """A person waits for it: what is drawn would be thrown away, and the compiler takes a second to import."""
    code = (
        "import sys, torch; from blanklm import BlankLM; torch.manual_seed(3); before = torch.get_rng_state();"
        f"BlankLM.from_pretrained({YELP_WORDS!r}, device='cpu');"
        "assert torch.equal(before, torch.get_rng_state()); assert 'torch._dynamo' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
