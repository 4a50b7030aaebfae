"""How fast the core is, with random weights on synthetic texts: training, filling and likelihood.

    python benchmarks/core.py [--sizes small,base] [--device cpu|cuda] [--seconds 5] [--threads N] [--out FILE]

Prints one table a size and writes results/benchmarks/core-<device>.json. The texts have the line lengths, the word
frequencies and the vocabulary size of the Penn Treebank. Every blank is bound to its true length, since the fills
that random weights make would run on; so the number of tokens to fill is known.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from functools import partial
from itertools import chain, count, cycle, islice
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from blanklm.api import BlankLM
from blanklm.core.likelihood import monte_carlo
from blanklm.core.special import SPECIAL_TOKENS
from blanklm.core.template import Blank, Template
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.draft import Draft
from blanklm.decoding.fill import fill, fill_in_parallel
from blanklm.decoding.options import FillOptions
from blanklm.decoding.request import Request
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import SIZES, EncoderConfig
from blanklm.paper.provenance import hardware, write_result
from blanklm.paper.tasks.masking import mask_corpus
from blanklm.training.epochs import training_epoch
from blanklm.training.prepare import move

ROOT = Path(__file__).resolve().parent.parent
YELP_WORDS = ROOT / "tests" / "fixtures" / "yelp-words"  # a small trained model
VOCABULARY = 10_000  # special tokens included
WORDS = VOCABULARY - len(SPECIAL_TOKENS)
# The r-th most frequent word has p = c / (r + 1): 5.7 % the first, 1.0 % the tenth, 0.1 % the hundredth, as in PTB.
FREQUENCY = 1 / np.arange(2, WORDS + 2) / np.sum(1 / np.arange(2, WORDS + 2))  # [WORDS]
LINES = 42_068  # as many as the Penn Treebank has for training, so that an epoch is batched as a real one
MEAN_LENGTH, LENGTH_SPREAD, LONGEST = 21.1, 10.1, 82  # tokens a line
MASKED = 0.3  # the share of words that are hidden
# One call: little enough work for many calls in a few seconds, enough to keep the device busy.
LOADS = {  # padded tokens of a training step; lines and orders of a likelihood; lines to fill, and how many at once
    "cpu": {"tokens_per_batch": 2048, "lines": 2, "orders": 8, "lines_to_fill": 512, "batch": 32},
    "cuda": {"tokens_per_batch": 131_072, "lines": 500, "orders": 100, "lines_to_fill": 8192, "batch": 4096},
}
WARMUP_CALLS = 3  # the first calls allocate memory, pick kernels and build cached tables


def labels(device: str) -> dict[str, str]:
    """What is measured, and what is counted."""
    batch = LOADS[device]["batch"]
    return {
        "training_tokens": "training: tokens of text",
        "filled_tokens_batch_1": "filling, one token a pass, batch 1: tokens",
        f"filled_tokens_batch_{batch}": f"filling, one token a pass, batch {batch}: tokens",
        f"filled_tokens_parallel_batch_{batch}": f"filling, all blanks at once, batch {batch}: tokens",
        "likelihood_token_orders": "likelihood: tokens x orders",
    }


# --- Synthetic texts ------------------------------------------------------------------------------------------------


def synthetic_lines(seed: int = 0) -> list[np.ndarray]:
    """Lines of word ids: gamma-distributed lengths, words drawn by ``FREQUENCY``."""
    rng = np.random.default_rng(seed)
    shape = (MEAN_LENGTH / LENGTH_SPREAD) ** 2
    lengths = rng.gamma(shape, MEAN_LENGTH / shape, LINES).round().clip(2, LONGEST).astype(int)  # [LINES]
    words = rng.choice(WORDS, size=lengths.sum(), p=FREQUENCY)  # [tokens]
    return np.split(words + len(SPECIAL_TOKENS), lengths.cumsum()[:-1])


def random_model(size: str, vocabulary: int = VOCABULARY) -> BLM:
    """Random weights, but for a word bias that favours frequent words.

    The search takes words in falling order of p(w) until no other can win. Flat probabilities would drive it through
    the whole vocabulary; with these, as with a trained model, the first eight words nearly always decide.
    """
    torch.manual_seed(0)
    model = BLM(BLMConfig(vocabulary, EncoderConfig.of_size(size)))
    words = vocabulary - len(SPECIAL_TOKENS)
    with torch.no_grad():
        model.word_bias[len(SPECIAL_TOKENS) :] = torch.from_numpy(1.5 * np.log(FREQUENCY[:words]))  # [WORDS]
    return model


def with_blanks(sentences: list[str]) -> list[str]:
    """Sentences with hidden words, each blank bound to the number of words that it hides."""
    masks = mask_corpus(sentences, MASKED, seed=0)
    blanks = [tuple(Blank.exactly(len(span.split())) for span in mask.spans) for mask in masks]
    return [str(Template(m.template.pieces, b)) for m, b in zip(masks, blanks, strict=True)]


def texts_to_fill(model: BLM, tokenizer: Tokenizer, lines: list[np.ndarray]) -> list[Request]:
    prepare = BlankLM(model, tokenizer).prepare
    return [prepare(text) for text in with_blanks([tokenizer.decode(line.tolist()) for line in lines])]


# --- What is measured -----------------------------------------------------------------------------------------------


def measure(call: Callable[[], int], seconds: float, device: str) -> dict[str, float]:
    """Repeat ``call``, which returns the units it did, for about ``seconds``: {per_second, units, calls, seconds}."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None  # the GPU's work is queued: wait for its end
    warm_until = time.perf_counter() + seconds / 2  # one slow call warms enough
    for _ in range(WARMUP_CALLS):
        call()
        if time.perf_counter() > warm_until:
            break
    wait()
    units, calls, started = 0, 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        units, calls = units + call(), calls + 1
    wait()
    elapsed = time.perf_counter() - started
    return {"per_second": units / elapsed, "units": units, "calls": calls, "seconds": elapsed}


def training(model: BLM, lines: list[np.ndarray], device: str) -> Callable[[], int]:
    """A step is loss, backward, clipping and AdamW, not compiled. Units are tokens of text, padding not counted."""
    texts, budget = TokenisedTexts.from_ids(lines), LOADS[device]["tokens_per_batch"]
    draws = chain.from_iterable(training_epoch(texts, budget, seed=0, epoch=epoch) for epoch in count())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98))

    def step() -> int:
        draw = next(draws)
        batch, tokens = move(draw.collate(texts), torch.device(device)), int(texts.lengths[draw.indices].sum())
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = model.loss(model.prepare(batch)).sum() / tokens
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return tokens

    return step


def filling(fill: Callable[[list[Request]], list[Draft]], texts: list[Request], batch: int) -> Callable[[], int]:
    """Fill the next ``batch`` texts, in the order they came and not by length, as a server would. Units are tokens."""
    endless = cycle(texts)

    def call() -> int:
        members = list(islice(endless, batch))
        with torch.inference_mode():
            written = sum(draft.steps for draft in fill(members))
        assert written == sum(rule.max for text in members for rule in text.rules.by_blank), "a blank is not full"
        return written

    return call


def likelihood(model: BLM, lines: list[np.ndarray], device: str) -> Callable[[], int]:
    """Score the next lines. A unit is one token in one order: one canvas to encode."""
    load, endless = LOADS[device], cycle(lines)

    def call() -> int:
        members = [line.tolist() for line in islice(endless, load["lines"])]
        return monte_carlo(model, members, load["orders"]).orders * sum(map(len, members))

    return call


def benchmark(size: str, lines: list[np.ndarray], tokenizer: Tokenizer, device: str, seconds: float) -> dict:
    load = LOADS[device]
    model = random_model(size).to(device).eval()
    to_train = copy.deepcopy(model)
    if device == "cuda":
        model = model.bfloat16()
    texts = texts_to_fill(model, tokenizer, lines[: load["lines_to_fill"]])

    def greedy(texts: list[Request]) -> list[Draft]:
        return [ranked[0] for ranked in fill(model, texts, FillOptions())]

    parallel = partial(fill_in_parallel, model)
    calls = (
        training(to_train.train(), lines, device),
        filling(greedy, texts, 1),
        filling(greedy, texts, load["batch"]),
        filling(parallel, texts, load["batch"]),
        likelihood(model, lines, device),
    )
    results = [measure(call, seconds, device) for call in calls]
    measurements = dict(zip(labels(device), results, strict=True))
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        **{f"{name}_per_second": result["per_second"] for name, result in measurements.items()},
        "measurements": measurements,
    }


# --- The record -----------------------------------------------------------------------------------------------------


def table(size: str, result: dict, device: str) -> Table:
    where = hardware(device) + (f", threads: {torch.get_num_threads()}" if device == "cpu" else "")
    shown = Table("what", "per second", title=f"{size}: {result['parameters'] / 1e6:.1f} M parameters, {where}")
    shown.columns[1].justify = "right"
    for name, label in labels(device).items():
        shown.add_row(label, f"{result[f'{name}_per_second']:,.0f}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="small,base", help=f"of {', '.join(SIZES)}; separated by commas")
    parser.add_argument("--device", choices=tuple(LOADS), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each measurement, after a warm-up")
    parser.add_argument("--threads", type=int, help="of the CPU; fewer than its cores where others use it too")
    parser.add_argument("--out", type=Path, help="where to write the JSON")
    options = parser.parse_args()
    out = options.out or ROOT / "results" / "benchmarks" / f"core-{options.device}.json"
    torch.set_num_threads(options.threads or torch.get_num_threads())
    tokenizer, lines = Tokenizer.train("word", [f"w{i}" for i in range(WORDS)]), synthetic_lines()
    sizes = {}
    for size in options.sizes.split(","):
        sizes[size] = benchmark(size, lines, tokenizer, options.device, options.seconds)
        Console().print(table(size, sizes[size], options.device))
    record = {
        "benchmark": "core",
        "device": options.device,
        "hardware": hardware(options.device),
        "threads": torch.get_num_threads(),
        "settings": {
            "seconds": options.seconds,
            "vocabulary": VOCABULARY,
            "mean_length": MEAN_LENGTH,
            "masked": MASKED,
            "training_precision": "bf16 autocast" if options.device == "cuda" else "float32",
            "filling_and_likelihood_precision": "bf16" if options.device == "cuda" else "float32",
            **LOADS[options.device],
        },
        "sizes": sizes,
    }
    write_result(out, record)


if __name__ == "__main__":
    main()
