"""Train what ``Transfer`` uses on texts of two styles: the classifier, then the BLM that writes in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path

import torch

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import TrainingError
from blanklm.models.classifier import AttentionClassifier, AttentionClassifierConfig
from blanklm.models.model import Model
from blanklm.models.rewriter import Rewriter, RewriterConfig
from blanklm.models.styled_blm import StyledBLM, StyledBLMConfig
from blanklm.training import checkpoint
from blanklm.training.config import FitOptions, TrainingConfig
from blanklm.training.fit import DEFAULT_LENGTH, encoder_config, read_and_split
from blanklm.training.progress import say
from blanklm.training.run import train

CLASSIFIER_STEPS = 2000  # at most: it learns far sooner than the BLM
OF_A_BLM = (
    "backbone",
    "start",
    "tokenizer",
    "merges",
    "blanks",
    "stream",
    "from_disk",
)  # options that a model of two styles does not have


def fit_transfer(
    style0: Path, style1: Path, out: Path, options: FitOptions, config: TrainingConfig, resume: bool = False
) -> None:
    """Train a model that rewrites texts of either style in the other one; the styles are named after their files."""
    defaults = {item.name: item.default for item in fields(options)}
    if unused := [name for name in OF_A_BLM if getattr(options, name) != defaults[name]]:
        raise TrainingError(f"a model of two styles has no {' or '.join(unused)}: leave that out")
    options = replace(options, optimizer=options.optimizer or "adamw", steps=options.steps or config.steps)
    config = options.complete(config)
    styles = _names_of_styles(style0, style1)
    split = [read_and_split(file, config.seed) for file in (style0, style1)]
    training, held_out = [lines for lines, _ in split], [lines for _, lines in split]
    counts = " and ".join(f"{len(lines):,} of {style!r}" for style, lines in zip(styles, training, strict=True))
    say(f"{counts} to train on, {sum(map(len, held_out)):,} to validate on")
    if resume and (out / "writer" / "tokenizer.json").exists():
        tokenizer = Tokenizer.load(out / "writer" / "tokenizer.json")
    else:
        lines, size = chain.from_iterable(training), options.vocabulary
        tokenizer = Tokenizer.train("word", lines, size, options.min_count, options.lowercase, marks_apart=True)
    max_length, encoder = options.max_length or DEFAULT_LENGTH, encoder_config(options)
    texts, validation = (_tokenised(lines, tokenizer, max_length) for lines in (training, held_out))
    size, steps = len(tokenizer), min(CLASSIFIER_STEPS, config.steps)
    torch.manual_seed(config.seed)
    classifier = AttentionClassifier(AttentionClassifierConfig(size, len(styles), max_length=max_length))
    writer = StyledBLM(StyledBLMConfig(size, encoder, encoder.width, max_length=max_length, styles=len(styles)))
    runs: dict[str, tuple[Model, TrainingConfig]] = {
        "classifier": (classifier, replace(config, steps=steps, warmup=min(config.warmup, steps // 10))),
        "writer": (writer, config),
    }
    about = {"data": f"{style0.name} and {style1.name}"}
    for name, (model, settings) in runs.items():
        started = resume and (out / name / "run.json").exists()
        progress = train(model, tokenizer, texts, validation, settings, out / name, started, about)
        say(f"{name}: best on validation texts at step {progress.best_step} of {settings.steps}")
    best = {name: checkpoint.load(out / name).model for name in runs}
    rewriter = Rewriter(RewriterConfig(styles, best["classifier"].config, best["writer"].config))
    rewriter.classifier.load_state_dict(best["classifier"].state_dict())
    rewriter.writer.load_state_dict(best["writer"].state_dict())
    checkpoint.save(out, rewriter, tokenizer, about, dtype=torch.float16)
    say(f"the model is in {out}: blanklm transfer --model {out} --to {styles[1]} ...")


def _tokenised(by_style: Sequence[Sequence[str]], tokenizer: Tokenizer, max_length: int) -> TokenisedTexts:
    texts = [
        TokenisedTexts.from_ids(tokenizer.encode_many(lines), max_length, style) for style, lines in enumerate(by_style)
    ]
    return TokenisedTexts.joined(texts)


def _names_of_styles(style0: Path, style1: Path) -> list[str]:
    files = (style0, style1)
    for names in ([file.name.split(".")[0] or file.name for file in files], [file.name for file in files]):
        if names[0] != names[1]:
            return names
    raise TrainingError(f"both styles would be called {style0.name!r}: give the files different names")
