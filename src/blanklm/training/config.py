"""The options of a training run (see ``blanklm.options``); fields without a help text are set from Python alone.

Nothing heavy is imported here, so that ``blanklm train --help`` is quick.
"""

from __future__ import annotations

import math
import os
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

    steps: int = setting(10_000, ge=1, le=MANY)
    tokens_per_batch: int = setting(8192, ge=1, le=MANY)
    learning_rate: float = setting(1e-3, gt=0, le=GREATEST_RATE)  # at its peak
    optimizer: OptimizerKind = "adamw"
    warmup: int = setting(500, ge=0, le=MANY)  # steps
    weight_decay: float = option(0.01, "Weight decay of the matrices.", ge=0, le=1000)
    clip: float = setting(1.0, gt=0)  # largest gradient norm
    # The shown share of a canvas is u^skew, u uniform: the bound at 1, fuller canvases below it.
    skew: float = setting(1.0, gt=0)
    canvases: int = setting(1, ge=1, le=1000)  # of each text, side by side in its batch
    ema: float = option(0.0, "Keep an exponential moving average of the weights with this decay; 0: off.", ge=0, lt=1)
    evaluate_every: int = option(500, "Steps between evaluations on the validation texts.", ge=1, le=MANY)
    save_every: int = option(500, "Steps between saved states; one is also saved every minute.", ge=1, le=MANY)
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


SCRATCH = "scratch"
# Options that a model to start from has decided.
OF_A_NEW_MODEL = (
    "backbone", "size", "tokenizer", "merges", "vocabulary", "min_count", "lowercase", "max_length", "dropout",
)  # fmt: skip
LARGEST_BATCH = 8192  # tokens, by default
SMALLEST_BATCH = 1024
BATCHES = 32  # of an epoch, where a smaller batch than the largest makes as many
EPOCHS = 30  # at most, by default
MINUTES = 10.0  # by default
LONGEST_WARMUP = {False: 500, True: 50}  # steps, by whether the clock ends the run
DECIDED = ("steps", "tokens_per_batch", "optimizer", "learning_rate", "warmup")  # what ``complete`` decides


@dataclass(frozen=True)
class FitOptions:
    """How to make a model for the texts, and what of its training depends on that."""

    minutes: float | None = option(
        None, "Minutes to train: 10 by default, or as long as --steps takes.", gt=0, le=10_000_000
    )
    steps: int | None = option(
        None, "Number of updates: by default 30 passes over the texts, if time allows.", ge=1, le=MANY
    )
    start: str | None = option(
        None,
        "Start from this model: a bundled one, a folder or a Hub id; scratch: from none. By default english-small "
        "if the texts are English and no option asks for another kind of model.",
    )
    backbone: str | None = option(
        None, "Start from a pretrained encoder or a Llama-type language model: a folder, a Hub id or a .gguf file."
    )
    size: Size | None = option(None, "Size of the model: small by default; base is the paper's.")
    tokenizer: TokenizerKind | None = option(
        None, "Kind of token: by default bpe (parts of words), or that of the model to start from."
    )
    merges: int | None = option(
        None, "Keep only the first merges of a Llama-type backbone's tokenizer; by default all.", ge=0, le=MANY
    )
    vocabulary: int = option(30_000, "Maximum size of the vocabulary.", ge=1, le=10_000_000)
    min_count: int = option(1, "Rarer words become unknown.", ge=1, le=MANY)
    lowercase: bool = option(False, "Lowercase all texts.")
    blanks: TrainedBlanks | None = option(
        None, "What blanks hide: random words as in the paper, spans, or both; by default both for natural text."
    )
    max_length: int | None = option(
        None, "Cut texts to this many tokens: by default 512, or fewer if the backbone takes fewer.", ge=1, le=1_000_000
    )
    stream: bool = option(False, "Join the texts into one stream with <eos>, in chunks of that length.")
    from_disk: bool = option(False, "Read the texts while training: for corpora that do not fit in memory.")
    dropout: float | None = option(None, "Dropout rate: 0.1 by default; a backbone keeps its own.", ge=0, lt=1)
    tokens_per_batch: int | None = option(
        None, "Batch size in tokens, padding included: by default 8192, or fewer if the texts are few.", ge=1, le=MANY
    )
    optimizer: OptimizerKind | None = option(
        None, "By default muon from scratch, where it needs fewer steps, and adamw otherwise."
    )
    learning_rate: float | None = option(
        None, "Peak learning rate: by default 0.003 with muon, 0.001 with adamw from scratch, less otherwise.",
        gt=0, le=GREATEST_RATE,
    )  # fmt: skip
    warmup: int | None = option(
        None, "Steps of linear warmup before the cosine decay: by default a tenth, at most 500, or 50 if time is set.",
        ge=0, le=MANY,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_options(self, lambda name, message: TrainingError(message))
        if self.backbone and (self.size is not None or self.dropout is not None):
            raise TrainingError("a backbone has its own size and dropout: leave out both options")
        if self.start not in (None, SCRATCH) and (own := self.of_another_model):
            raise TrainingError(f"a model to start from has its own {' and '.join(own)}: leave out start or those")

    @property
    def of_another_model(self) -> list[str]:
        """The options that ask for a model of another kind than one that is there to start from."""
        defaults = {item.name: item.default for item in fields(self)}
        return [name for name in OF_A_NEW_MODEL if getattr(self, name) != defaults[name]]

    def complete(self, config: TrainingConfig, tokens: int | None = None, started: bool = False) -> TrainingConfig:
        """Decide what depends on other options, on the ``tokens`` of the corpus, or on whether a model is there.

        ``tokens`` is None where the texts are read while training.
        """
        batch = LARGEST_BATCH if tokens is None else min(LARGEST_BATCH, max(SMALLEST_BATCH, tokens // BATCHES))
        batch = self.tokens_per_batch or batch
        steps, evaluate_every = self.steps, config.evaluate_every
        if steps is None:
            epoch = config.steps // EPOCHS if tokens is None else tokens // batch + 1
            steps, evaluate_every = max(200, EPOCHS * epoch), min(evaluate_every, max(25, epoch))
        one_process = os.environ.get("WORLD_SIZE", "1") == "1"  # several would not stop at the same step
        minutes = self.minutes or (MINUTES if self.steps is None and one_process else 0.0)
        optimizer = self.optimizer or ("adamw" if started or self.backbone else "muon")
        rate = self.learning_rate
        if rate is None:
            rate = 2e-4 if self.backbone else 3e-3 if optimizer == "muon" else 3e-4 if started else 1e-3
        warmup = min(LONGEST_WARMUP[minutes > 0], steps // 10) if self.warmup is None else self.warmup
        return replace(
            config, steps=steps, tokens_per_batch=batch, optimizer=optimizer, learning_rate=rate, warmup=warmup,
            evaluate_every=evaluate_every, seconds=60 * minutes or config.seconds,
        )  # fmt: skip

    def resumed(self, config: TrainingConfig, before: Mapping[str, Any]) -> TrainingConfig:
        """Keep what was decided for the run ``before`` in all that these options do not say otherwise."""
        kept = {name: before[name] for name in DECIDED if getattr(self, name) is None and name in before}
        seconds = before.get("seconds", 0.0)
        if self.minutes is not None:
            if self.steps is None and seconds:  # a longer time has room for as many more steps
                kept["steps"] = max(kept["steps"], round(kept["steps"] * 60 * self.minutes / seconds))
            seconds = 60 * self.minutes
        elif self.steps is not None and self.steps != before.get("steps"):
            seconds = 0.0
        if self.steps is None and "evaluate_every" in before:
            kept["evaluate_every"] = before["evaluate_every"]
        return replace(config, **kept, seconds=seconds)


def parse_options(options: Mapping[str, Any]) -> tuple[FitOptions, TrainingConfig]:
    """Sort the keywords of ``fit`` into the two classes."""
    of_fit, of_training = ({item.name for item in fields(cls)} for cls in (FitOptions, TrainingConfig))
    if unknown := options.keys() - of_fit - of_training:
        raise TrainingError(f"there is no training option {min(unknown)!r}: help(blanklm.fit) lists them")
    fit = FitOptions(**{name: value for name, value in options.items() if name in of_fit})
    return fit, TrainingConfig(**{name: value for name, value in options.items() if name not in of_fit})
