"""What every recipe writes down about a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from blanklm.training import Progress, TrainingConfig


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
