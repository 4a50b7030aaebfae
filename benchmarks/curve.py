"""What a text costs as it grows, and a batch: tokens a second and memory, beside what the model predicts.

    python benchmarks/curve.py [--device cpu|cuda] [--size small] [--seconds 2] [--out FILE]

Every text has the same length, random weights. A token costs the layers and the read-out, whatever its text, and
attention in proportion to the length: seconds a token = a + b * length. a and b are fitted to all lengths; the table
shows how far each is from the line, and at which length attention costs as much as all the rest. Each point on a CPU is
a process of its own, whose memory beyond the weights is what it held at most. Writes
results/benchmarks/curve-<device>.json.
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Callable
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path

import core
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from blanklm.api import BlankLM
from blanklm.core.likelihood import monte_carlo
from blanklm.core.special import SPECIAL_TOKENS
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.greedy import fill_greedily
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.provenance import hardware, write_result
from blanklm.training.epochs import Draw
from blanklm.training.prepare import move

LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
BATCHES = (1, 4, 16, 64)  # texts of LENGTH_OF_BATCHES
LENGTH_OF_BATCHES = 64
TOKENS = {"cpu": 4096, "cuda": 131_072}  # of a training step and of the texts filled or scored together


def model_of(size: str, device: str) -> BLM:
    torch.manual_seed(0)
    model = BLM(BLMConfig(core.VOCABULARY, EncoderConfig.of_size(size), max_length=max(LENGTHS)))
    with torch.no_grad():
        model.word_bias[len(SPECIAL_TOKENS) :] = torch.from_numpy(1.5 * np.log(core.FREQUENCY))
    return model.to(device)


def texts_of(length: int, number: int) -> list[np.ndarray]:
    rng = np.random.default_rng(length)
    return list(rng.choice(core.WORDS, size=(number, length), p=core.FREQUENCY) + len(SPECIAL_TOKENS))


def training(model: BLM, texts: list[np.ndarray], device: str) -> Callable[[], int]:
    corpus, rng = TokenisedTexts.from_ids(texts), np.random.default_rng(0)
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-5)

    def step() -> int:
        drawn = Draw(np.arange(len(texts)), rng.random(len(texts)), rng.integers(2**62, size=len(texts)))
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            batch = move(drawn.collate(corpus, device == "cuda"), torch.device(device))
            loss = model.loss(model.prepare(batch)).sum() / corpus.tokens
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return corpus.tokens

    return step


def filling(model: BLM, texts: list[np.ndarray], device: str) -> Callable[[], int]:
    """All blanks at once, 30 % of the words hidden; units are tokens of text, written or not."""
    tokenizer = Tokenizer.train("word", [f"w{i}" for i in range(core.WORDS)])
    prepare = BlankLM(model.eval(), tokenizer).prepare
    canvases = [prepare(t) for t in core.with_blanks([tokenizer.decode(text.tolist()) for text in texts])]

    def call() -> int:
        fill_greedily(model, canvases, "parallel")
        return sum(map(len, texts))

    return call


def likelihood(model: BLM, texts: list[np.ndarray], device: str) -> Callable[[], int]:
    """Of one text at a time in one order: a token is a canvas of its own, so a text costs its length squared."""
    endless = cycle(texts)

    def call() -> int:
        (text,) = islice(endless, 1)
        monte_carlo(model.eval(), [text.tolist()], 1)
        return len(text)

    return call


KINDS = {"training": training, "filling": filling, "likelihood": likelihood}


def point(kind: str, size: str, device: str, length: int, number: int, seconds: float) -> dict[str, float]:
    model = model_of(size, device)
    call = KINDS[kind](model, texts_of(length, number), device)
    before = _peak(device)
    measured = core.measure(call, seconds, device)
    return {
        "length": length, "texts": number, "tokens_per_second": measured["per_second"],
        "megabytes": (_peak(device) - before) / 1e6,
    }  # fmt: skip


def _peak(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _send(connection, arguments) -> None:
    connection.send(point(*arguments))


def in_a_process(*arguments) -> dict[str, float]:
    """So that its peak of memory is its own."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_send, args=(there, arguments))
    process.start()
    there.close()
    found = here.recv()
    process.join()
    return found


def fit(points: list[dict]) -> dict[str, float]:
    """a and b of seconds a token = a + b * length, least squares on relative errors; each point gets its prediction."""
    lengths, cost = (np.array([p[k] for p in points]) for k in ("length", "tokens_per_second"))
    cost = 1 / cost
    found, *_ = np.linalg.lstsq(np.stack((1 / cost, lengths / cost), 1), np.ones(len(cost)), rcond=None)
    a, b = found.tolist()
    for p, predicted in zip(points, a + b * lengths, strict=True):
        p["predicted_tokens_per_second"] = float(1 / predicted)
    return {"a": a, "b": b, "attention_costs_as_much_at": a / b if b > 0 else float("inf")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", default="small")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each point")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    measure = point if options.device == "cuda" else in_a_process
    record = {
        "benchmark": "curve", "size": options.size, "hardware": hardware(options.device),
        "threads": torch.get_num_threads(), "load": os.getloadavg()[0],
         "lengths": {}, "batches": {}, "fit": {},
    }  # fmt: skip
    for kind in KINDS:
        rows = [
            measure(
                kind, options.size, options.device, length, max(1, TOKENS[options.device] // length), options.seconds
            )
            for length in LENGTHS
            if kind != "likelihood" or length <= 256
        ]
        record["fit"][kind], record["lengths"][kind] = fit(rows), rows
        table = Table("length", "tokens/s", "predicted", "MB", title=kind)
        for row in rows:
            speeds = (f"{row[name]:,.0f}" for name in ("tokens_per_second", "predicted_tokens_per_second"))
            table.add_row(str(row["length"]), *speeds, f"{row['megabytes']:,.0f}")
        Console().print(table, record["fit"][kind])
    for kind in ("training", "filling"):
        record["batches"][kind] = [
            measure(kind, options.size, options.device, LENGTH_OF_BATCHES, number, options.seconds)
            for number in BATCHES
        ]
        print(kind, [(row["texts"], round(row["tokens_per_second"])) for row in record["batches"][kind]], flush=True)
    out = options.out or core.ROOT / "results" / "benchmarks" / f"curve-{options.device}.json"
    write_result(out, record)


if __name__ == "__main__":
    main()
