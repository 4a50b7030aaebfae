"""Training speed on one GPU: tokens of text a second, and the share of the card's measured bf16 matrix rate.

    BLANKLM_DATA=<corpora> python benchmarks/training.py [--out results/benchmarks/training-gpu.json]

The loop is the one that trains (``blanklm.training``): batches prepared ahead, compiled log-probabilities, fused AdamW.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

from blanklm import training
from blanklm.batching import TokenisedTexts, training_epoch
from blanklm.data import read_corpus
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.tokenizer import Tokenizer
from blanklm.training import Run, TrainingConfig


def matrix_rate(size: int = 8192, repeats: int = 20) -> float:
    """FLOP/s of a large bf16 matrix product on random data: the ceiling that shares are given of."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        a @ b
    torch.cuda.synchronize()
    return 2 * size**3 * repeats / (time.perf_counter() - started)


def flops_per_token(model: BLM, texts: TokenisedTexts, tokens_per_batch: int) -> float:
    """Forward and backward operations (6 per weight and use) per token of text, counted on real canvases."""
    config, width = model.config, model.config.encoder.width
    inner = 4 * width**2 + 2 * width * config.encoder.feedforward
    total = tokens = 0
    for draw in training_epoch(texts, tokens_per_batch, 0, 0)[:8]:
        actions = model.prepare(draw.collate(texts)).actions
        lengths = actions.packing.starts.diff().double()
        total += 6 * len(actions.canvas) * config.encoder.layers * inner
        total += 12 * config.encoder.layers * width * float((lengths**2).sum())  # attention scores and sums
        total += 6 * len(actions.asked) * width * (config.vocabulary + config.sides_hidden)
        total += 6 * len(actions.row) * config.sides_hidden * (width + 4)
        tokens += int(texts.lengths[draw.indices].sum())
    return total / tokens


def speed(model: BLM, tokenizer: Tokenizer, texts: TokenisedTexts, tokens_per_batch: int, compiled: bool) -> float:
    """Tokens of text a second: the median over stretches of 20 steps, after a warm-up."""
    training.STEPS_WORTH_COMPILING = 0 if compiled else 10**9
    config = TrainingConfig(
        steps=160, tokens_per_batch=tokens_per_batch, log_every=20, evaluate_every=10**6, save_every=10**6, warmup=10
    )
    few, speeds = TokenisedTexts([texts[0].tolist()]), []
    with tempfile.TemporaryDirectory() as folder:
        run = Run(model, tokenizer, texts, few, config, Path(folder), None)
        run.begin()
        run.go(lambda loss, tokens_per_second: speeds.append(tokens_per_second))
    return statistics.median(speeds[3:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tokens-per-batch", type=int, default=65_536)
    parser.add_argument("--eager", action="store_true", help="measure the step without compiling it, too")
    options = parser.parse_args()
    modes = (False, True) if options.eager else (True,)
    rate = matrix_rate()
    rows = []
    for corpus, split in (("ptb", "train"), ("yahoo", "valid")):
        lines = [line for line in read_corpus(corpus, split) if line.strip()]
        tokenizer = Tokenizer.train("word", lines, vocabulary=10_000)
        texts = TokenisedTexts(tokenizer.encode_many(lines * 4), max_length=512)
        for compiled in modes:
            torch.manual_seed(0)
            model = BLM(BLMConfig(len(tokenizer), EncoderConfig.of_size("base")))
            flops = flops_per_token(model, texts, options.tokens_per_batch)
            tokens = speed(model, tokenizer, texts, options.tokens_per_batch, compiled)
            rows.append({"corpus": corpus, "compiled": compiled, "tokens_per_second": tokens, "flops_per_token": flops})
            rows[-1] |= {"share_of_matrix_rate": tokens * flops / rate}
            share = f"{rows[-1]['share_of_matrix_rate']:.1%} of {rate / 1e12:.0f} TFLOP/s"
            print(f"{corpus:6} compiled={compiled!s:5} {tokens / 1e6:5.2f} M tokens/s, {share}", flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        report = {"benchmark": "training", "hardware": torch.cuda.get_device_name(), "torch": torch.__version__}
        options.out.write_text(json.dumps(report | {"matrix_rate": rate, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
