"""A model on disk: config.json + tokenizer.json + model.safetensors. Never pickle, never half-written.

Somebody else may have written it: every file is compared with its checksum (``sums``), every number of the config is
checked, and every tensor's shape, before anything is built from them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode

from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import CheckpointError
from blanklm.files import MODEL_FILES, replacing
from blanklm.models import int8, registry
from blanklm.models.model import Model
from blanklm.models.settings import is_finite
from blanklm.training import quantise, sums

FORMAT = 1
LARGE = 50_000_000  # parameters
SCALE = ".row_scale"  # beside an int8 matrix
GROUP_SCALES = ".group_scales"  # beside a matrix in groups; the two shapes tell the bits
FILES = MODEL_FILES
LEXICON = "words.tsv.xz"  # beside them, in the folder of a model that restores
GREATEST_SIZE = {"config.json": 2**20, "tokenizer.json": 2**26}  # bytes; a file beyond is not ours
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
        save_file(stored, str(paths[2]), sums.of_folder(folder, stored, dict(zip(FILES[:2], paths, strict=False))))


def load(folder: Path) -> Checkpoint:
    """Load the model in a folder, in float32 and ready to use; anything wrong with the folder is one clear error."""
    config = read_config(folder)
    model_class, described = _described(folder, config)
    path = _existing(folder / "tokenizer.json")
    sums.check_file(folder, path.name)
    tokenizer = Tokenizer.load(path)
    if len(tokenizer) != described.config.vocabulary:
        raise CheckpointError(
            f"{folder}: tokenizer.json has {len(tokenizer)} tokens and the model {described.config.vocabulary}: "
            "the files come from different models"
        )
    path = _existing(folder / sums.WEIGHTS)
    try:
        stored = load_file(str(path))
        sums.check_tensors(folder, stored)
        weights = _restored(stored, described)
        with _Undrawn():
            model = model_class(described.config)
        tied = {name: weights[first] for name, first in _tied(model.state_dict()).items()}
        model.load_state_dict(weights | tied, assign=not tied)  # takes the tensors as they are, without a copy
    except CheckpointError:
        raise
    except KeyError as error:
        raise CheckpointError(f"{path} does not fit its config.json (there is no {error})") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or cut short ({_reason(error)}): copy or download it again") from None
    except RuntimeError as error:
        raise CheckpointError(f"{path} does not fit its config.json ({_reason(error, -1)})") from None
    return Checkpoint(model.eval(), tokenizer, config["about"])


def parameter_count(folder: Path) -> int:
    """Count the parameters of the model in a folder, from its config.json and the header of its weights alone."""
    _existing(folder / sums.WEIGHTS)
    return _described(folder, read_config(folder))[1].parameter_count


def _described(folder: Path, config: dict[str, Any]) -> tuple[type[Model], Model]:
    """Return the class of the model that a config.json describes, and one of it that takes no memory."""
    known = registry.find(config["kind"])
    assert known is not None  # read_config has looked
    model_class, config_class = known
    try:
        model_config = from_json(config_class, config["model"])
        with torch.device("meta"), _Undrawn():  # takes no memory, whatever sizes the config claims
            return model_class, model_class(model_config)
    except Exception as error:  # of whatever class: anything may stand in the file
        reason = _reason(error)
        raise CheckpointError(
            f"{folder / 'config.json'} does not describe a model of this version ({reason})"
        ) from None


def _reason(error: Exception, line: int = 0) -> str:
    """Return one line of an error of a library, cut short."""
    return (str(error).splitlines() or [type(error).__name__])[line].strip()[:300]


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


def _tied(weights: dict[str, torch.Tensor]) -> dict[str, str]:
    """Find tensors that are another one under a second name (tied weights), with its first name."""
    first: dict[tuple, str] = {}  # by place in memory
    places = {name: (t.data_ptr(), t.shape) for name, t in weights.items() if t.numel() and t.data_ptr()}
    for name, place in places.items():
        first.setdefault(place, name)
    return {name: first[place] for name, place in places.items() if first[place] != name}


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


def _restored(stored: dict[str, torch.Tensor], described: Model) -> dict[str, torch.Tensor]:
    """Convert tensors back to float32 (bools stay bools), if they are those of the model ``described``."""
    expected, tied = described.state_dict(), _second_names(described)
    whole = {}
    for name, tensor in stored.items():
        scales = next((f"{name}{end}" for end in (SCALE, GROUP_SCALES) if f"{name}{end}" in stored), None)
        if name not in expected:
            if not any(name == f"{matrix}{end}" for matrix in expected for end in (SCALE, GROUP_SCALES)):
                raise RuntimeError(f"{name} is none of its tensors")
            continue
        whole[name] = _unpacked(name, tensor, expected[name], None if scales is None else stored[scales], scales)
    if missing := expected.keys() - whole.keys() - tied:
        raise RuntimeError(f"{min(missing)} is missing: it has too few weights")
    return whole


def _unpacked(
    name: str, tensor: torch.Tensor, expected: torch.Tensor, scales: torch.Tensor | None, scaled_by: str | None
) -> torch.Tensor:
    """Convert one tensor; its shape is that of the model, its scales fit it, and all of its values are numbers."""
    if scales is None:
        _check_shape(name, tensor, expected.shape)
        if tensor.is_floating_point() != expected.is_floating_point() or (
            not tensor.is_floating_point() and tensor.dtype != expected.dtype
        ):
            raise RuntimeError(f"{name} holds {tensor.dtype} where {expected.dtype} is expected")
        tensor = tensor.float() if tensor.is_floating_point() else tensor
        _check_finite(name, tensor)
        return tensor
    _check_finite(name, scales.float() * 2**8)  # as are the products of numbers of 8 bits with them
    if scaled_by == f"{name}{SCALE}":
        if tensor.dtype != torch.int8 or tensor.dim() < 2:
            raise RuntimeError(f"{name} is no matrix of 8 bits, though it has scales")
        _check_shape(name, tensor, expected.shape)
        _check_shape(scaled_by, scales, torch.Size([expected.shape[0], 1, *expected.shape[2:]]))
        return tensor.float() * scales.float()
    bits = quantise.bits_of(tensor, scales)
    if not bits:
        raise RuntimeError(f"the shapes of {name} and its scales do not go together")
    _check_shape(name, torch.empty(len(scales), scales.shape[1] * quantise.GROUP, device="meta"), expected.shape)
    return quantise.dequantise(tensor, scales, bits)


def _check_shape(name: str, tensor: torch.Tensor, expected: torch.Size) -> None:
    if tensor.shape != expected:
        raise RuntimeError(f"size mismatch for {name}: {list(tensor.shape)} where {list(expected)} is expected")


def _check_finite(name: str, tensor: torch.Tensor) -> None:
    if tensor.is_floating_point() and not tensor.isfinite().all():
        raise RuntimeError(f"{name} holds values that are no numbers (NaN or infinite)")


def _second_names(model: Model) -> set[str]:
    """Return the names of parameters that have another name before (tied weights)."""
    first: dict[int, str] = {}
    names = [(name, id(p)) for name, p in model.named_parameters(remove_duplicate=False)]
    for name, p in names:
        first.setdefault(p, name)
    return {name for name, p in names if first[p] != name}


def read_config(folder: Path) -> dict[str, Any]:
    """Read and check the config.json of a model folder."""
    if not folder.is_dir():
        raise CheckpointError(f"there is no model folder {folder}")
    path = _existing(folder / "config.json")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        kind, version = config["kind"], config["format"]
        config["about"] = _checked_about(dict(config.get("about", {})))
        if not isinstance(config["model"], dict) or not is_finite(config["model"]):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(f"{path} is not the config of a blanklm model") from None
    if version != FORMAT:
        raise CheckpointError(f"{path} has format {str(version)[:40]}; this version of blanklm reads format {FORMAT}")
    if not isinstance(kind, str) or registry.find(kind) is None:
        raise CheckpointError(
            f"{folder} holds a model of kind {str(kind)[:40]!r}; this version knows {', '.join(registry.kinds())}"
        )
    sums.check_file(folder, path.name)
    return config


def _checked_about(about: dict[str, Any]) -> dict[str, Any]:
    """Refuse what would mislead a reader of ``about``: names that are no texts, a temperature that is none."""
    texts = [about.get(name, "") for name in ("name", "summary", "language", "licence", "data")]
    temperature = about.get("temperature", 1.0)
    if not all(isinstance(text, str) for text in texts) or isinstance(temperature, bool) or not is_finite(about):
        raise ValueError
    if not isinstance(temperature, int | float) or not 0 < temperature <= 100:
        raise ValueError
    return about


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
