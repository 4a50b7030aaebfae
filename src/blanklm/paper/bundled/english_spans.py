"""Teach a model of English blanks that stand for spans, from the weights it has.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.english_spans OUT --start english --seconds 5400

Writes OUT/run (the training run), OUT/model (int8) and OUT/result.json. The learning rate falls by the clock. Meant for
a CPU too: every few texts of the corpus, shortened to whole sentences of at most CHARACTERS.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from blanklm.core.texts import TokenisedTexts
from blanklm.data import read_corpus
from blanklm.models.blm import BLM
from blanklm.models.span_blm import SpanBLM
from blanklm.paper.bundled.english import ABOUT, PARTS
from blanklm.paper.provenance import Row, report, write_result
from blanklm.pretrained import locate
from blanklm.training import checkpoint
from blanklm.training.run import TrainingConfig, train

CHARACTERS = 600
SPANS = 0.7  # of the canvases: blanks of words are known already
TRAINING = TrainingConfig(
    steps=100_000, tokens_per_batch=8192, learning_rate=3e-4, warmup=50, weight_decay=0.01, ema=0.995,
    evaluate_every=200, save_every=200, log_every=20, precision="bf16", seed=2,
)  # fmt: skip


def shortened(text: str) -> str:
    """Return the first sentences of a text, as many as fit into CHARACTERS; the beginning of it, if none ends there."""
    if len(text) <= CHARACTERS:
        return text
    ends = [match.end() for match in re.finditer(r"[.!?][\"”’)]?(?= )", text[:CHARACTERS])]
    return text[: ends[-1]] if ends else text[:CHARACTERS].rpartition(" ")[0]


def sample_of(parts: tuple[str, ...], every: int) -> Iterator[str]:
    """Every few texts of these parts of the corpus, shortened."""
    for part in parts:
        for number, text in enumerate(read_corpus("english", part)):
            if number % every == 0:
                yield shortened(text)


def main(out: Path, start: str, seconds: float, every: int, spans: float = SPANS) -> Row:
    loaded = checkpoint.load(locate(start))
    tokenizer, model = loaded.tokenizer, loaded.model
    assert isinstance(model, BLM)
    if not isinstance(model, SpanBLM):
        model = SpanBLM.from_words(model, tokenizer, spans)
    texts = TokenisedTexts.from_ids(tokenizer.encode_many(list(sample_of(PARTS, every))), model.config.max_length)
    held_out = TokenisedTexts.from_ids(tokenizer.encode_many(list(sample_of(("valid",), 4))), model.config.max_length)
    print(f"{len(texts):,} texts, {texts.tokens:,} tokens", flush=True)
    training = replace(TRAINING, seconds=seconds)
    started = time.perf_counter()
    progress = train(model.train(), tokenizer, texts, held_out, training, out / "run", show_progress=False)
    row = report(
        "english, spans", model, replace(training, steps=progress.step), progress, time.perf_counter() - started
    )
    best = checkpoint.load(out / "run")
    checkpoint.save(out / "model", best.model, best.tokenizer, ABOUT, dtype=torch.int8)
    return write_result(out / "result.json", row | {"start": start, "threads": torch.get_num_threads()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", default="english", help="bundled name or folder of the model to continue from")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--every", type=int, default=4, help="one text in so many")
    options = parser.parse_args()
    print(json.dumps(main(options.out, options.start, options.seconds, options.every), indent=2))
