"""Train for so many seconds instead of so many steps, on texts that change on the way.

The learning rate falls with the clock, so the last step has the least rate whatever else the machine is doing. A run by
the clock cannot be repeated bit for bit: its result.json says how many steps it came to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from torch import nn

from blanklm.batching import Draw, TokenisedTexts, training_epoch
from blanklm.tokenizer import Tokenizer
from blanklm.training import Planned, Progress, Run, TrainingConfig

SECONDS_WORTH_COMPILING = 240  # compiling takes most of a minute


@dataclass(frozen=True)
class Stage:
    """Train on the texts ``first`` to ``last`` of all (as Python counts) until this share of the time is over."""

    first: int
    last: int
    until: float


def train_by_clock(
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: TokenisedTexts,
    stages: Sequence[Stage],
    validation: TokenisedTexts,
    config: TrainingConfig,
    seconds: float,
    folder: Path,
    about: dict[str, Any] | None = None,
) -> Progress:
    """Train for ``seconds``; the best model by validation loss is in ``folder``."""
    run = ClockedRun(stages, seconds, model, tokenizer, texts, validation, config, folder, about)
    run.begin()
    run.go(lambda loss, speed: print(f"step {run.progress.step}: loss {loss:.4f}, {speed:,.0f} tokens/s", flush=True))
    run.finish()
    return run.progress


class ClockedRun(Run):
    def __init__(self, stages: Sequence[Stage], seconds: float, *run: Any) -> None:
        self.stages, self.seconds, self.began = stages, seconds, time.monotonic()
        super().__init__(*run)
        self.schedule.lr_lambdas = [self.rate] * len(self.schedule.lr_lambdas)

    @property
    def worth_compiling(self) -> bool:
        return self.seconds >= SECONDS_WORTH_COMPILING

    @property
    def spent(self) -> float:
        """Of the time, as a share."""
        return (time.monotonic() - self.began) / self.seconds

    def rate(self, step: int) -> float:
        """Of the peak: a linear rise by steps, then a cosine by the clock."""
        rise = min(1.0, (step + 1) / (self.config.warmup + 1))
        return rise * 0.5 * (1 + math.cos(math.pi * min(1.0, self.spent)))

    def _plan(self) -> Iterator[Planned]:
        epoch = 0
        while self.spent < 1:
            stage = next(stage for stage in self.stages if self.spent < stage.until)
            members = self.texts.some(stage.first, stage.last)
            draws = training_epoch(members, self.config.tokens_per_batch, self.config.seed, epoch, self.config.skew)
            for batch, draw in enumerate(draws, 1):
                if self.spent >= stage.until:
                    break
                tokens = int(members.lengths[draw.indices].sum())
                shifted = Draw(draw.indices + stage.first, draw.fractions, draw.seeds)
                yield Planned(shifted, tokens, epoch, batch)
            epoch += 1

    def _evaluate(self) -> None:
        """In half precision on a GPU: attention in single precision would hold a square of every text in memory."""
        with self.accelerator.autocast():
            super()._evaluate()

    def finish(self) -> None:
        """A last evaluation, so that the last weights are kept where they are the best."""
        self._evaluate()


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
    return TokenisedTexts.flat_of(table[codes], [len(text) for text in texts])
