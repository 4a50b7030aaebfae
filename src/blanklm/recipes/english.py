"""The bundled English model: cased, natural text, byte-level BPE, trained on canvases of whole words.

    BLANKLM_DATA=<corpora> python -m blanklm.recipes.english OUT [STEPS]

Writes OUT/run (the training run) and OUT/result.json.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from blanklm.api import BlankLM
from blanklm.batching import TokenisedTexts
from blanklm.data import read_corpus
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.recipes.report import report
from blanklm.tasks.infilling import evaluate
from blanklm.tokenizer import Tokenizer
from blanklm.training import TrainingConfig, train

MODEL = EncoderConfig(layers=7, heads=6, width=384, feedforward=1536, dropout=0.05)
TRAINING = TrainingConfig(
    steps=12_000, tokens_per_batch=131_072, learning_rate=1.5e-3, warmup=800, weight_decay=0.02, ema=0.9995,
    evaluate_every=1000, save_every=6000, log_every=50,
)  # fmt: skip
PARTS = ("mix.0", "mix.1", "mix.2", "more.0", "more.1")
VOCABULARY = 12_000
MAX_LENGTH = 512


def tokenizer_of(texts: list[str], path: Path) -> Tokenizer:
    """The tokenizer at ``path`` where it has been made before, else one trained on every fourth text."""
    if not path.exists():
        Tokenizer.train("bpe", texts[::4], vocabulary=VOCABULARY, min_count=2).save(path)
    return Tokenizer.load(path)


def main(out: Path, training: TrainingConfig = TRAINING, parts: tuple[str, ...] = PARTS) -> dict:
    out.mkdir(parents=True, exist_ok=True)
    texts = [line for part in parts for line in read_corpus("english", part)]
    validation = list(read_corpus("english", "valid"))
    tokenizer = tokenizer_of(texts, out / "tokenizer.json")
    tokenised, held_out = (TokenisedTexts(tokenizer.encode_many(t), MAX_LENGTH) for t in (texts, validation))
    print(f"{len(tokenised):,} texts, {tokenised.tokens:,} tokens", flush=True)
    torch.manual_seed(training.seed)
    model = BLM(BLMConfig(len(tokenizer), MODEL, sides_hidden=512, max_length=MAX_LENGTH, whole_words=True))
    model.edges.copy_(torch.from_numpy(tokenizer.edges))
    started = time.perf_counter()
    progress = train(model, tokenizer, tokenised, held_out, training, out / "run", show_progress=False)
    seconds = time.perf_counter() - started
    best = BlankLM.from_pretrained(out / "run")
    result = report("english", model, training, progress, seconds) | {
        "valid_bleu": evaluate(best, validation[::16], ratios=(0.1, 0.3, 0.5), seed=0),
    }
    (out / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


if __name__ == "__main__":
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else TRAINING.steps
    print(json.dumps(main(Path(sys.argv[1]), replace(TRAINING, steps=steps)), indent=2))
