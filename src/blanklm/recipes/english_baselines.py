"""The models that the bundled English model is compared with: same size, tokenizer, data and training.

    BLANKLM_DATA=<corpora> python -m blanklm.recipes.english_baselines OUT NAME [STEPS]

NAME: ``lm`` (left-to-right, judges fluency), ``fim`` (fills in the middle), ``mlm`` (masked, told the lengths).
OUT is that of recipes/english.py, whose tokenizer is used. Writes OUT/NAME/run (the training run) and
OUT/NAME/result.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from blanklm.models.fill_in_middle import FillInMiddle
from blanklm.models.left_to_right import LeftToRight
from blanklm.models.masked import Masked
from blanklm.models.predictor import Predictor, PredictorConfig
from blanklm.recipes import english
from blanklm.recipes.report import report
from blanklm.tokenizer import Tokenizer
from blanklm.training import Run, TrainingConfig

MODELS = {"lm": LeftToRight, "fim": FillInMiddle, "mlm": Masked}


def build(name: str, tokenizer: Tokenizer) -> Predictor:
    """An untrained model of the English model's size."""
    model = MODELS[name](PredictorConfig(len(tokenizer), english.MODEL, max_length=english.MAX_LENGTH))
    if hasattr(model, "starts_word"):
        model.starts_word.copy_(torch.from_numpy(tokenizer.starts_word))
    return model


def train_on_english(out: Path, name: str, make: Callable[[Tokenizer], nn.Module], training: TrainingConfig) -> dict:
    """Train what ``make`` makes of the English tokenizer; a line of progress now and then, the result in the end."""
    (out / name).mkdir(parents=True, exist_ok=True)
    tokenizer = english.tokenizer_at(out / "tokenizer.json")
    torch.manual_seed(training.seed)
    model = make(tokenizer)
    texts, held_out = (
        english.tokenised(out / "tokenizer.json", parts, model.config.max_length)
        for parts in (english.PARTS, ("valid",))
    )
    print(f"{len(texts):,} texts, {texts.tokens:,} tokens", flush=True)
    run = Run(model, tokenizer, texts, held_out, training, out / name / "run", {"name": f"english-{name}"})
    run.begin()
    progress, started = run.progress, time.perf_counter()

    def say(loss: float, speed: float) -> None:
        best = f", best valid {progress.best:.4f} at {progress.best_step}" if progress.best_step else ""
        print(f"{name} step {progress.step}: loss {loss:.4f} nats/token{best}, {speed:,.0f} tokens/s", flush=True)

    run.go(say)
    result = report(f"english {name}", model, training, progress, time.perf_counter() - started)
    (out / name / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


def main(out: Path, name: str, training: TrainingConfig = english.TRAINING) -> dict:
    return train_on_english(out, name, lambda tokenizer: build(name, tokenizer), training)


if __name__ == "__main__":
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else english.TRAINING.steps
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], replace(english.TRAINING, steps=steps)), indent=2))
