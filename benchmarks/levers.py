"""What each lever against overfitting gives: every try of the language-modelling recipe, made small.

    python benchmarks/levers.py [--steps 1200] [--share 24] [--seed 0] [--only NAME ...] [--out FILE]

The recipe's BLM, and that BLM with one thing changed, of two layers, on the first lines of Penn Treebank alone: enough
epochs to learn them by heart. The bounds, in nats a token, are of a part of the validation stream; the lowest says what
a lever gives, the last what it keeps. ``try-base`` is left out: nothing there is small.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import core
import torch

from blanklm.paper.tables import language_modelling as recipe

SIZE = {"layers": 2, "heads": 4, "width": 96, "feedforward": 384}
VALIDATED, UNUSED = 700, 20  # lines of the other streams
TRIES = ["blm", *(name for name in recipe.SYSTEMS if name.startswith("try-") and name != "try-base")]


@dataclass(frozen=True)
class Beginning(recipe.Corpus):
    """The first lines of a corpus."""

    share: int = 1

    def lines(self, split: str) -> list[str]:
        lines = super().lines(split)
        return lines[: {"train": len(lines) // self.share, "valid": VALIDATED, "test": UNUSED}[split]]


def make_small(steps: int, share: int, seed: int, corpus: str = "ptb") -> None:
    """A corpus of the recipe, from here on."""
    whole = recipe.CORPORA[corpus]
    training = replace(
        whole.training, steps=steps, tokens_per_batch=4096, warmup=steps // 12, evaluate_every=max(1, steps // 12),
        save_every=10**6, ema=0.995, seed=seed,
    )  # fmt: skip
    encoders = [replace(encoder, **SIZE) for encoder in (whole.encoder, whole.guarded)]
    recipe.CORPORA[corpus] = Beginning(corpus, *encoders, training, whole.ends, share=share)
    recipe.tokenised.cache_clear()


def add_row(report: dict, part: recipe.Part, out: Path | None) -> None:
    """Train a part and report how it went."""
    began = time.perf_counter()
    part.train(lambda line: None)
    trained = json.loads((part.folder / "training.json").read_text(encoding="utf-8"))
    records = [json.loads(line) for line in (part.folder / "run" / "metrics.jsonl").read_text().splitlines()]
    bounds = [record["valid_bound"] for record in records if "valid_bound" in record]
    row = {
        "label": part.system.label,
        "valid_bound": bounds,
        "train_loss": trained["train_loss"],
        "epochs": trained["epochs"],
        "seconds": time.perf_counter() - began,
    }
    report |= {"tokens": trained["tokens"], "commit": core.commit()}
    report["rows"][part.name] = row
    print(f"{part.system.label:50}{min(bounds):8.3f}{bounds[-1]:8.3f}   {row['seconds']:.0f} s", flush=True)
    if out:
        core.write_report(out, report)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--share", type=int, default=24, help="the first of so many parts of the lines is learnt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=TRIES, metavar="NAME")
    parser.add_argument("--out", type=Path, help="rows that are there already are not done again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    make_small(options.steps, options.share, options.seed)
    report = {"benchmark": "levers", "steps": options.steps, "share": options.share, "seed": options.seed, "size": SIZE}
    report["hardware"] = core.hardware("cpu")
    report["rows"] = core.rows_before(options.out)
    for name in options.only or TRIES:
        if name in report["rows"]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            (part,) = recipe.parts_of("ptb", [name], out=Path(folder))
            add_row(report, part, options.out)


if __name__ == "__main__":
    main()
