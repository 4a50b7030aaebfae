"""Training on texts that change on the way, and the character texts of the recipes that restore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from torch import nn

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.training.epochs import Draw, training_epoch
from blanklm.training.prepare import PlannedBatch
from blanklm.training.run import WORKERS, Progress, Run, TrainingConfig

SECONDS_WORTH_COMPILING = 240  # compiling takes most of a minute


@dataclass(frozen=True)
class Stage:
    """Train on the texts ``first`` to ``last`` of all (as Python counts) until this share of the time is over."""

    first: int
    last: int
    until: float


def train_in_stages(
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: TokenisedTexts,
    stages: Sequence[Stage],
    validation: TokenisedTexts,
    config: TrainingConfig,
    folder: Path,
    about: dict[str, Any] | None = None,
    workers: int = WORKERS,
    compiles: bool | None = None,
) -> Progress:
    """Train until ``config.seconds`` are over; the best model by validation loss is in ``folder``."""
    if compiles is None:
        compiles = config.seconds >= SECONDS_WORTH_COMPILING
    run = StagedRun(stages, model, tokenizer, texts, validation, config, folder, about, workers, compiles)
    run.begin()
    run.go(lambda loss, speed: print(f"step {run.progress.step}: loss {loss:.4f}, {speed:,.0f} tokens/s", flush=True))
    return run.progress


class StagedRun(Run):
    def __init__(self, stages: Sequence[Stage], *run: Any, **options: Any) -> None:
        self.stages = stages
        super().__init__(*run, **options)

    @property
    def stage(self) -> Stage:
        """The one that the clock is in."""
        spent = self.elapsed / self.config.seconds
        return next((stage for stage in self.stages if spent < stage.until), self.stages[-1])

    def _plan(self) -> Iterator[PlannedBatch]:
        epoch = 0
        while True:  # the clock ends it
            stage = self.stage
            members = self.texts.slice(stage.first, stage.last)
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


def pieces_of(texts: Sequence[str], longest: int) -> list[str]:
    """Texts cut at spaces, where there are any, into pieces of at most ``longest`` characters."""
    pieces = []
    for text in texts:
        while len(text) > longest:
            at = text.rfind(" ", longest // 2, longest) + 1 or longest
            pieces.append(text[:at].rstrip(" "))
            text = text[at:]
        if text.strip(" -#."):
            pieces.append(text)
    return pieces


def snippets(texts: Sequence[str], shortest: int, longest: int, seed: int) -> list[str]:
    """Texts cut anywhere, within words too, into pieces of random lengths: as excerpts begin and end."""
    rng, pieces = Random(seed), []
    for text in texts:
        start = -rng.randrange(longest)
        while start < len(text):
            end = start + rng.randint(shortest, longest)
            if text[max(0, start) : end].strip(" -#."):
                pieces.append(text[max(0, start) : end])
            start = end
    return pieces


def encode_characters(texts: Sequence[str], tokenizer: Tokenizer) -> TokenisedTexts:
    """What ``encode_many`` of a character tokenizer gives, by a table of code points: quick for 100 M characters."""
    table = np.full(0x110000, tokenizer.encode("\ufffe")[0], dtype=np.int32)  # no character: what is not known
    for character, i in tokenizer.backend.get_vocab().items():
        if len(character) == 1:
            table[ord(character)] = i
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
    return TokenisedTexts(table[codes], [len(text) for text in texts])
