"""Training speed on one GPU: tokens of text a second, and the share of the card's measured bf16 matrix rate.

    BLANKLM_DATA=<corpora> python benchmarks/training.py [--tokens-per-batch 262144] [--out FILE]

The loop is the one that trains (``training.run``): batches prepared ahead, compiled layers, fused AdamW. A second,
profiled stretch says where the GPU's time goes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.provenance import write_result
from blanklm.training import run as training
from blanklm.training.epochs import training_epoch
from blanklm.training.run import Run, TrainingConfig

CORPORA = (("ptb", "train"), ("yahoo", "valid"))
STRETCH, STRETCHES, PROFILED = 20, 8, 10  # steps of a timed stretch, stretches, and profiled steps after them
KERNELS = {  # what a GPU kernel's name holds, and what the kernel does; the first that fits counts
    "attention": ("flash", "fmha", "attention"),
    "matrix products": ("gemm", "nvjet", "cutlass", "splitk"),
    "optimizer and average": ("adam", "multi_tensor", "lerp", "foreach"),
    "element-wise, norms and softmax (compiled)": ("triton",),
}


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
        lengths = actions.packing.lengths.double()
        total += 6 * float(lengths.sum()) * config.encoder.layers * inner
        total += 12 * config.encoder.layers * width * float((lengths**2).sum())  # attention scores and sums
        total += 6 * len(actions.queried) * width * (config.vocabulary + config.sides_hidden)
        total += 6 * len(actions.row) * config.sides_hidden * (width + 4)
        tokens += int(texts.lengths[draw.indices].sum())
    return total / tokens


def measure(model: BLM, tokenizer: Tokenizer, texts: TokenisedTexts, tokens_per_batch: int) -> dict:
    """Tokens of text a second (the median over stretches, after a warm-up), and milliseconds a step by kind of work."""
    training.STEPS_WORTH_COMPILING = 0
    steps = STRETCH * STRETCHES
    config = TrainingConfig(
        steps=steps + PROFILED, tokens_per_batch=tokens_per_batch, log_every=STRETCH, evaluate_every=10**6,
        save_every=10**6, warmup=10,
    )  # fmt: skip
    few, speeds = TokenisedTexts.from_ids([texts[0].tolist()]), []
    profiler = profile(activities=[ProfilerActivity.CUDA])

    def stretch_done(loss: float, tokens_per_second: float) -> None:
        speeds.append(tokens_per_second)
        if len(speeds) == STRETCHES:
            profiler.start()

    with tempfile.TemporaryDirectory() as folder:
        run = Run(model, tokenizer, texts, few, config, Path(folder), None)
        run._evaluate = run.files.save_state = lambda *_: None  # the last step's; they are not what is measured
        run.begin()
        run.go(stretch_done)
        torch.cuda.synchronize()
    profiler.stop()
    return {
        "tokens_per_second": statistics.median(speeds[3:STRETCHES]),
        "gpu_ms_per_step": by_kind(profiler),
        "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30,
    }


def by_kind(profiler: profile) -> dict[str, float]:
    """Milliseconds of GPU time a profiled step, by kind of kernel."""
    spent: Counter[str] = Counter()
    for event in profiler.key_averages():
        name = event.key.lower()
        kind = next((kind for kind, parts in KERNELS.items() if any(part in name for part in parts)), "other")
        spent[kind] += event.self_device_time_total / 1000 / PROFILED
    return {kind: round(ms, 3) for kind, ms in spent.most_common()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tokens-per-batch", default="65536,262144", help="one or more, separated by commas")
    parser.add_argument("--corpora", default="ptb,yahoo")
    options = parser.parse_args()
    rate, rows = matrix_rate(), []
    print(f"{torch.cuda.get_device_name()}: {rate / 1e12:.0f} TFLOP/s in a large bf16 matrix product", flush=True)
    for corpus, split in CORPORA:
        if corpus not in options.corpora.split(","):
            continue
        lines = [line for line in read_corpus(corpus, split) if line.strip()]
        tokenizer = Tokenizer.train("word", lines, vocabulary=10_000)
        texts = TokenisedTexts.from_ids(tokenizer.encode_many(lines * 4), max_length=512)
        for tokens_per_batch in map(int, options.tokens_per_batch.split(",")):
            torch.manual_seed(0)
            torch.cuda.reset_peak_memory_stats()
            model = BLM(BLMConfig(len(tokenizer), EncoderConfig.of_size("base")))
            flops = flops_per_token(model, texts, tokens_per_batch)
            started = time.perf_counter()
            row = {"corpus": corpus, "tokens_per_batch": tokens_per_batch, "flops_per_token": flops}
            row |= {"matrix_rate": rate}
            row |= measure(model, tokenizer, texts, tokens_per_batch)
            row["share_of_matrix_rate"] = row["tokens_per_second"] * flops / rate
            rows.append(row)
            print(
                f"{corpus:6} {tokens_per_batch:7,} tokens a step: {row['tokens_per_second'] / 1e6:5.2f} M tokens/s, "
                f"{row['share_of_matrix_rate']:.1%} of the matrix rate, {row['peak_memory_gib']:.1f} GiB; "
                f"{time.perf_counter() - started:.0f} s\n       {row['gpu_ms_per_step']}",
                flush=True,
            )
    if options.out:
        report = {"benchmark": "training", "size": "base", "hardware": torch.cuda.get_device_name(), "rows": rows}
        write_result(options.out, report)


if __name__ == "__main__":
    main()
