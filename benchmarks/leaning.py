"""What weighting orders does to perplexity and to infilling: tiny BLMs on Penn Treebank whose orders lean to the left.

    python benchmarks/leaning.py [--lean 0,0.05,0.2] [--steps 1600] [--out FILE]

All with the same encoder, stream, batches and steps, the 1,000 most frequent words being the vocabulary. Perplexities
are those of a part of the test stream, estimated with each model's own orders; the same chunks are filled with words
hidden at random, all blanks at once.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import core
import torch

from blanklm.core.likelihood import bound, monte_carlo
from blanklm.core.texts import TokenisedTexts, TokenStream, stream_chunks
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.models.init import begin_at_frequencies, begin_at_neighbours
from blanklm.paper.tables.language_modelling import CORPORA, infilling_bleu
from blanklm.training.run import TrainingConfig, train

CHUNK = 64
ENCODER = EncoderConfig(layers=2, heads=4, width=96, feedforward=384, dropout=0.1, output_dropout=0.1)


def learnt(lean: float, tokenizer: Tokenizer, lines: dict[str, list[list[int]]], steps: int) -> tuple[BLM, float]:
    """A model and the seconds it took."""
    config = TrainingConfig(
        steps=steps, tokens_per_batch=4096, learning_rate=6e-3, optimizer="muon", warmup=steps // 16,
        evaluate_every=10**6, save_every=10**6,
    )  # fmt: skip
    torch.manual_seed(0)
    model = BLM(BLMConfig(len(tokenizer), ENCODER, sides_hidden=256, max_length=CHUNK, lean=lean))
    texts = TokenStream(lines["train"], CHUNK)
    begin_at_frequencies(model, texts.flat)
    begin_at_neighbours(model.encoder.layers[0])
    held_out, started = TokenisedTexts(stream_chunks(lines["valid"], CHUNK)[:1]), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        train(model, tokenizer, texts, held_out, config, Path(folder) / "run", show_progress=False)
    return model.eval(), time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lean", default="0,0.05,0.2", help="one or more numbers, separated by commas")
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--chunks", type=int, default=48, help="of the test stream")
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--out", type=Path, help="rows that are there already are not done again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    written = {split: CORPORA["ptb"].lines(split) for split in ("train", "valid", "test")}
    tokenizer = Tokenizer.train("word", written["train"], vocabulary=options.words)
    lines = {split: tokenizer.encode_many(texts) for split, texts in written.items()}
    chunks = stream_chunks(lines["test"], CHUNK)[: options.chunks]
    tokens = sum(map(len, chunks))
    report = {"benchmark": "leaning", "chunk": CHUNK, "steps": options.steps, "words": options.words, "tokens": tokens}
    report |= {
        "orders": options.orders,
        "hardware": core.hardware("cpu"),
        "commit": core.commit(),
        "rows": core.rows_before(options.out),
    }
    for lean in options.lean.split(","):
        if lean in report["rows"]:
            continue
        model, seconds = learnt(float(lean), tokenizer, lines, options.steps)
        row = {
            "bound": math.exp(-float(bound(model, chunks, draws=16).sum()) / tokens),
            "perplexity": monte_carlo(model, chunks, options.orders).perplexity,
            "infilling": infilling_bleu(model, tokenizer, chunks),
            "seconds": seconds,
        }
        report["rows"][lean] = row
        bleu = " ".join(f"{share['bleu']:.1f}" for share in row["infilling"].values())
        print(
            f"lean {lean}: {row['perplexity']:.2f} (bound {row['bound']:.2f}), BLEU {bleu}, {seconds:.0f} s", flush=True
        )
        if options.out:
            core.write_report(options.out, report)


if __name__ == "__main__":
    main()
