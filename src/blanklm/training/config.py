"""The options of a training run (see ``blanklm.options``); fields without a help text are set from Python alone.

Nothing heavy is imported here, so that ``blanklm train --help`` is quick.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from blanklm.errors import TrainingError
from blanklm.options import check_options, option, setting

Size = Literal["tiny", "small", "base"]
TokenizerKind = Literal["word", "character", "bpe"]
OptimizerKind = Literal["adamw", "muon"]
Precision = Literal["auto", "bf16", "float32"]
TrainedBlanks = Literal["words", "spans", "both"]
MANY, GREATEST_RATE = 10**12, 1000.0  # beyond which a number is a slip


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of the training loop, and its learning-rate schedule."""

    steps: int = option(10_000, "Number of updates.", ge=1, le=MANY)
    tokens_per_batch: int = option(8192, "Batch size in tokens, padding included.", ge=1, le=MANY)
    learning_rate: float = setting(1e-3, gt=0, le=GREATEST_RATE)  # at its peak
    optimizer: OptimizerKind = option("adamw", "Muon needs fewer steps when training from scratch.")
    warmup: int = setting(500, ge=0, le=MANY)  # steps
    weight_decay: float = option(0.01, "Weight decay of the matrices.", ge=0, le=1000)
    clip: float = setting(1.0, gt=0)  # largest gradient norm
    # The shown share of a canvas is u^skew, u uniform: the bound at 1, fuller canvases below it.
    skew: float = setting(1.0, gt=0)
    canvases: int = setting(1, ge=1, le=1000)  # of each text, side by side in its batch
    ema: float = option(0.0, "Keep an exponential moving average of the weights with this decay; 0: off.", ge=0, lt=1)
    evaluate_every: int = option(500, "Steps between evaluations on the validation texts.", ge=1, le=MANY)
    save_every: int = option(500, "Steps between saved states, from which a run can be resumed.", ge=1, le=MANY)
    log_every: int = setting(20, ge=1, le=MANY)
    patience: int = option(0, "Stop after this many evaluations without a better bound; 0: never.", ge=0, le=MANY)
    seed: int = option(0, "Seed of the initial weights, the batches and the dropout.", ge=0, lt=2**31)
    precision: Precision = option(
        "auto", "Precision of activations: auto is bf16 on a GPU; some CPUs are faster in bf16 too."
    )
    # Wall-clock limit, 0: none; if set, the learning rate follows the elapsed time too.
    seconds: float = setting(0.0, ge=0)
    bits: int = setting(0, ge=0, le=8)  # train for weights stored at this many bits (``training.quantise``); 0: off
    # The share of the run after which its passes see the rounded weights; 1: never.
    bits_from: float = setting(0.7, ge=0, le=1)

    def __post_init__(self) -> None:
        check_options(self, lambda name, message: TrainingError(message))
        if self.bits == 1:
            raise TrainingError("bits must be 0 (off) or 2 to 8, not 1")

    def learning_rate_at(self, step: int, seconds: float = 0.0) -> float:
        """Return the learning rate of a step as a fraction of the peak."""
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        return 0.5 * (1 + math.cos(math.pi * self._done_at(step, seconds)))

    def rounds_at(self, step: int, seconds: float = 0.0) -> bool:
        """Whether a step sees weights that are rounded to ``bits``."""
        return self.bits > 0 and self.bits_from < 1 and self._done_at(step, seconds) >= self.bits_from

    def _done_at(self, step: int, seconds: float) -> float:
        """Return the share of the run, after its warmup, that is done."""
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        if self.seconds:
            done = max(done, seconds / self.seconds)
        return min(1.0, max(0.0, done))


@dataclass(frozen=True)
class FitOptions:
    """How to make a model for the texts, and what of its training depends on that."""

    backbone: str | None = option(
        None, "Start from a pretrained encoder or a Llama-type language model: a folder, a Hub id or a .gguf file."
    )
    size: Size | None = option(None, "Size of the model: small by default; base is the paper's.")
    tokenizer: TokenizerKind | None = option(
        None, "What a token is: by default a word, or what it is for the backbone."
    )
    merges: int | None = option(
        None, "Cut the tokenizer of a Llama-type backbone to its first merges; by default, all.", ge=0, le=MANY
    )
    vocabulary: int = option(30_000, "Maximum size of the vocabulary.", ge=1, le=10_000_000)
    min_count: int = option(1, "Words that are rarer than this become unknown.", ge=1, le=MANY)
    lowercase: bool = option(False, "Lowercase all texts.")
    blanks: TrainedBlanks | None = option(
        None, "What blanks hide: words at random, as in the paper, spans, or both: by default both for natural text."
    )
    max_length: int | None = option(
        None, "Cut texts to this many tokens: by default 512, or fewer if the backbone takes fewer.", ge=1, le=1_000_000
    )
    stream: bool = option(False, "Join the texts into one stream with <eos>, in chunks of that length.")
    from_disk: bool = option(False, "Read the texts while training: for corpora that do not fit in memory.")
    dropout: float | None = option(None, "Dropout rate: 0.1 by default; a backbone keeps its own.", ge=0, lt=1)
    learning_rate: float | None = option(
        None, "Peak learning rate: by default 0.001, 0.003 with muon, 0.0002 with a backbone.", gt=0, le=GREATEST_RATE
    )
    warmup: int | None = option(
        None, "Steps of linear warmup before the cosine decay: by default a tenth, at most 500.", ge=0, le=MANY
    )

    def __post_init__(self) -> None:
        check_options(self, lambda name, message: TrainingError(message))
        if self.backbone and (self.size is not None or self.dropout is not None):
            raise TrainingError("a backbone has its own size and dropout: leave out both options")

    def complete(self, config: TrainingConfig) -> TrainingConfig:
        """Give ``config`` the learning rate and the warmup, whose defaults depend on other options."""
        rate, warmup = self.learning_rate, self.warmup
        if rate is None:
            rate = 2e-4 if self.backbone else 3e-3 if config.optimizer == "muon" else 1e-3
        return replace(config, learning_rate=rate, warmup=min(500, config.steps // 10) if warmup is None else warmup)


def parse_options(options: Mapping[str, Any]) -> tuple[FitOptions, TrainingConfig]:
    """Sort the keywords of ``fit`` into the two classes."""
    of_fit, of_training = ({item.name for item in fields(cls)} for cls in (FitOptions, TrainingConfig))
    if unknown := options.keys() - of_fit - of_training:
        raise TrainingError(f"there is no training option {min(unknown)!r}: help(blanklm.fit) lists them")
    fit = FitOptions(**{name: value for name, value in options.items() if name in of_fit})
    config = TrainingConfig(**{name: value for name, value in options.items() if name not in of_fit})
    return fit, fit.complete(config)
