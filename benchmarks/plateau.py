"""How soon a BLM learns more than the frequencies of words, under dropout: what it begins from, and what delays it.

    python benchmarks/plateau.py [--corpus ptb] [--words 1000] [--steps 600] [--only NAME ...] [--out FILE]

A tiny BLM with the recipe's dropout on Penn Treebank, of whose vocabulary the most frequent words are kept so that a
row takes a minute or two on one core. Every row is the recipe's start and settings with the changes named. The bounds,
in nats a token, are of a part of the validation stream.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import core
import torch

from blanklm.core.special import SPECIAL_TOKENS, UNK
from blanklm.core.texts import TokenisedTexts, TokenStream, stream_chunks
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.init import begin_at_frequencies, begin_at_neighbours
from blanklm.paper.tables.language_modelling import CORPORA, tokenised
from blanklm.training.run import TrainingConfig, train

SIZE = {"layers": 2, "heads": 4, "width": 96, "feedforward": 384}
CHUNK, VALIDATED = 64, 300  # tokens of a chunk, chunks that are validated on
NO_DROPOUT = {"dropout": 0.0, "output_dropout": 0.0, "hidden_dropout": 0.0, "word_dropout": 0.0}
OLD = {"frequencies": False, "neighbours": False}
ROWS: dict[str, dict] = {
    "small and random": OLD,
    "small and random, no dropout": OLD | NO_DROPOUT,
    "words at their frequencies": {"neighbours": False},
    "heads at neighbours": {"frequencies": False},
    "both": {},
    "both, no dropout": NO_DROPOUT,
    "both, no dropout of the input": {"input_dropout": 0.0},
    "both, no dropout of the output": {"output_dropout": 0.0},
    "both, no dropout of words": {"word_dropout": 0.0},
    "both, no dropout inside sub-layers": {"hidden_dropout": 0.0},
    "both, learning rate 0.004": {"learning_rate": 4e-3},
    "both, curriculum of orders": {"curriculum": 0.2},
    "both, fuller canvases (u^0.7 shown)": {"skew": 0.7},
}


def kept(lines: list[list[int]], numbers: dict[int, int]) -> list[list[int]]:
    """The lines in the words that are kept, by their new numbers; others become <unk>."""
    return [[token if token < len(SPECIAL_TOKENS) else numbers.get(token, UNK) for token in line] for line in lines]


def learnt(
    options: argparse.Namespace, train_lines: list, valid_lines: list, vocabulary: int,
    frequencies: bool = True, neighbours: bool = True, **changes: float,
) -> dict:  # fmt: skip
    corpus = CORPORA[options.corpus]
    encoder = replace(corpus.encoder, **SIZE)
    encoder = replace(encoder, **{name: value for name, value in changes.items() if hasattr(encoder, name)})
    config = TrainingConfig(
        steps=options.steps, tokens_per_batch=4096, warmup=100, weight_decay=corpus.training.weight_decay,
        evaluate_every=100, save_every=10**6, log_every=50, seed=options.seed,
    )  # fmt: skip
    config = replace(config, **{name: value for name, value in changes.items() if hasattr(config, name)})
    torch.manual_seed(options.seed)
    model = BLM(BLMConfig(vocabulary, encoder, sides_hidden=256, max_length=CHUNK))
    texts = TokenStream(train_lines, CHUNK)
    if frequencies:
        begin_at_frequencies(model, texts.flat)
    if neighbours:
        begin_at_neighbours(model.encoder.layers[0])
    valid, began = TokenisedTexts(stream_chunks(valid_lines, CHUNK)[:VALIDATED]), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        train(model, tokenised(options.corpus)[0], texts, valid, config, run, show_progress=False)
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    vectors = torch.nn.functional.normalize(model.embedding.weight.detach()[len(SPECIAL_TOKENS) :], dim=1)  # [V, d]
    return {
        "valid_bound": {str(r["step"]): r["valid_bound"] for r in records if "valid_bound" in r},
        "train_loss": {str(r["step"]): r["loss"] for r in records if "loss" in r},
        "cosine_of_words": float(vectors.mean(0).square().sum()),  # of two at random
        "seconds": time.perf_counter() - began,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="ptb")
    parser.add_argument("--words", type=int, default=1000, help="most frequent ones that are kept")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=ROWS, metavar="NAME")
    parser.add_argument("--out", type=Path, help="rows that are there already are not done again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = tokenised(options.corpus)[1]
    counts = Counter(token for line in lines["train"] for token in line if token >= len(SPECIAL_TOKENS))
    numbers = {token: len(SPECIAL_TOKENS) + i for i, (token, _) in enumerate(counts.most_common(options.words))}
    train_lines, valid_lines = (kept(lines[split], numbers) for split in ("train", "valid"))
    report = {"benchmark": "plateau", "corpus": options.corpus, "words": options.words, "chunk": CHUNK, "size": SIZE}
    report |= {
        "steps": options.steps,
        "seed": options.seed,
        "hardware": core.hardware("cpu"),
        "rows": core.rows_before(options.out),
    }
    for name in options.only or ROWS:
        if name in report["rows"]:
            continue
        row = learnt(options, train_lines, valid_lines, len(SPECIAL_TOKENS) + len(numbers), **ROWS[name])
        report["rows"][name] = row
        curve = " ".join(f"{bound:.3f}" for bound in row["valid_bound"].values())
        print(f"{name:40}{curve}   {row['seconds']:.0f} s", flush=True)
        if options.out:
            core.write_report(options.out, report)


if __name__ == "__main__":
    main()
