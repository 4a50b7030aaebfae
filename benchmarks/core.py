"""How fast the core is, with random weights on synthetic texts: training, filling and likelihood.

    python benchmarks/core.py [--sizes small,base] [--device cpu|cuda] [--seconds 5] [--out FILE]

Prints one table a size and writes results/benchmarks/core-<device>.json. The texts have the line lengths, the word
frequencies and the vocabulary size of the Penn Treebank. Every blank is bound to its true length, since the fills
that random weights make would run on; so the number of tokens to fill is known.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain, count, cycle, islice
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from blanklm.api import BlankLM
from blanklm.batching import TokenisedTexts, training_epoch
from blanklm.canvas import Blank, Template
from blanklm.data import Masked, mask_corpus
from blanklm.decoding.draft import Draft
from blanklm.decoding.parallel import fill_in_parallel
from blanklm.decoding.search import Text, beam_search
from blanklm.likelihood import monte_carlo
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import SIZES, EncoderConfig
from blanklm.special import SPECIAL_TOKENS
from blanklm.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parent.parent
VOCABULARY = 10_000  # special tokens included
WORDS = VOCABULARY - len(SPECIAL_TOKENS)
LINES = 42_068  # as many as the Penn Treebank has for training, so that an epoch is batched as a real one
MEAN_LENGTH, LENGTH_SPREAD, LONGEST = 21.1, 10.1, 82  # tokens a line
LINES_TO_FILL, MASKED, BATCH = 512, 0.3, 32
WARMUP_CALLS = 3  # the first calls allocate memory, pick kernels and build cached tables
LABELS = {  # what is measured, and what is counted
    "training_tokens": "training: tokens of text",
    "filled_tokens_batch_1": "filling, one token a pass, batch 1: tokens",
    f"filled_tokens_batch_{BATCH}": f"filling, one token a pass, batch {BATCH}: tokens",
    f"filled_tokens_parallel_batch_{BATCH}": f"filling, all blanks at once, batch {BATCH}: tokens",
    "likelihood_token_orders": "likelihood: tokens x orders",
}


@dataclass(frozen=True)
class Load:
    """How much work is one call: little enough for many calls in a few seconds, enough to keep the device busy."""

    tokens_per_batch: int  # padded tokens of a training step
    lines: int  # scored in one call of the likelihood
    orders: int


LOADS = {"cpu": Load(tokens_per_batch=2048, lines=2, orders=8), "cuda": Load(65_536, lines=64, orders=32)}


@dataclass(frozen=True)
class Measurement:
    """``units`` (tokens of text, filled tokens, token-orders) done in ``calls`` calls and ``seconds``."""

    per_second: float
    units: int
    calls: int
    seconds: float


# --- Synthetic texts ------------------------------------------------------------------------------------------------


def word_tokenizer() -> Tokenizer:
    return Tokenizer.train("word", [f"w{i}" for i in range(WORDS)], VOCABULARY)


def synthetic_lines(seed: int = 0) -> list[np.ndarray]:
    """Lines of word ids. Lengths are gamma-distributed; the r-th most frequent word has p proportional to 1/(r + 1),
    which puts 5.7 % on the first, 1.0 % on the tenth and 0.1 % on the hundredth, as in the Penn Treebank."""
    rng = np.random.default_rng(seed)
    shape = (MEAN_LENGTH / LENGTH_SPREAD) ** 2
    lengths = rng.gamma(shape, MEAN_LENGTH / shape, LINES).round().clip(2, LONGEST).astype(int)  # [LINES]
    frequency = 1 / (np.arange(WORDS) + 2)  # [WORDS] the first has r = 1
    words = rng.choice(WORDS, size=lengths.sum(), p=frequency / frequency.sum())  # [tokens] ranks from 0
    return np.split(words + len(SPECIAL_TOKENS), lengths.cumsum()[:-1])


def random_model(size: str) -> BLM:
    """Random weights, but as sure of its words as a trained model is.

    The search takes words in falling order of p(w) until no other can win, and a flat p(w) would take it through the
    whole vocabulary. With p(w) near r^-1.5 the first eight words decide about 96 % of the time, as in the bundled
    model when its blanks have the true lengths.
    """
    torch.manual_seed(0)
    model = BLM(BLMConfig(VOCABULARY, EncoderConfig.of_size(size)))
    with torch.no_grad():
        model.word_bias[len(SPECIAL_TOKENS) :] = -1.5 * torch.log(torch.arange(WORDS) + 1.0)  # [WORDS]
    return model


def with_true_lengths(masked: Masked) -> Template:
    blanks = tuple(Blank.exactly(len(span.split())) for span in masked.spans)
    return Template(masked.template.pieces, blanks)


# --- What is measured -----------------------------------------------------------------------------------------------


def measure(call: Callable[[], int], seconds: float, device: str) -> Measurement:
    """Repeat ``call``, which returns the units it did, for about ``seconds``."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None  # the GPU's work is queued: wait for its end
    warm_until = time.perf_counter() + seconds / 2  # one slow call warms enough
    for _ in range(WARMUP_CALLS):
        call()
        if time.perf_counter() > warm_until:
            break
    wait()
    units, calls, started = 0, 0, time.perf_counter()
    while not calls or time.perf_counter() - started < seconds:
        units, calls = units + call(), calls + 1
    wait()
    elapsed = time.perf_counter() - started
    return Measurement(units / elapsed, units, calls, elapsed)


def training(model: BLM, lines: list[np.ndarray], device: str) -> Callable[[], int]:
    """One step as blanklm.training takes it: loss, backward, clipping, AdamW. Units are tokens of text, not padding."""
    texts = TokenisedTexts(lines)
    budget = LOADS[device].tokens_per_batch
    draws = chain.from_iterable(training_epoch(texts, budget, seed=0, epoch=epoch) for epoch in count())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98))

    def step() -> int:
        draw = next(draws)
        batch = draw.collate(texts).to(device)
        tokens = int(texts.lengths[draw.indices].sum())
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = model.loss(batch).sum() / tokens
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return tokens

    return step


def filling(
    fill: Callable[[list[Text]], list[Draft]], texts: list[Text], hidden: list[int], batch: int
) -> Callable[[], int]:
    """Fill the next ``batch`` texts, in the order they came and not by length, as a server would. Units are tokens."""
    places = cycle(range(len(texts)))

    def call() -> int:
        members = list(islice(places, batch))
        with torch.inference_mode():
            drafts = fill([texts[i] for i in members])
        written = sum(draft.steps for draft in drafts)
        if written != sum(hidden[i] for i in members):
            raise AssertionError("a blank was not filled to its length")
        return written

    return call


def likelihood(model: BLM, lines: list[np.ndarray], device: str) -> Callable[[], int]:
    """Score the next lines. A unit is one token in one order: one canvas to encode."""
    load = LOADS[device]
    endless = cycle(lines)

    def call() -> int:
        members = [line.tolist() for line in islice(endless, load.lines)]
        return monte_carlo(model, members, load.orders).orders * sum(map(len, members))

    return call


def benchmark(size: str, lines: list[np.ndarray], tokenizer: Tokenizer, device: str, seconds: float) -> dict:
    model = random_model(size).to(device)
    masked = mask_corpus([tokenizer.decode(line.tolist()) for line in lines[:LINES_TO_FILL]], MASKED, seed=0)
    hidden = [sum(len(span.split()) for span in m.spans) for m in masked]
    blank_lm = BlankLM(model, tokenizer)  # in evaluation mode from here on
    texts = [blank_lm.prepare(str(with_true_lengths(m))).text for m in masked]

    def greedy(texts: list[Text]) -> list[Draft]:
        return [ranked[0] for ranked in beam_search(model, texts)]

    def parallel(texts: list[Text]) -> list[Draft]:
        return fill_in_parallel(model, texts)

    fills = [filling(greedy, texts, hidden, 1), *(filling(way, texts, hidden, BATCH) for way in (greedy, parallel))]
    results = [measure(call, seconds, device) for call in (*fills, likelihood(model, lines, device))]
    model.train()  # last, since it changes the weights
    results = [measure(training(model, lines, device), seconds, device), *results]
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        **{f"{name}_per_second": result.per_second for name, result in zip(LABELS, results, strict=True)},
        "measurements": {name: asdict(result) for name, result in zip(LABELS, results, strict=True)},
    }


# --- The record -----------------------------------------------------------------------------------------------------


def hardware(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    with suppress(OSError):  # Linux; elsewhere platform knows the name
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit that is checked out, "-dirty" if tracked files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def table(size: str, result: dict, where: str) -> Table:
    shown = Table("what", "per second", title=f"{size}: {result['parameters'] / 1e6:.1f} M parameters, {where}")
    shown.columns[1].justify = "right"
    for name, label in LABELS.items():
        shown.add_row(label, f"{result[f'{name}_per_second']:,.0f}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="small,base", help=f"of {', '.join(SIZES)}; separated by commas")
    parser.add_argument("--device", choices=tuple(LOADS), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each measurement, after a warm-up")
    parser.add_argument("--out", type=Path, help="where to write the JSON")
    options = parser.parse_args()
    out = options.out or ROOT / "results" / "benchmarks" / f"core-{options.device}.json"

    tokenizer, lines = word_tokenizer(), synthetic_lines()
    where = hardware(options.device) + (f", {torch.get_num_threads()} threads" if options.device == "cpu" else "")
    sizes = {}
    for size in options.sizes.split(","):
        sizes[size] = benchmark(size, lines, tokenizer, options.device, options.seconds)
        Console().print(table(size, sizes[size], where))
    record = {
        "benchmark": "core",
        "device": options.device,
        "hardware": hardware(options.device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit(),
        "settings": {
            "seconds": options.seconds,
            "vocabulary": len(tokenizer),
            "mean_length": float(np.mean([len(line) for line in lines])),
            "masked": MASKED,
            "training_precision": "bf16 autocast" if options.device == "cuda" else "float32",
            "filling_and_likelihood_precision": "float32",
            **asdict(LOADS[options.device]),
        },
        "sizes": sizes,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
