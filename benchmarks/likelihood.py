"""Monte-Carlo likelihood: token-orders a second (a token in an order is one canvas to encode), and what length costs.

    BLANKLM_DATA=<corpora> python benchmarks/likelihood.py [--device cuda] [--lines 1000] [--out FILE]

Lines of the Penn Treebank test set as they are, then its stream in chunks of growing length; random weights, base size.
On a GPU the model is in bf16 and its layers are compiled.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import core
import torch

from blanklm.core.likelihood import monte_carlo
from blanklm.core.texts import cut, one_stream
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import read_corpus
from blanklm.models.blm import BLM
from blanklm.paper.provenance import hardware, write_result


def rate(model: BLM, texts: list[list[int]], orders: int) -> dict[str, float]:
    """Token-orders a second; a first, short call on all texts warms up, so that every shape is compiled."""
    monte_carlo(model, texts, max(1, orders // 20))
    started = time.perf_counter()
    monte_carlo(model, texts, orders)
    seconds = time.perf_counter() - started
    units = orders * sum(map(len, texts))
    return {"token_orders": units, "seconds": seconds, "per_second": units / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", default="base")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--chunks", default="64,128,256,512")
    parser.add_argument("--tokens", type=int, default=8192, help="of the stream, for the chunks")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = [line for line in read_corpus("ptb", "test") if line.strip()][: options.lines]
    tokenizer = Tokenizer.train("word", read_corpus("ptb", "train"), vocabulary=core.VOCABULARY)
    model = core.random_model(options.size, len(tokenizer)).to(options.device).eval()
    if options.device == "cuda":
        model.bfloat16().compile_parts()
    texts = tokenizer.encode_many(lines)
    stream = cut(one_stream(texts), options.tokens)[0]
    rows = {"lines": rate(model, texts, options.orders)}
    for length in map(int, options.chunks.split(",")):
        # As many canvas symbols as the chunks before had: a token-order's canvas grows with the chunk.
        rows[f"chunks of {length}"] = rate(model, cut(one_stream([stream]), length), max(1, options.orders // length))
    for name, row in rows.items():
        print(f"{name:15} {row['per_second']:12,.0f} token-orders/s ({row['seconds']:.1f} s)", flush=True)
    if options.out:
        report = {"benchmark": "likelihood", "size": options.size, "hardware": hardware(options.device)}
        report |= {"rows": rows}
        write_result(options.out, report)


if __name__ == "__main__":
    main()
