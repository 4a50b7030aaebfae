"""What a pass of the bundled model costs on a CPU in each precision, on a few short canvases.

    python benchmarks/passes.py [--threads N] [--out results/benchmarks/passes-cpu.json]

A pass reads the canvases and scores the words of one blank in each. The precisions take turns, so that a neighbour's
load falls on all; the least time of a few counts, which such a load cannot make smaller. In int8 it is to take half the
time of float32 at most.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch

from blanklm import BlankLM
from blanklm.core.special import BLANK
from blanklm.paper.provenance import hardware, write_result

PRECISIONS = {"int8": torch.int8, "bfloat16": torch.bfloat16, "float32": torch.float32}
SYMBOLS, CANVASES = (16, 32, 64), (1, 6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="english", help="a bundled name or a folder")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    models = {
        name: BlankLM.from_pretrained(options.model, "cpu", dtype).model.eval() for name, dtype in PRECISIONS.items()
    }
    shapes = [(canvases, symbols) for symbols in SYMBOLS for canvases in CANVASES]
    seconds = {
        f"{canvases} x {symbols}": measure(models, canvases, symbols, options.times) for canvases, symbols in shapes
    }
    for shape, row in seconds.items():
        print(shape, {name: f"{1000 * s:.1f} ms" for name, s in row.items()})
    record = {
        "model": options.model, "parameters": models["int8"].parameter_count, "hardware": hardware("cpu"),
        "threads": options.threads, "load": os.getloadavg()[0], "times": options.times,
        "milliseconds": {shape: {name: 1000 * s for name, s in row.items()} for shape, row in seconds.items()},
        "of_float32": {shape: row["float32"] / row["int8"] for shape, row in seconds.items()},
    }  # fmt: skip
    if options.out:
        write_result(options.out, record)


@torch.inference_mode()
def measure(models: dict, canvases: int, symbols: int, times: int) -> dict[str, float]:
    """The seconds of a pass in each precision."""
    vocabulary = next(iter(models.values())).config.vocabulary
    ids = torch.randint(
        BLANK + 1, vocabulary, (canvases, symbols), generator=torch.Generator().manual_seed(0)
    )  # [R, L]
    ids[:, symbols // 2] = BLANK
    lengths = torch.full((canvases,), symbols)  # [R]
    least = dict.fromkeys(models, float("inf"))
    for _ in range(times + 1):
        for name, model in models.items():
            began = time.perf_counter()
            model.score(ids, lengths, symbols)
            least[name] = min(least[name], time.perf_counter() - began)
    return least


if __name__ == "__main__":
    main()
