"""A training run on texts that change after a share of its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.model import Model
from blanklm.training.epochs import Draw, PlannedBatch, training_epoch
from blanklm.training.run import Progress, Run, TrainingConfig

SECONDS_WORTH_COMPILING = 240  # compiling takes most of a minute


@dataclass(frozen=True)
class Stage:
    """Train on the texts ``first`` to ``last`` of all (as Python counts) until this share of the time is over."""

    first: int
    last: int
    until: float


def train_in_stages(
    model: Model,
    tokenizer: Tokenizer,
    texts: TokenisedTexts,
    stages: Sequence[Stage],
    validation: TokenisedTexts,
    config: TrainingConfig,
    folder: Path,
    about: dict[str, Any],
    say: Callable[[str], None] = print,
) -> Progress:
    """Train until ``config.seconds`` are over; the best model by validation loss is in ``folder``.

    A run that was cut off continues from the state of its last minute.
    """
    compiles = config.seconds >= SECONDS_WORTH_COMPILING
    run = StagedRun(stages, texts, model, tokenizer, texts, validation, config, folder, about, compiles)
    if (folder / "run.json").exists():
        run.restore()
    else:
        run.begin()
    run.go(lambda loss, speed: say(f"step {run.progress.step}: loss {loss:.4f}, {speed:,.0f} tokens/s"))
    return run.progress


class StagedRun(Run):
    def __init__(self, stages: Sequence[Stage], members: TokenisedTexts, *run: Any) -> None:
        self.stages, self.members = stages, members
        super().__init__(*run)

    @property
    def stage(self) -> Stage:
        """The stage that the clock is in."""
        spent = self.elapsed / self.config.seconds
        return next((stage for stage in self.stages if spent < stage.until), self.stages[-1])

    def _plan(self) -> Iterator[PlannedBatch]:
        epoch = self.progress.epoch + 1 if self.progress.step else 0  # one that was cut off is not begun again
        while True:  # the clock ends it
            stage = self.stage
            first, last = self.members.starts[[stage.first, stage.last]]
            members = TokenisedTexts(self.members.flat[first:last], self.members.lengths[stage.first : stage.last])
            draws = training_epoch(members, self.config.tokens_per_batch, self.config.seed, epoch, self.config.skew)
            for batch, draw in enumerate(draws, 1):
                if self.stage != stage:
                    break
                tokens = int(members.lengths[draw.indices].sum())
                yield PlannedBatch(Draw(draw.indices + stage.first, draw.fractions, draw.seeds), tokens, epoch, batch)
            epoch += 1

    def _evaluate(self) -> None:
        """In half precision on a GPU: attention in single precision would hold a square of every text in memory."""
        with self.accelerator.autocast():
            super()._evaluate()
