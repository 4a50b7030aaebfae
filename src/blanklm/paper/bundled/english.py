"""The bundled English model: cased, natural text, byte-level BPE, words written from left to right.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.english OUT

Trains in two stages, the second from the weights of the first, its learning rate rising and falling again. Writes
OUT/first/run and OUT/longer/run (the training runs), a result.json beside each, OUT/model (int8, what is bundled) and
OUT/result.json. A stage whose result is there already is not trained again.

The bundled model's learning rate fell by the clock instead of by the step in both stages, to end within the minutes
there were: the steps are how far it came.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from blanklm.api import BlankLM
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.provenance import Row, read_json, report, write_result
from blanklm.paper.tasks.infilling import evaluate
from blanklm.training import checkpoint
from blanklm.training.run import TrainingConfig, train

MODEL = EncoderConfig(layers=7, heads=6, width=384, feedforward=1536, dropout=0.05)
TRAINING = TrainingConfig(
    steps=8681, tokens_per_batch=131_072, learning_rate=1.5e-3, warmup=800, weight_decay=0.02, ema=0.999, skew=0.7,
    evaluate_every=3000, save_every=10**6, log_every=100,
)  # fmt: skip
# From the first stage's weights, so with a lower peak and a shorter rise; another seed, so other canvases.
LONGER = replace(TRAINING, steps=3396, learning_rate=1e-3, warmup=300, seed=1)
STAGES = {"first": TRAINING, "longer": LONGER}
PARTS = ("mix.0", "mix.1", "mix.2")
VOCABULARY = 12_000
MAX_LENGTH = 512
RATIOS, EVERY = (0.1, 0.3, 0.5), 16  # what is hidden, and of which validation texts, for choosing how to decode
DECODINGS: dict[str, dict[str, Any]] = {
    "all blanks at once": {"order": "parallel"},
    "at once where p is at least 0.5": {"order": "parallel", "threshold": 0.5},
    "one word at a time": {},
}
ABOUT = {
    "name": "english",
    "summary": "English as it is written: cased, punctuated, up to 512 tokens",
    "language": "English",
    "licence": "CC BY-SA 4.0",
    "data": "35.7 M words of open English text: encyclopaedia, conversation, textbooks, everyday sentences, fiction",
}


def tokenizer_at(path: Path, parts: Sequence[str] = PARTS) -> Tokenizer:
    """Load the tokenizer at ``path``, trained on every fourth text if it is not there yet."""
    if not path.exists():
        texts = chain.from_iterable(read_corpus("english", part) for part in parts)
        Tokenizer.train("bpe", islice(texts, 0, None, 4), vocabulary=VOCABULARY, min_count=2).save(path)
    return Tokenizer.load(path)


def tokenised(tokenizer_path: Path, parts: Sequence[str], max_length: int) -> TokenisedTexts:
    """Tokenise these parts of the corpus, each in a process."""
    with ProcessPoolExecutor(len(parts)) as pool:
        return TokenisedTexts.joined(list(pool.map(partial(_tokenise, tokenizer_path, max_length), parts)))


def _tokenise(tokenizer_path: Path, max_length: int, part: str) -> TokenisedTexts:
    return TokenisedTexts.from_ids(
        Tokenizer.load(tokenizer_path).encode_many(list(read_corpus("english", part))), max_length
    )


def corpus(out: Path, parts: tuple[str, ...], max_length: int) -> tuple[Tokenizer, TokenisedTexts, TokenisedTexts]:
    """Return the tokenizer in ``out``, trained if need be, and the training and held-out texts as its tokens."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizer_at(out / "tokenizer.json", parts)
    texts, held_out = (tokenised(out / "tokenizer.json", those, max_length) for those in (parts, ("valid",)))
    print(f"{len(texts):,} texts, {texts.tokens:,} tokens", flush=True)
    return tokenizer, texts, held_out


def build(tokenizer: Tokenizer, encoder: EncoderConfig) -> BLM:
    """Build an untrained model; MODEL is the encoder of the bundled one."""
    model = BLM(BLMConfig(len(tokenizer), encoder, sides_hidden=512, max_length=MAX_LENGTH, whole_words=True))
    model.set_vocabulary(tokenizer)
    return model


def main(out: Path, stages: Mapping[str, TrainingConfig], parts: tuple[str, ...] = PARTS) -> Row:
    """Train stage after stage, each from the weights of the one before; then write and measure the model."""
    tokenizer, texts, held_out = corpus(out, parts, MAX_LENGTH)
    start: Path | None = None  # the run of the stage before
    results: list[Row] = []
    for name, training in stages.items():
        folder = out / name
        if not (folder / "result.json").exists():
            torch.manual_seed(training.seed)
            model = build(tokenizer, MODEL) if start is None else checkpoint.load(start).model.train()
            started = time.perf_counter()
            progress = train(model, tokenizer, texts, held_out, training, folder / "run", show_progress=False)
            training = replace(training, steps=progress.step)  # where the clock ended it
            row = report(f"english, {name}", model, training, progress, time.perf_counter() - started)
            write_result(folder / "result.json", row)
        results.append(read_json(folder / "result.json"))
        start = folder / "run"
    best = checkpoint.load(folder / "run")
    checkpoint.save(out / "model", best.model, best.tokenizer, ABOUT, dtype=torch.int8)
    filler, sentences = BlankLM.from_pretrained(out / "model"), list(read_corpus("english", "valid"))[::EVERY]
    bleu = {
        name: evaluate(filler, sentences, RATIOS, seed=0, blanks="words", **options)
        for name, options in DECODINGS.items()
    }
    row = results[-1] | {"recipe": "english", "before": results[:-1], "valid_bleu": bleu}
    return write_result(out / "result.json", row)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    print(json.dumps(main(parser.parse_args().out, STAGES), indent=2))
