"""Training that ends by the clock: for as many seconds as there are, however far it comes in them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from blanklm.batching import TokenisedTexts
from blanklm.tokenizer import Tokenizer
from blanklm.training import Progress, Run, TrainingConfig

SECONDS_WORTH_COMPILING = 300.0


@dataclass(frozen=True)
class Clocked(TrainingConfig):
    """The learning rate rises by the step and falls, on a cosine, by the clock."""

    steps: int = 10**6
    save_every: int = 10**9  # nothing to go on from: the model itself is kept
    seconds: float = 60.0
    began: float = field(default_factory=time.monotonic)

    @property
    def worth_compiling(self) -> bool:
        return self.seconds >= SECONDS_WORTH_COMPILING

    @property
    def done(self) -> float:
        """How much of the time is over, at most 1."""
        return min(1.0, (time.monotonic() - self.began) / self.seconds)

    def learning_rate_at(self, step: int) -> float:
        return min(1.0, (step + 1) / (self.warmup + 1)) * 0.5 * (1 + math.cos(math.pi * self.done))


class OutOfTime(Exception):
    """The clock has run out."""


def train_by_the_clock(
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: TokenisedTexts,
    validation: TokenisedTexts,
    config: Clocked,
    folder: Path,
    about: dict[str, Any] | None = None,
) -> Progress:
    """Like ``training.train``; a line of progress now and then, the best model in ``folder``."""
    run = ClockedRun(model, tokenizer, texts, validation, config, folder, about)
    run.begin()
    run.go(run.say)
    return run.progress


class ClockedRun(Run):
    def go(self, advance) -> None:
        try:
            super().go(advance)
        except OutOfTime:
            self._evaluate()

    def say(self, loss: float, speed: float) -> None:
        if self.progress.step % (10 * self.config.log_every) == 0:
            best = f", best valid {self.progress.best:.4f} at {self.progress.best_step}" if self.progress.best_step else ""
            print(f"step {self.progress.step}: loss {loss:.4f}{best}, {speed:,.0f} tokens/s", flush=True)
        if self.config.done >= 1:
            raise OutOfTime
