"""Memory while a corpus far larger than it streams by: 20 GB of made-up texts, cut into batches as in training.

    python benchmarks/streaming.py [--gigabytes 20] [--out results/benchmarks/streaming-cpu.json]

The texts come from a generator and their tokens are made up, so that no disk or tokenizer is measured, only what the
stream itself keeps.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import psutil

from blanklm.paper.provenance import hardware, write_result
from blanklm.training.streamed import StreamedTexts

CHARACTERS, TEXTS_A_FILE = 4000, 5000  # of a text; 20 MB a file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    ids = [rng.integers(4, 9999, size) for size in rng.integers(1, 600, 1000)]
    read = 0

    def texts_of(path: Path):
        nonlocal read
        for number in range(TEXTS_A_FILE):
            text = chr(97 + number % 26) * CHARACTERS
            read += len(text)
            yield text

    files = [Path(f"{i}.txt") for i in range(max(1, round(options.gigabytes * 1e9 / CHARACTERS / TEXTS_A_FILE)))]
    texts = StreamedTexts(files, lambda group: ids[: len(group)], 512, texts_of)
    process, started, tokens = psutil.Process(), time.perf_counter(), 0
    memory = []  # (share of the corpus, MB)
    for number, batch in enumerate(texts.batches(65_536, seed=0)):
        if batch.epoch:
            break
        tokens += batch.tokens
        if number % 100 == 0:
            memory.append((read / (len(files) * TEXTS_A_FILE * CHARACTERS), process.memory_info().rss / 1e6))
    settled = [megabytes for share, megabytes in memory if share > 0.05]
    report = {
        "benchmark": "streaming", "hardware": hardware("cpu"), "files": len(files),
        "gigabytes": len(files) * TEXTS_A_FILE * CHARACTERS / 1e9, "tokens": tokens,
        "seconds": time.perf_counter() - started, "megabytes_least": min(settled), "megabytes_most": max(settled),
        "megabytes_last": settled[-1],
    }  # fmt: skip
    print(
        f"{report['gigabytes']:.0f} GB, {tokens:,} tokens in {report['seconds']:.0f} s; "
        f"memory {min(settled):.0f} to {max(settled):.0f} MB after the first 5 %"
    )
    if options.out:
        write_result(options.out, report)


if __name__ == "__main__":
    main()
