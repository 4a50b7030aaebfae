"""A model on disk: config.json + tokenizer.json + model.safetensors. Never pickle, never half-written.

The weights file carries in its header the checksums of its tensors and of the tokenizer: in that file, so that the
manifest and what it vouches for take their name in one step.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import typing
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode

from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import CheckpointError
from blanklm.files import MODEL_FILES, replacing
from blanklm.models import int8, registry
from blanklm.models.model import Model
from blanklm.training import quantise

FORMAT = 1
LARGE = 50_000_000  # parameters
SCALE = ".row_scale"  # beside an int8 matrix
GROUP_SCALES = ".group_scales"  # beside a matrix in groups; the two shapes tell the bits
FILES = MODEL_FILES
LEXICON = "words.tsv.xz"  # beside them, in the folder of a model that restores
GREATEST_SIZE = {"config.json": 2**24, "tokenizer.json": 2**28}  # bytes; a file beyond is not ours
RETIRED = {"input_dropout": None, "layer_dropout": 0.0, "lean": 0.0}  # settings of earlier versions, switched off


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    model: Model
    tokenizer: Tokenizer
    about: dict[str, Any]  # name, summary, language, licence, data, numbers: whatever the maker wrote down


def save(
    folder: Path,
    model: Model,
    tokenizer: Tokenizer,
    about: dict[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
    weights: dict[str, torch.Tensor] | None = None,
    bits: int | None = None,
    word_bits: int | None = None,
) -> None:
    """Write the three files, each under a temporary name and then renamed: a reader never sees half of one.

    ``weights``: the model's, where they were put together from the parts that several processes hold. ``bits``: of each
    weight of the linear layers (``quantise``), and ``word_bits`` of the embeddings; all others are then stored as with
    ``dtype=torch.int8``.
    """
    for width in (bits, word_bits):
        if width is not None and width not in quantise.PLANES:
            raise CheckpointError(f"weights have {min(quantise.PLANES)} to {max(quantise.PLANES)} bits, not {width}")
    if int8.computes_in_8_bits(model):
        raise CheckpointError("this model computes in int8: load it with dtype=torch.float32 to save it")
    config = {
        "format": FORMAT,
        "kind": registry.kind_of(model),
        "model": dataclasses.asdict(model.config),
        "about": about or {},
    }
    weights = model.state_dict() if weights is None else weights
    stored: dict[str, torch.Tensor] = {}
    tied = _tied(weights)
    widths = dict.fromkeys(quantise.grouped_matrices(model), bits) if bits else {}
    widths |= dict.fromkeys(quantise.grouped_embeddings(model), word_bits) if word_bits else {}
    for name, tensor in weights.items():
        if name in tied:
            continue
        tensor = tensor.detach().cpu().contiguous()
        if width := widths.get(name):
            stored[name], stored[f"{name}{GROUP_SCALES}"] = quantise.quantise(tensor, width)
        else:
            stored |= _stored(name, tensor, torch.int8 if widths else dtype)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as files:  # all three are written before any takes its name
        paths = [files.enter_context(replacing(folder / name)) for name in FILES]
        paths[0].write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        tokenizer.save(paths[1])
        sums = {"sha256": _sum_of_tensors(stored), "tokenizer_sha256": _sum_of_file(paths[1])}
        save_file(stored, str(paths[2]), sums)


def load(folder: Path) -> Checkpoint:
    """Load the model in a folder, in float32 and ready to use; anything wrong with the folder is one clear error."""
    config = read_config(folder)
    model_class, model_config, parameters = _described(folder, config)
    tokenizer = Tokenizer.load(_existing(folder / "tokenizer.json"))
    if len(tokenizer) != model_config.vocabulary:
        raise CheckpointError(
            f"{folder}: tokenizer.json has {len(tokenizer)} tokens and the model {model_config.vocabulary}: "
            "the files come from different models"
        )
    path = _existing(folder / "model.safetensors")
    try:
        weights = _restored(_checked_weights(folder))
        if parameters > sum(tensor.numel() for tensor in weights.values()):
            raise RuntimeError(f"it has too few weights for {parameters:,} parameters")
        with _Undrawn():
            model = model_class(model_config)
        tied = {name: weights[first] for name, first in _tied(model.state_dict()).items()}
        model.load_state_dict(weights | tied, assign=not tied)  # takes the tensors as they are, without a copy
    except KeyError as error:
        raise CheckpointError(f"{path} does not fit its config.json (there is no {error})") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or cut short ({error}): copy or download it again") from None
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise CheckpointError(f"{path} does not fit its config.json ({first})") from None
    return Checkpoint(model.eval(), tokenizer, config["about"])


def parameter_count(folder: Path) -> int:
    """Count the parameters of the model in a folder, from its config.json and the header of its weights alone."""
    path = folder / "model.safetensors"
    try:
        with safe_open(path, framework="pt"):
            pass
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is missing or damaged ({error})") from None
    return _described(folder, read_config(folder))[2]


def _described(folder: Path, config: dict[str, Any]) -> tuple[type[Model], Any, int]:
    """Return the class, the config and the number of parameters of the model that a config.json describes."""
    known = registry.find(config["kind"])
    assert known is not None  # read_config has looked
    model_class, config_class = known
    try:
        model_config = from_json(config_class, config["model"])
        with torch.device("meta"), _Undrawn():  # takes no memory, whatever sizes the config claims
            return model_class, model_config, model_class(model_config).parameter_count
    except (TypeError, KeyError, AttributeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise CheckpointError(f"{folder / 'config.json'} does not describe a model of this version ({error})") from None


def device_for(device: str | None) -> str:
    """Choose where a loaded model runs: on a GPU if there is one, unless another device is given."""
    return device or ("cuda" if torch.cuda.is_available() else "cpu")


def dtype_for(model: Model) -> torch.dtype:
    """Choose the precision in which a loaded model fills on its device: a large one in int8 on every CPU."""
    if model.device.type == "cuda":
        return torch.bfloat16
    return torch.int8 if model.parameter_count >= LARGE and int8.fits(model) else torch.float32


def convert(model: Model, dtype: torch.dtype) -> Model:
    """Let a loaded model compute in a precision; in int8 it can neither be trained nor saved."""
    if dtype == torch.int8:
        int8.to_int8(model)
        return model
    return model.to(dtype)


class _Undrawn(TorchFunctionMode):
    """Builds a model without drawing first weights, all of which are about to be replaced.

    Drawing them takes time; on the device that takes no memory it also imports torch's compiler, which takes a second.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(function, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


def _checked_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Read the tensors of a folder and compare them with their checksums, which older files do not have."""
    path = folder / "model.safetensors"
    with safe_open(path, framework="pt") as file:
        sums = file.metadata() or {}
    weights = load_file(str(path))
    found = {"sha256": (path, lambda: _sum_of_tensors(weights))}
    found["tokenizer_sha256"] = (folder / "tokenizer.json", lambda: _sum_of_file(folder / "tokenizer.json"))
    for name, (damaged, computed) in found.items():
        if name in sums and sums[name] != computed():
            raise CheckpointError(
                f"{damaged} is not what was saved (its checksum differs): copy or download the folder again"
            )
    return weights


def _tied(weights: dict[str, torch.Tensor]) -> dict[str, str]:
    """Find tensors that are another one under a second name (tied weights), with its first name."""
    first: dict[tuple, str] = {}  # by place in memory
    places = {name: (t.data_ptr(), t.shape) for name, t in weights.items() if t.numel() and t.data_ptr()}
    for name, place in places.items():
        first.setdefault(place, name)
    return {name: first[place] for name, place in places.items() if first[place] != name}


def _sum_of_tensors(weights: dict[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _sum_of_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stored(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Convert a tensor for the file: int8 matrices have one scale per row, and vectors are in half precision then."""
    if not tensor.is_floating_point():
        return {name: tensor}
    if dtype != torch.int8:
        return {name: tensor.to(dtype)}
    if tensor.dim() < 2:
        return {name: tensor.half()}
    scale = (tensor.abs().amax(1, keepdim=True) / 127).clamp_min(1e-12).float()
    return {name: (tensor / scale).round().to(torch.int8), f"{name}{SCALE}": scale}


def _restored(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Convert tensors back to float32 (bools stay bools)."""
    whole = {}
    for name, tensor in weights.items():
        if name.endswith((SCALE, GROUP_SCALES)):
            continue
        if f"{name}{SCALE}" in weights:
            tensor = tensor.float() * weights[f"{name}{SCALE}"]
        elif f"{name}{GROUP_SCALES}" in weights:
            scales = weights[f"{name}{GROUP_SCALES}"]
            if not (bits := quantise.bits_of(tensor, scales)):
                raise RuntimeError(f"the shapes of {name} and its scales do not go together")
            tensor = quantise.dequantise(tensor, scales, bits)
        whole[name] = tensor.float() if tensor.is_floating_point() else tensor
    return whole


def read_config(folder: Path) -> dict[str, Any]:
    """Read and check the config.json of a model folder."""
    if not folder.is_dir():
        raise CheckpointError(f"there is no model folder {folder}")
    path = _existing(folder / "config.json")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        kind, version = config["kind"], config["format"]
        config["about"] = dict(config.get("about", {}))
        dict(config["model"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(f"{path} is not the config of a blanklm model") from None
    if version != FORMAT:
        raise CheckpointError(f"{path} has format {version}; this version of blanklm reads format {FORMAT}")
    if not isinstance(kind, str) or registry.find(kind) is None:
        raise CheckpointError(
            f"{folder} holds a model of kind {kind!r}; this version knows {', '.join(registry.kinds())}"
        )
    return config


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise CheckpointError(f"{path.parent} is not a model folder: {path.name} is missing")
    if path.stat().st_size > GREATEST_SIZE.get(path.name, math.inf):
        raise CheckpointError(f"{path} is too large to be part of a blanklm model ({path.stat().st_size:,} bytes)")
    return path


def from_json(cls: type, values: dict[str, Any]) -> Any:
    """Make a (nested) config dataclass from its JSON form; unknown or missing fields are a TypeError.

    Where a field may be one of several dataclasses, it is the one that has the fields given.
    """
    hints = typing.get_type_hints(cls)
    nested = {}
    for name, value in values.items():
        if name not in hints and name in RETIRED and value == RETIRED[name]:
            continue
        hint = hints.get(name)
        kinds = [kind for kind in typing.get_args(hint) or (hint,) if isinstance(kind, type)]
        kinds = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
        fitting = [
            kind for kind in kinds if set(value or ()) - set(RETIRED) <= {f.name for f in dataclasses.fields(kind)}
        ]
        nested[name] = from_json((fitting or kinds)[0], value) if kinds and value is not None else value
    return cls(**nested)
