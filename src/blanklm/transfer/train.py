"""Train what ``Transfer`` uses on texts of two styles: the classifier, then the BLM that writes in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import TrainingError
from blanklm.models.classifier import AttentionClassifier, AttentionClassifierConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.models.model import Model
from blanklm.models.rewriter import Rewriter, RewriterConfig
from blanklm.models.styled_blm import StyledBLM, StyledBLMConfig
from blanklm.training import checkpoint
from blanklm.training.config import FitOptions, TrainingConfig
from blanklm.training.fit import DEFAULT_LENGTH, encoder_config, read_and_split
from blanklm.training.progress import say
from blanklm.training.run import train

CLASSIFIER_STEPS = 2000  # at most: it learns far sooner than the BLM
OF_A_BLM = ("backbone", "tokenizer", "stream", "from_disk")  # options that a model of two styles does not have


def fit_transfer(
    style0: Path, style1: Path, out: Path, options: FitOptions, config: TrainingConfig, resume: bool = False
) -> None:
    """Train a model that rewrites texts of either style in the other one; the styles are named after their files."""
    defaults = {item.name: item.default for item in fields(options)}
    if unused := [name for name in OF_A_BLM if getattr(options, name) != defaults[name]]:
        raise TrainingError(f"a model of two styles has no {' or '.join(unused)}: leave that out")
    styles = _names_of_styles(style0, style1)
    split = [read_and_split(file, config.seed) for file in (style0, style1)]
    training, held_out = [lines for lines, _ in split], [lines for _, lines in split]
    counts = " and ".join(f"{len(lines):,} of {style!r}" for style, lines in zip(styles, training, strict=True))
    say(f"{counts} to train on, {sum(map(len, held_out)):,} to validate on")
    if resume and (out / "writer" / "tokenizer.json").exists():
        tokenizer = Tokenizer.load(out / "writer" / "tokenizer.json")
    else:
        lines = [line for of_style in training for line in of_style]
        tokenizer = Tokenizer.train(
            "word", lines, options.vocabulary, options.min_count, options.lowercase, marks_apart=True
        )
    about = {"data": f"{style0.name} and {style1.name}"}
    max_length, encoder = options.max_length or DEFAULT_LENGTH, encoder_config(options)
    train_transfer(training, held_out, styles, encoder, tokenizer, config, out, max_length, resume, about)
    say(f"the model is in {out}: blanklm transfer --model {out} --to {styles[1]} ...")


def _names_of_styles(style0: Path, style1: Path) -> list[str]:
    files = (style0, style1)
    for names in ([file.name.split(".")[0] or file.name for file in files], [file.name for file in files]):
        if names[0] != names[1]:
            return names
    raise TrainingError(f"both styles would be called {style0.name!r}: give the files different names")


def train_transfer(
    texts: Sequence[Sequence[str]],
    validation: Sequence[Sequence[str]],
    styles: Sequence[str],
    encoder: EncoderConfig,
    tokenizer: Tokenizer,
    config: TrainingConfig,
    out: Path,
    max_length: int,
    resume: bool = False,
    about: dict[str, Any] | None = None,
) -> None:
    """Train both parts on the texts of each style; ``out`` holds the model, and the two runs in folders."""

    def tokenised(by_style: Sequence[Sequence[str]]) -> TokenisedTexts:
        parts = [
            TokenisedTexts.from_ids(tokenizer.encode_many(lines), max_length, style)
            for style, lines in enumerate(by_style)
        ]
        return TokenisedTexts.joined(parts)

    training, held_out = tokenised(texts), tokenised(validation)
    torch.manual_seed(config.seed)
    classifier = AttentionClassifier(AttentionClassifierConfig(len(tokenizer), len(styles), max_length=max_length))
    writer = StyledBLM(
        StyledBLMConfig(len(tokenizer), encoder, sides_hidden=encoder.width, max_length=max_length, styles=len(styles))
    )
    steps = min(CLASSIFIER_STEPS, config.steps)
    parts: dict[str, tuple[Model, TrainingConfig]] = {
        "classifier": (classifier, replace(config, steps=steps, warmup=min(config.warmup, steps // 10))),
        "writer": (writer, config),
    }
    for name, (model, settings) in parts.items():
        started = resume and (out / name / "run.json").exists()
        progress = train(model, tokenizer, training, held_out, settings, out / name, started, about)
        say(f"{name}: best on validation texts at step {progress.best_step} of {settings.steps}")
    best = {name: checkpoint.load(out / name).model for name in parts}
    rewriter = Rewriter(RewriterConfig(list(styles), best["classifier"].config, best["writer"].config))
    rewriter.classifier.load_state_dict(best["classifier"].state_dict())
    rewriter.writer.load_state_dict(best["writer"].state_dict())
    checkpoint.save(out, rewriter, tokenizer, about, dtype=torch.float16)
