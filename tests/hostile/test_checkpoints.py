"""Model folders that somebody made to do harm: each loads as a model of numbers, or is refused in one line.

The checksums are made to fit where the attack could make them fit. What is tried takes little memory, whatever sizes
the files claim: the process may have 1.5 GB more than it has.
"""

import contextlib
import json
import math
import resource
import shutil
import struct
import time
from copy import deepcopy
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save_file

from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import CheckpointError
from blanklm.models.encoder import EncoderConfig
from blanklm.models.mixed_lblm import MixedConfig, MixedLBLM
from blanklm.training import checkpoint, sums
from tests.hostile.test_tokenizers import changed, places_in
from tests.support.models import make_blm, make_span_blm

ROOM = 1_500_000  # kB
FOREIGN = {  # what other libraries leave in a folder
    "bert": {"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 8, "vocab_size": 12},
    "a list": [1, 2],
    "a pipeline": {"_class_name": "StableDiffusionPipeline", "format": 1},
    "another format": {"format": 2, "kind": "blm", "model": {}},
    "no kind": {"format": 1, "kind": None, "model": {}},
    "a long kind": {"format": 1, "kind": "x" * 100_000, "model": {}},
    "a path": {"format": 1, "kind": "../../etc/passwd", "model": {}},
    "a module": {"format": 1, "kind": "__init__", "model": {}},
    "no settings": {"format": 1, "kind": "blm", "model": {}},
    "a backbone of another kind": {
        "format": 1, "kind": "blm",
        "model": {"vocabulary": 12, "encoder": {"settings": {"model_type": "no\nsuch"}, "longest": 12}},
    },
    "a huge backbone": {
        "format": 1, "kind": "blm",
        "model": {
            "vocabulary": 12,
            "encoder": {"settings": {"model_type": "bert", "num_hidden_layers": 10**7}, "longest": 12},
        },
    },
}  # fmt: skip


def sound_folders(folder):
    """Save small models of several kinds and precisions; return their folders."""
    words, letters = Tokenizer.train("word", ["a b c d e f g h"]), Tokenizer.train("character", ["abcdefgh"])
    mixed = MixedLBLM(MixedConfig(len(letters), EncoderConfig(1, 2, 16, 32), max_length=40, longest_blank=20))
    checkpoint.save(folder / "blm", make_blm(12), words)
    checkpoint.save(folder / "half", make_span_blm(), words, {"language": "none"}, dtype=torch.float16)
    checkpoint.save(folder / "int8", make_blm(12), words, dtype=torch.int8)
    checkpoint.save(folder / "bits", make_blm(12), words, bits=4)
    checkpoint.save(folder / "mixed", mixed, letters, {"temperature": 1.2}, dtype=torch.int8)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return sound_folders(tmp_path_factory.mktemp("sound"))


def try_to_load(folder) -> str:
    """Load a folder and return what came of it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        model = checkpoint.load(folder).model
    except CheckpointError as error:
        assert "\n" not in str(error) and len(str(error)) < 1500, error
        outcome = "refused"
    else:
        assert all(p.isfinite().all() for p in model.parameters())
        outcome = "loaded"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < ROOM
    return outcome


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_checkpoint_is_refused_in_one_line(name, sound, tmp_path):
    folder = shutil.copytree(sound[0], tmp_path / "model")
    (folder / "config.json").write_text(json.dumps(FOREIGN[name]))
    for sealed in (False, True):
        if sealed:
            sums.seal(folder)
        assert try_to_load(folder) == "refused"


def mutated_config(folder, random):
    """Change some values of the config to whatever there is."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    numbers = [math.nan, math.inf, -1, 0, 1, 3, 0.5, 1e29, 10**30, 2**31, 10**6, 10**5, True, "1", None, [], {}]
    for _ in range(random.choice([1, 1, 2, 3])):
        if not isinstance(config, dict):
            break
        place = random.choice([place for place in places_in(config) if place])
        if random.random() < 0.7:
            part = config
            for key in place[:-1]:
                part = part[key]
            part[place[-1]] = deepcopy(random.choice(numbers))
        else:
            config = changed(config, place, random)
    path.write_bytes(json.dumps(config).encode("utf-8", "surrogatepass"))


def mutated_tensors(folder, random):
    """Change the shape, the type or the values of some tensors."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    for _ in range(random.choice([1, 1, 2])):
        name = random.choice(list(weights))
        tensor, kind = weights[name], random.randrange(8)
        if kind == 0:
            weights[name] = torch.full_like(tensor.float(), random.choice([math.nan, math.inf, 1e38]))
        elif kind == 1:
            weights[name] = tensor.flatten()[: random.randrange(tensor.numel() + 1)].clone()
        elif kind == 2:
            weights[name] = tensor.to(random.choice([torch.int8, torch.int64, torch.float64, torch.bool, torch.uint8]))
        elif kind == 3:
            weights[name] = tensor[None].clone()
        elif kind == 4:
            weights[f"{name}{random.choice(['.row_scale', '.group_scales', 'x'])}"] = torch.ones(
                random.choice([(5000, 1), (1, 5000), (1,), (0,), (len(tensor.shape) and tensor.shape[0], 1), (2, 2, 2)])
            )
        elif kind == 5:
            del weights[name]
        elif kind == 6:
            weights[name] = weights[random.choice(list(weights))].clone()
        else:
            weights[name] = torch.zeros((1, *tensor.shape[1:]) if tensor.dim() else (3,), dtype=tensor.dtype)
        if not weights:
            break
    save_file(weights, path)


def mutated_header(folder, random):
    """Write another header before the same tensors."""
    path = folder / "model.safetensors"
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header = changed(header, random.choice([place for place in places_in(header) if place]), random)
    raw = json.dumps(header).encode("utf-8", "surrogatepass")
    size = len(raw) if random.random() < 0.9 else random.choice([0, 2**63, 2**64 - 1, 2**40, len(content)])
    path.write_bytes(struct.pack("<Q", size) + raw + content[8 + length :])


def mutated_bytes(folder, random):
    """Flip, cut or repeat bytes of any file."""
    path = random.choice(sorted(folder.iterdir()))
    content = bytearray(path.read_bytes())
    for _ in range(random.choice([1, 1, 10])):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    if random.random() < 0.3:
        place = random.randrange(len(content))
        content = content[:place] + random.choice([b"", b"\0" * 100, content[place:] * 2])
    path.write_bytes(content)


@pytest.mark.slow
def test_whatever_is_changed_in_a_folder_it_is_loaded_or_refused(sound, tmp_path, seconds):
    random, until, outcomes = Random(0), time.monotonic() + seconds, set()
    changes = (mutated_config, mutated_config, mutated_tensors, mutated_tensors, mutated_header, mutated_bytes)
    while time.monotonic() < until or not outcomes:
        folder = shutil.copytree(random.choice(sound), tmp_path / "model")
        random.choice(changes)(folder, random)
        if random.random() < 0.7:
            with contextlib.suppress(Exception):  # the header is none
                sums.seal(folder)
        outcomes.add(try_to_load(folder))
        shutil.rmtree(folder)
    assert outcomes <= {"loaded", "refused"}
