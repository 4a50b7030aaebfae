"""The options of a training run: fields with their help texts, from which ``fit`` and the command line are made.

Nothing heavy is imported here, so that ``blanklm train --help`` is quick.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, get_args, get_type_hints

from blanklm.errors import TrainingError

Size = Literal["tiny", "small", "base"]
TokenizerKind = Literal["word", "character", "bpe"]
OptimizerKind = Literal["adamw", "muon"]
Precision = Literal["auto", "bf16", "float32"]


@dataclass(frozen=True)
class Help:
    """The help text of a field, which makes it an option of ``blanklm train``."""

    text: str
    automatic: bool = False  # the default depends on other options: ``parse_options`` chooses it


@dataclass(frozen=True)
class FitOptions:
    """How to make a model for the texts, before the training loop begins."""

    backbone: Annotated[str | None, Help("Start from a pretrained Hugging Face encoder: a folder or a Hub id.")] = None
    size: Annotated[Size | None, Help("Size of the model: small by default; base is the paper's.")] = None
    tokenizer: Annotated[
        TokenizerKind | None, Help("What a token is: by default a word, or what it is for the backbone.")
    ] = None
    vocabulary: Annotated[int, Help("Maximum size of the vocabulary.")] = 30_000
    min_count: Annotated[int, Help("Words that are rarer than this become unknown.")] = 1
    lowercase: Annotated[bool, Help("Lowercase all texts.")] = False
    max_length: Annotated[
        int | None, Help("Cut texts to this many tokens: by default 512, or fewer if the backbone takes fewer.")
    ] = None
    stream: Annotated[bool, Help("Join the texts into one stream with <eos>, in chunks of that length.")] = False
    from_disk: Annotated[bool, Help("Read the texts while training: for corpora that do not fit in memory.")] = False
    dropout: Annotated[float | None, Help("Dropout rate: 0.1 by default; a backbone keeps its own.")] = None

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise TrainingError(f"max_length must be at least 1, not {self.max_length}")
        if self.backbone and (self.size is not None or self.dropout is not None):
            raise TrainingError("a backbone has its own size and dropout: leave out both options")


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of the training loop, and its learning-rate schedule."""

    steps: Annotated[int, Help("Number of updates.")] = 10_000
    tokens_per_batch: Annotated[int, Help("Batch size in tokens, padding included.")] = 8192
    learning_rate: Annotated[
        float, Help("Peak learning rate: by default 0.001, 0.003 with muon, 0.0002 with a backbone.", automatic=True)
    ] = 1e-3
    optimizer: Annotated[OptimizerKind, Help("Muon needs fewer steps when training from scratch.")] = "adamw"
    warmup: Annotated[
        int, Help("Steps of linear warmup before the cosine decay: by default a tenth, at most 500.", automatic=True)
    ] = 500
    weight_decay: Annotated[float, Help("Weight decay of the matrices.")] = 0.01
    clip: float = 1.0  # largest gradient norm
    skew: float = 1.0  # the shown share of a canvas is u^skew, u uniform: the bound at 1, fuller canvases below it
    canvases: int = 1  # of each text, side by side in its batch
    ema: Annotated[float, Help("Keep an exponential moving average of the weights with this decay; 0: off.")] = 0.0
    evaluate_every: Annotated[int, Help("Steps between evaluations on the validation texts.")] = 500
    save_every: Annotated[int, Help("Steps between saved states, from which a run can be resumed.")] = 500
    log_every: int = 20
    patience: Annotated[int, Help("Stop after this many evaluations without a better bound; 0: never.")] = 0
    seed: Annotated[int, Help("Seed of the initial weights, the batches and the dropout.")] = 0
    precision: Annotated[
        Precision, Help("Precision of activations: auto is bf16 on a GPU; some CPUs are faster in bf16 too.")
    ] = "auto"
    seconds: float = 0.0  # wall-clock limit, 0: none; if set, the learning rate follows the elapsed time too

    def __post_init__(self) -> None:
        for name in ("steps", "tokens_per_batch", "canvases", "evaluate_every", "save_every", "log_every"):
            if getattr(self, name) < 1:
                raise TrainingError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("warmup", "weight_decay", "patience", "seed", "seconds"):
            if not getattr(self, name) >= 0:
                raise TrainingError(f"{name} must be 0 or more, not {getattr(self, name)}")
        for name in ("learning_rate", "clip", "skew"):
            if not 0 < getattr(self, name) < math.inf:
                raise TrainingError(f"{name} must be a number above 0, not {getattr(self, name)}")
        for name, kinds in (("precision", get_args(Precision)), ("optimizer", get_args(OptimizerKind))):
            if getattr(self, name) not in kinds:
                raise TrainingError(f"{name} must be {' or '.join(kinds)}, not {getattr(self, name)!r}")
        if not 0 <= self.ema < 1:
            raise TrainingError(f"ema must be 0 (off) or a decay below 1, not {self.ema}")

    def learning_rate_at(self, step: int, seconds: float = 0.0) -> float:
        """Return the learning rate of a step as a fraction of the peak."""
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1)
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        if self.seconds:
            done = max(done, seconds / self.seconds)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


@dataclass(frozen=True)
class Option:
    """A field that has a help text, as ``fit`` and the command line see it."""

    name: str
    type: Any
    default: Any
    help: Help


def training_options() -> list[Option]:
    """List the options of ``fit`` and ``blanklm train``."""
    options = []
    for cls in (FitOptions, TrainingConfig):
        for name, hint in get_type_hints(cls, include_extras=True).items():
            kind, *extras = get_args(hint) or (hint,)
            for text in extras:
                if isinstance(text, Help):
                    default = None if text.automatic else getattr(cls, name)
                    options.append(Option(name, kind | None if text.automatic else kind, default, text))
    return options


def parse_options(options: Mapping[str, Any]) -> tuple[FitOptions, TrainingConfig]:
    """Sort the options of ``fit`` into the two classes, and choose those that depend on others where they are None."""
    automatic = {option.name for option in training_options() if option.help.automatic}
    given = {name: value for name, value in options.items() if not (name in automatic and value is None)}
    of_fit, of_training = ({item.name for item in fields(cls)} for cls in (FitOptions, TrainingConfig))
    if unknown := given.keys() - of_fit - of_training:
        raise TrainingError(f"there is no training option {min(unknown)!r}: help(blanklm.fit) lists them")
    fit = FitOptions(**{name: value for name, value in given.items() if name in of_fit})
    config = TrainingConfig(**{name: value for name, value in given.items() if name in of_training})
    rate = 2e-4 if fit.backbone else 3e-3 if config.optimizer == "muon" else 1e-3
    defaults: dict[str, Any] = {"learning_rate": rate, "warmup": min(500, config.steps // 10)}
    return fit, replace(config, **{name: value for name, value in defaults.items() if name not in given})
