"""The bundled English model: cased, natural text, byte-level BPE, trained on canvases of whole words.

    BLANKLM_DATA=<corpora> python -m blanklm.recipes.english OUT [STEPS]

Writes OUT/run (the training run) and OUT/result.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, islice
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
    steps=12_000, tokens_per_batch=131_072, learning_rate=1.5e-3, warmup=800, weight_decay=0.02, ema=0.9995, skew=0.7,
    evaluate_every=2000, save_every=10**6, log_every=50,
)  # fmt: skip
PARTS = ("mix.0", "mix.1", "mix.2", "more.0", "more.1")
VOCABULARY = 12_000
MAX_LENGTH = 512


def tokenizer_at(path: Path, parts: Sequence[str] = PARTS) -> Tokenizer:
    """The tokenizer at ``path`` where it has been made before, else one trained on every fourth text."""
    if not path.exists():
        texts = chain.from_iterable(read_corpus("english", part) for part in parts)
        Tokenizer.train("bpe", islice(texts, 0, None, 4), vocabulary=VOCABULARY, min_count=2).save(path)
    return Tokenizer.load(path)


def tokenised(tokenizer_path: Path, parts: Sequence[str] = PARTS, max_length: int = MAX_LENGTH) -> TokenisedTexts:
    """The texts of these parts of the corpus, a process for each part."""
    with ProcessPoolExecutor(len(parts)) as pool:
        return TokenisedTexts.joined(list(pool.map(partial(_tokenise, tokenizer_path, max_length), parts)))


def _tokenise(tokenizer_path: Path, max_length: int, part: str) -> TokenisedTexts:
    return TokenisedTexts(Tokenizer.load(tokenizer_path).encode_many(list(read_corpus("english", part))), max_length)


def main(out: Path, training: TrainingConfig = TRAINING, parts: tuple[str, ...] = PARTS) -> dict:
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizer_at(out / "tokenizer.json", parts)
    texts, held_out = tokenised(out / "tokenizer.json", parts), tokenised(out / "tokenizer.json", ("valid",))
    print(f"{len(texts):,} texts, {texts.tokens:,} tokens", flush=True)
    torch.manual_seed(training.seed)
    model = BLM(BLMConfig(len(tokenizer), MODEL, sides_hidden=512, max_length=MAX_LENGTH, whole_words=True))
    model.edges.copy_(torch.from_numpy(tokenizer.edges))
    started = time.perf_counter()
    progress = train(model, tokenizer, texts, held_out, training, out / "run", show_progress=False)
    seconds = time.perf_counter() - started
    best, sentences = BlankLM.from_pretrained(out / "run"), list(read_corpus("english", "valid"))
    result = report("english", model, training, progress, seconds) | {
        "valid_bleu": evaluate(best, sentences[::4], ratios=(0.1, 0.3, 0.5), seed=0),
    }
    (out / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


if __name__ == "__main__":
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else TRAINING.steps
    print(json.dumps(main(Path(sys.argv[1]), replace(TRAINING, steps=steps)), indent=2))
