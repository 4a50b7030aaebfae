"""Train what ``Transfer`` uses on texts of two styles: the classifier, then the BLM that writes in both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.classifier import AttentionClassifier, AttentionClassifierConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.models.rewriter import Rewriter, RewriterConfig
from blanklm.models.styled_blm import StyledBLM, StyledBLMConfig
from blanklm.training import checkpoint
from blanklm.training.run import TrainingConfig, train

CLASSIFIER_STEPS = 2000  # at most: it learns far sooner than the BLM


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
    say: Callable[[str], None] = print,
) -> None:
    """``texts`` and ``validation`` have the texts of each style. OUT holds the model, and the two runs in folders."""

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
    parts: dict[str, tuple[nn.Module, TrainingConfig]] = {
        "classifier": (classifier, replace(config, steps=steps, warmup=min(config.warmup, steps // 10))),
        "writer": (writer, config),
    }
    for name, (model, settings) in parts.items():
        going_on = resume and (out / name / "run.json").exists()
        progress = train(model, tokenizer, training, held_out, settings, out / name, going_on, about)
        say(f"{name}: best on validation texts at step {progress.best_step} of {settings.steps}")
    best = {name: checkpoint.load(out / name).model for name in parts}
    rewriter = Rewriter(RewriterConfig(list(styles), best["classifier"].config, best["writer"].config))
    for name, model in best.items():
        getattr(rewriter, name).load_state_dict(model.state_dict())
    checkpoint.save(out, rewriter, tokenizer, about, dtype=torch.float16)
