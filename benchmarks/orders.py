"""What the orders of training do to learning, on a source whose entropy is known: a Markov chain of a few symbols.

    python benchmarks/orders.py [--steps 400,1200] [--out FILE]

Uniform orders, a curriculum from left-to-right to random, orders that lean to the left, and a left-to-right model: all
with the same encoder, stream, batches and steps. Perplexities are those of a test stream, in chunks; the source's own
is that of its transitions. A chunk's first symbol has nothing before it, so no model can reach that.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import core
import numpy as np
import torch
from torch import nn

from blanklm.core.likelihood import bound, monte_carlo
from blanklm.core.special import SPECIAL_TOKENS
from blanklm.core.texts import TokenisedTexts, TokenStream, stream_chunks
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.baselines.left_to_right import LeftToRightStream
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.training.run import TrainingConfig, train

SYMBOLS, CHUNK, ORDERS = 8, 16, 20
ENCODER = EncoderConfig(layers=2, heads=2, width=64, feedforward=128, dropout=0.0)
RUNS = {  # lean of the model, curriculum
    "uniform orders": (0.0, 0.0),
    "curriculum from left-to-right": (0.0, 0.5),
    "leaning left, 0.1 a token": (0.1, 0.0),
    "leaning left, 0.5 a token": (0.5, 0.0),
}


class Source:
    """A Markov chain whose rows are drawn from a sparse Dirichlet."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows = self.rng.dirichlet(np.full(SYMBOLS, 0.3), size=SYMBOLS)  # [S, S]

    def stream(self, length: int) -> list[int]:
        symbols = [0]
        while len(symbols) < length:
            symbols.append(int(self.rng.choice(SYMBOLS, p=self.rows[symbols[-1]])))
        return [len(SPECIAL_TOKENS) + symbol for symbol in symbols]

    def perplexity(self, stream: list[int]) -> float:
        symbols = np.array(stream) - len(SPECIAL_TOKENS)
        return math.exp(-np.log(self.rows[symbols[:-1], symbols[1:]]).mean())


def learnt(model: nn.Module, texts: TokenStream, held_out: TokenisedTexts, config: TrainingConfig) -> float:
    """The seconds that training took; the model is the last one."""
    tokenizer = Tokenizer.train("word", [" ".join(map(str, range(SYMBOLS)))])
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        train(model, tokenizer, texts, held_out, config, Path(folder) / "run", show_progress=False)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", default="400,1200", help="one or more numbers, separated by commas")
    parser.add_argument("--train", type=int, default=60_000, help="symbols to train on")
    parser.add_argument("--test", type=int, default=1600)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    source = Source()
    texts, stream = TokenStream([source.stream(options.train)], CHUNK), source.stream(options.test)
    chunks = [chunk for chunk in stream_chunks([stream], CHUNK) if len(chunk) == CHUNK]
    tokens, vocabulary = len(chunks) * CHUNK, SYMBOLS + len(SPECIAL_TOKENS)
    rows: dict[str, dict] = {}
    for steps in map(int, options.steps.split(",")):
        settings = {"steps": steps, "tokens_per_batch": 1024, "learning_rate": 3e-3, "warmup": steps // 20}
        settings |= {"evaluate_every": 10**6, "save_every": 10**6}
        for name, (lean, curriculum) in RUNS.items():
            torch.manual_seed(0)
            model = BLM(BLMConfig(vocabulary, ENCODER, sides_hidden=128, max_length=CHUNK, lean=lean))
            config = TrainingConfig(**settings, curriculum=curriculum)
            seconds = learnt(model, texts, TokenisedTexts(chunks[:1]), config)
            estimate = monte_carlo(model.eval(), chunks, ORDERS)
            below = math.exp(-float(bound(model, chunks, draws=16).sum()) / tokens)
            row = {"bound": below, "perplexity": estimate.perplexity, "seconds": seconds}
            rows.setdefault(name, {})[str(steps)] = row
        torch.manual_seed(0)
        model = LeftToRightStream(PredictorConfig(vocabulary, ENCODER, CHUNK))
        seconds = learnt(model, texts, TokenisedTexts(chunks[:1]), TrainingConfig(**settings))
        row = {"perplexity": math.exp(-sum(model.log_prob(chunks)) / tokens), "seconds": seconds}
        rows.setdefault("left-to-right model", {})[str(steps)] = row
    for name, by_steps in rows.items():
        found = (f"{row['perplexity']:8.3f} after {steps} steps" for steps, row in by_steps.items())
        print(f"{name:32}" + ",".join(found))
    print(f"{'the source':32}{source.perplexity(stream):8.3f}")
    if options.out:
        report = {"benchmark": "orders", "chunk": CHUNK, "orders": ORDERS, "source": source.perplexity(stream)}
        report |= {"hardware": core.hardware("cpu"), "torch": torch.__version__, "commit": core.commit(), "rows": rows}
        core.write_report(options.out, report)


if __name__ == "__main__":
    main()
