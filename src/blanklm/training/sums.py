"""The checksums of a model folder: of its tensors and of every other file, in the header of ``model.safetensors``.

In that file, so that the manifest and the weights it vouches for take their name in one step.

    python -m blanklm.training.sums FOLDER...    write them into folders as they are: no weight changes
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from blanklm.errors import CheckpointError
from blanklm.files import replacing, sha256_of

WEIGHTS = "model.safetensors"
TENSORS = "sha256"  # the name of the sum of all tensors
SUMS = {"config_sha256": "config.json", "tokenizer_sha256": "tokenizer.json", "words_sha256": "words.tsv.xz"}


def of_folder(folder: Path, tensors: Mapping[str, Tensor], written: Mapping[str, Path]) -> dict[str, str]:
    """Return all sums of a folder; files that are ``written`` are about to take their names in it."""
    paths = {name: written.get(file, folder / file) for name, file in SUMS.items()}
    return {TENSORS: of_tensors(tensors)} | {name: sha256_of(path) for name, path in paths.items() if path.exists()}


def of_tensors(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def written_in(folder: Path) -> dict[str, str]:
    """Read the sums of a folder; an older one has none, or not all."""
    path = folder / WEIGHTS
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is damaged or cut short ({str(error)[:300]}): copy or download it again"
        ) from None


def check_file(folder: Path, file: str) -> None:
    """Refuse a file of a folder that is not what was saved."""
    if (folder / WEIGHTS).is_file() and (folder / file).is_file():
        name = next(name for name, known in SUMS.items() if known == file)
        _compare(folder / file, written_in(folder).get(name), lambda: sha256_of(folder / file))


def check_tensors(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not what was saved."""
    _compare(folder / WEIGHTS, written_in(folder).get(TENSORS), lambda: of_tensors(tensors))


def _compare(path: Path, expected: str | None, found: Callable[[], str]) -> None:
    if expected is not None and expected != found():
        raise CheckpointError(
            f"{path} is not what was saved (its checksum differs): copy or download the folder again, or, if it was "
            f"edited on purpose, run python -m blanklm.training.sums {path.parent}"
        )


def seal(folder: Path) -> None:
    """Write the sums of a folder as it is into its weights file, of which only the header changes."""
    path = folder / WEIGHTS
    sums = of_folder(folder, load_file(str(path)), {})
    with open(path, "rb") as old, replacing(path) as temporary, open(temporary, "wb") as new:
        (length,) = struct.unpack("<Q", old.read(8))
        header = json.loads(old.read(length))
        header["__metadata__"] = header.get("__metadata__", {}) | sums
        content = json.dumps(header, separators=(",", ":")).encode()
        content += b" " * (-len(content) % 8)  # tensors begin at a multiple of 8 bytes
        new.write(struct.pack("<Q", len(content)) + content)
        shutil.copyfileobj(old, new)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        seal(Path(argument))
