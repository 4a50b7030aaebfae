"""The bundled English models: cased, natural text, byte-level BPE, blanks of words and of spans.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.english OUT --backbone smollm2.gguf --seconds 1300
    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.english OUT --start english --seconds 1300

``english`` begins as SmolLM2-135M, its tokenizer cut to MERGES merges, and each round goes on from the weights of the
one before. These are rounded from the first step on: rounded later, what was learnt till then would be lost. Weights
that were never rounded learn exactly first.
``english-small`` began as a model from scratch, of which ``--layers`` kept some layers. The learning rate follows the
clock. Writes OUT/tokens (the corpora in ids, read again where they are there), OUT/run (the training run),
OUT/model (what is bundled) and OUT/result.json; ``python -m blanklm.paper.tables.english`` measures the model.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.files import replacing
from blanklm.models.blm import BLM
from blanklm.models.causal_backbone import CausalPretrained
from blanklm.models.encoder import EncoderConfig
from blanklm.models.llama import LlamaConfig
from blanklm.models.span_writer import SpanWriter
from blanklm.paper.provenance import Row, report, write_result
from blanklm.pretrained import locate
from blanklm.training import checkpoint
from blanklm.training.quantise import grouped_matrices, spread_in_cells
from blanklm.training.run import TrainingConfig, train

# The balanced mix twice: its sources are those of the held-out texts, and of what people write.
PARTS = (*("english/mix.0", "english/mix.1", "english/mix.2") * 2, "english/more.0", "english/more.1")
NOVELS = ("sentence_completion/train.0",)
MERGES = 16_000
MAX_LENGTH = 512
CAPITALS = 50  # one text in so many is written in capitals
SETTINGS: dict[str, Any] = {"max_length": MAX_LENGTH, "sides_hidden": 512, "whole_words": True}
HIDING = {"written": 0.55, "spans": 0.1, "fresh": 0.3}
TRAINING = TrainingConfig(
    steps=10**6, tokens_per_batch=131_072, learning_rate=3e-4, warmup=200, weight_decay=0.01, skew=0.8, ema=0.998,
    evaluate_every=1000, save_every=10**9, log_every=50, bits=4, bits_from=0.0,
)  # fmt: skip
WORD_BITS = 6  # of what is stored of embeddings
EXACT = 0.6  # of the time, weights that begin unrounded stay so
ABOUT = {
    "name": "english",
    "summary": "English as it is written: cased, punctuated, up to 512 tokens",
    "language": "English",
    "licence": "CC BY-SA 4.0; the weights began as SmolLM2-135M, Apache-2.0",
    "data": "69 M words of open English text: encyclopaedia, conversation, textbooks, everyday sentences, fiction",
}


def tokenised(tokenizer_path: Path, parts: Sequence[str], capitals: int = CAPITALS) -> TokenisedTexts:
    """Tokenise these parts of corpora, each in a process; one that is named twice is there twice."""
    different = list(dict.fromkeys(parts))
    with ProcessPoolExecutor(len(different)) as pool:
        read = dict(zip(different, pool.map(partial(_tokenise, tokenizer_path, capitals), different), strict=True))
    return TokenisedTexts.joined([read[part] for part in parts])


def _tokenise(tokenizer_path: Path, capitals: int, part: str) -> TokenisedTexts:
    kept = tokenizer_path.parent / "tokens" / f"{part.replace('/', '-')}-{capitals}.npz"
    if not kept.exists():
        texts = [text.strip() for text in read_corpus(*part.split("/"))]
        if capitals:
            texts[::capitals] = [text.upper() for text in texts[::capitals]]
        ids = TokenisedTexts.from_ids(Tokenizer.load(tokenizer_path).encode_many(texts), MAX_LENGTH)
        kept.parent.mkdir(exist_ok=True)
        with replacing(kept) as temporary, open(temporary, "wb") as file:
            np.savez(file, flat=ids.flat, lengths=ids.lengths)
    with np.load(kept) as arrays:
        return TokenisedTexts(arrays["flat"], arrays["lengths"])


def begin(backbone: str | None, start: str | None, layers: int | None) -> tuple[SpanWriter, Tokenizer]:
    """Make the model to train: on a backbone, or from the weights of a model, of which ``layers`` may be kept."""
    torch.manual_seed(0)
    if backbone is not None:
        source = CausalPretrained.load(backbone)
        tokenizer = source.tokenizer(merges=MERGES)
        return SpanWriter.on(source, tokenizer, **SETTINGS | HIDING), tokenizer
    assert start is not None
    loaded = checkpoint.load(locate(start))
    assert isinstance(loaded.model, BLM)
    model = loaded.model if layers is None else shortened(loaded.model, layers)
    writer = SpanWriter.from_words(model, loaded.tokenizer, **HIDING).train()
    with torch.no_grad():
        for matrix in grouped_matrices(writer).values():
            matrix.copy_(spread_in_cells(matrix, TRAINING.bits))
    return writer, loaded.tokenizer


def shortened(model: BLM, layers: int) -> BLM:
    """Keep some layers of a model, evenly spread from the first to the last."""
    encoder = model.config.encoder
    assert isinstance(encoder, EncoderConfig | LlamaConfig)
    kept = torch.linspace(0, encoder.layers - 1, layers).round().long().tolist()
    config = replace(model.config, encoder=replace(encoder, layers=layers))
    shorter = type(model)(config)
    weights = {}
    for name, tensor in model.state_dict().items():
        if name.startswith("encoder.layers."):
            number, rest = name.removeprefix("encoder.layers.").split(".", 1)
            if int(number) not in kept:
                continue
            name = f"encoder.layers.{kept.index(int(number))}.{rest}"
        weights[name] = tensor
    shorter.load_state_dict(weights)
    return shorter


def main(
    out: Path,
    model: SpanWriter,
    tokenizer: Tokenizer,
    training: TrainingConfig,
    parts: Sequence[str],
    about: Row,
    word_bits: int = WORD_BITS,
) -> Row:
    """Train the model and store it."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(out / "tokenizer.json")
    texts = tokenised(out / "tokenizer.json", parts)
    held_out = tokenised(out / "tokenizer.json", ["english/valid"], capitals=0)
    print(f"{len(texts):,} texts, {texts.tokens:,} tokens", flush=True)
    started = time.perf_counter()
    progress = train(model, tokenizer, texts, held_out, training, out / "run", show_progress=False)
    training = replace(training, steps=progress.step)  # where the clock ended it
    row = report(about["name"], model, training, progress, time.perf_counter() - started)
    best = checkpoint.load(out / "run")
    checkpoint.save(out / "model", best.model, best.tokenizer, about, bits=training.bits, word_bits=word_bits)
    return write_result(out / "result.json", row | {"parts": list(parts)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    begins = parser.add_mutually_exclusive_group(required=True)
    begins.add_argument("--backbone", help="a Llama-type language model: a .gguf file, a folder or a Hub id")
    begins.add_argument("--start", help="a model to continue from: a folder or the name of a bundled one")
    parser.add_argument("--layers", type=int, help="with --start: how many layers to keep")
    parser.add_argument("--name", default=ABOUT["name"])
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, default=TRAINING.learning_rate, help="peak learning rate")
    parser.add_argument("--batch", type=int, default=TRAINING.tokens_per_batch, help="tokens per batch")
    parser.add_argument("--parts", nargs="+", default=[*PARTS, *NOVELS], help="CORPUS/SPLIT ...")
    parser.add_argument("--word-bits", type=int, default=WORD_BITS, help="bits of the stored embeddings")
    options = parser.parse_args()
    config = replace(
        TRAINING,
        seconds=options.seconds,
        learning_rate=options.rate,
        tokens_per_batch=options.batch,
        bits_from=0.0 if options.start else EXACT,
    )
    begun = begin(options.backbone, options.start, options.layers)
    about = ABOUT | {"name": options.name}
    print(json.dumps(main(options.out, *begun, config, options.parts, about, options.word_bits), indent=2))
