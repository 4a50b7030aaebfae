"""The recipe of a character model that restores: from a corpus to a model folder and its numbers."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Literal

import torch

from blanklm.core.tokenizer import Tokenizer
from blanklm.models.encoder import EncoderConfig
from blanklm.models.lblm import LBLM, LBLMConfig
from blanklm.models.mixed_lblm import MixedConfig, MixedLBLM
from blanklm.paper.baselines.pythia import Pythia, PythiaConfig
from blanklm.paper.bundled.characters import encode_characters
from blanklm.paper.bundled.staged_run import Stage, train_in_stages
from blanklm.paper.provenance import report, write_result
from blanklm.paper.tasks.masking import slots_of_corpus
from blanklm.paper.tasks.restoration import calibrate
from blanklm.restoration.lexicon import Lexicon
from blanklm.restoration.restorer import Restorer
from blanklm.training import checkpoint
from blanklm.training.run import TrainingConfig

PYTHIA_WORDS = 32_768
PYTHIA_TOKENS = 65_536
CALIBRATION_TEXTS = 400  # validation texts that the temperature is found on

Kind = Literal["mixed", "lblm", "pythia", "pythia-word"]


@dataclass(frozen=True)
class Corpus:
    texts: Sequence[str]
    stages: Sequence[Stage]
    validation: Sequence[str]
    lexicon: Lexicon  # of the documents
    dropped: int = 0  # texts that stand in the validation or test texts, too


@dataclass(frozen=True)
class Recipe:
    """How a bundled model is made; with another ``kind``, a baseline on the same texts."""

    name: str
    encoder: EncoderConfig
    words: int
    training: TrainingConfig
    about: dict[str, Any] = field(default_factory=dict)
    kind: Kind = "mixed"
    max_length: int = 1000  # characters that are read at once

    def build(self, tokenizer: Tokenizer) -> MixedLBLM | LBLM | Pythia:
        model: MixedLBLM | LBLM | Pythia
        match self.kind:
            case "mixed":
                model = MixedLBLM(MixedConfig(len(tokenizer), self.encoder, self.max_length, words=self.words))
            case "lblm":
                model = LBLM(LBLMConfig(len(tokenizer), self.encoder))
            case _:
                model = Pythia(PythiaConfig(len(tokenizer), words=PYTHIA_WORDS if self.kind == "pythia-word" else 0))
        model.set_vocabulary(tokenizer)
        return model

    @property
    def schedule(self) -> TrainingConfig:
        if self.kind.startswith("pythia"):
            return replace(self.training, tokens_per_batch=PYTHIA_TOKENS, learning_rate=2e-3, weight_decay=0.0)
        if self.kind == "lblm":
            return replace(self.training, skew=1.0)  # as in the paper
        return self.training

    def make(
        self,
        out: Path,
        corpus: Corpus,
        seconds: float,
        calibration_texts: int = CALIBRATION_TEXTS,
        say: Callable[[str], None] = print,
    ) -> dict[str, Any]:
        """Train for so many seconds, calibrate, and write OUT/run, OUT/model, OUT/half and OUT/result.json."""
        tokenizer = Tokenizer.train("character", corpus.texts)
        torch.manual_seed(self.training.seed)
        model = self.build(tokenizer)
        texts, validation = (encode_characters(part, tokenizer) for part in (corpus.texts, corpus.validation))
        training = replace(self.schedule, seconds=seconds)
        started = time.perf_counter()
        progress = train_in_stages(
            model, tokenizer, texts, corpus.stages, validation, training, out / "run", self.about, say
        )
        took = time.perf_counter() - started
        best = checkpoint.load(out / "run")
        checkpoint.save(out / "half", best.model, best.tokenizer, self.about, dtype=torch.float16)  # come what may
        about, costs = self.about, {}
        if self.kind == "mixed":
            for folder in (out / "half", out / "model"):
                folder.mkdir(exist_ok=True)
                corpus.lexicon.save(folder)
        if not self.kind.startswith("pythia"):
            chosen = Random(self.training.seed).sample(
                corpus.validation, min(calibration_texts, len(corpus.validation))
            )
            costs = calibrate(Restorer.from_pretrained(out / "half"), slots_of_corpus(chosen, None, self.training.seed))
            about = about | {"temperature": min(costs, key=costs.__getitem__)}
        bits = training.bits or None  # each matrix in so many, as it was trained; else all in 8
        checkpoint.save(
            out / "model", best.model, best.tokenizer, about, torch.int8, bits=bits, word_bits=8 if bits else None
        )
        checkpoint.save(out / "half", best.model, best.tokenizer, about, dtype=torch.float16)
        settings = replace(training, steps=progress.step)
        result = report(self.name, model, settings, progress, took) | {"kind": self.kind, "calibration": costs}
        size = sum(path.stat().st_size for path in (out / "model").iterdir())
        result |= {"texts": len(corpus.texts), "characters": texts.tokens, "model_bytes": size}
        result |= {"texts_dropped": corpus.dropped}
        return write_result(out / "result.json", result)


def main(recipe: Recipe, corpus: Callable[[], Corpus], seconds: float) -> None:
    """Make a bundled model from the command line."""
    parser = argparse.ArgumentParser(description=f"Train the bundled model {recipe.name}.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=seconds, help="of training (default: %(default)g)")
    options = parser.parse_args()
    print(json.dumps(recipe.make(options.out, corpus(), options.seconds), indent=2))
