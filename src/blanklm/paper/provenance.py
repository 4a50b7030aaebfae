"""The one writer of results: JSON files that say where, when and by which code their numbers were measured."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from blanklm.files import replacing
from blanklm.models.model import Model
from blanklm.training.run import Progress, TrainingConfig

ROOT = Path(__file__).resolve().parents[3]  # of the checkout, if this is one
LIBRARIES = ("blanklm", "torch", "numpy", "tokenizers", "transformers", "accelerate", "sacrebleu")

Row = dict[str, Any]

_since = time.perf_counter()  # when this process began, or wrote its last result


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a file that is never half there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_result(path: Path, row: Row) -> Row:
    """Write a row with its provenance, and return it as it is in the file."""
    global _since
    write_json(path, row | {"provenance": provenance()})
    _since = time.perf_counter()
    return read_json(path)


def recorded(row: Mapping[str, Any]) -> bool:
    """Whether a result says where it comes from; those of before there was ``write_result`` only say which commit
    brought their file."""
    return bool(row.get("provenance", {}).get("recorded", True))


def provenance() -> Row:
    """Say which code runs, when, on what machine, with which libraries, by which command, and how long it took.

    The seconds are those since the process began or wrote its last result.

    Where the code was copied without its repository, $BLANKLM_COMMIT says which commit of it, unchanged, was copied.
    """
    copied = os.environ.get("BLANKLM_COMMIT")
    commit = copied or _git("rev-parse", "HEAD")
    changed = "" if copied else _git("status", "--porcelain", "--untracked-files=no")
    return {
        "commit": commit,
        "clean": None if commit is None else not changed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": {
            "cpu": hardware("cpu"),
            "gpu": hardware("cuda") if torch.cuda.is_available() else None,
            "cores": os.cpu_count(),
            "memory_gib": _memory(),
        },
        "versions": {"python": platform.python_version(), **_versions()},
        "command": shlex.join(Path(word).name if Path(word).is_absolute() else word for word in sys.argv),
        "seconds": round(time.perf_counter() - _since, 1),
    }


def hardware(device: str) -> str:
    """Name the processor behind a device."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name()
    with suppress(OSError, IndexError):  # Linux; elsewhere platform knows the name
        return re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())[0]
    return platform.processor() or platform.machine()


def report(recipe: str, model: Model, training: TrainingConfig, progress: Progress, seconds: float) -> Row:
    """Describe a training run: settings, size, speed, steps, tokens read and the validation loss."""
    return {
        "recipe": recipe,
        "training": asdict(training),
        "model": asdict(model.config),
        "parameters": model.parameter_count,
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "seconds": round(seconds, 1),
        "steps": progress.step,
        "tokens_read": progress.tokens,
        "tokens_per_second": round(progress.tokens / seconds),
        "best_step": progress.best_step,
        "valid_bound": progress.best,
    }


def _git(*arguments: str) -> str | None:
    """What git says of the checkout; None outside one, whatever repository an installed package lies in."""
    if not (ROOT / ".git").exists() or not (ROOT / "src" / "blanklm").is_dir():
        return None
    with suppress(OSError):  # there is no git
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None
    return None


def _memory() -> float | None:
    with suppress(AttributeError, ValueError, OSError):  # Windows does not tell
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return None


def _versions() -> dict[str, str]:
    versions = {}
    for library in LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            versions[library] = metadata.version(library)
    return versions
