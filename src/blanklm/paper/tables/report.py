"""What every recipe says and writes down about a run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from blanklm.files import replacing
from blanklm.training.run import Progress, Run, TrainingConfig


def go(run: Run, name: str, say: Callable[[str], None] = print) -> float:
    """Begin a run, or go on with it, to its end, with a line now and then; the seconds that it took in all."""
    run.restore() if (run.folder / "run.json").exists() else run.begin()
    progress, started = run.progress, time.perf_counter() - run.progress.seconds

    def advance(loss: float, speed: float) -> None:
        best = f", best valid {progress.best:.4f} at {progress.best_step}" if progress.best_step else ""
        say(f"{name} step {progress.step}: loss {loss:.4f}{best}, {speed:,.0f} tokens/s")

    run.go(advance)
    return time.perf_counter() - started


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def report(
    recipe: str, model: nn.Module, training: TrainingConfig, progress: Progress, seconds: float
) -> dict[str, Any]:
    """Settings, size, hardware, speed and the validation loss, for a JSON file under results/."""
    return {
        "recipe": recipe,
        "training": asdict(training),
        "model": asdict(model.config),
        "parameters": sum(p.numel() for p in model.parameters()),
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "seconds": round(seconds, 1),
        "tokens_per_second": round(progress.tokens / seconds),
        "best_step": progress.best_step,
        "valid_bound": progress.best,
    }
