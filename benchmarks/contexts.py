"""What a context gives a BLM, read together with every canvas or apart, and with words copied from it.

    python benchmarks/contexts.py [--corpus ptb] [--share 3] [--steps 600] [--only NAME ...] [--out FILE]

The recipe's BLM of longer chunks, of two layers, on the first lines of a corpus; then the BLM in context, which goes on
with its weights, in each way. The bounds, in nats a token, are of a part of the validation stream.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import core
import levers
import torch
from torch import Tensor

from blanklm.models.blm import BLM
from blanklm.paper.baselines.context_blm import ContextBLM
from blanklm.paper.tables import language_modelling as recipe

TEXTS = 40  # in a batch, each with the recipe's number of canvases


class OwnWords(ContextBLM):
    """A context read apart, of which nothing is copied."""

    def log_p_words(self, z: Tensor, row: Tensor, word: Tensor, source: object = None) -> Tensor:
        return super().log_p_words(z, row, word)


WAYS = {
    "together-80": ("80 tokens, read with every canvas", BLM, 80),
    "apart-80": ("80 tokens, read apart", OwnWords, 80),
    "copies-80": ("80 tokens, read apart and copied from", ContextBLM, 80),
    "apart-192": ("192 tokens, read apart", OwnWords, 192),
    "copies-192": ("192 tokens, read apart and copied from", ContextBLM, 192),
}


def prepare(corpus: str, share: int, steps: int, seed: int) -> None:
    """The recipe's systems from here on: small, and the BLM in context in each of the ways."""
    levers.make_small(3 * steps, share, seed, corpus)
    gently = {"encoder": recipe.dropouts(0.1)}  # few epochs: nothing is learnt by heart
    recipe.SYSTEMS["blm-128"] = replace(recipe.SYSTEMS["blm-128"], **gently)
    whole = replace(recipe.SYSTEMS["blm-context"], **gently)
    for name, (label, kind, context) in WAYS.items():
        training = whole.training | {"steps": steps, "warmup": steps // 12, "evaluate_every": max(1, steps // 6)}
        tokens = TEXTS * training["canvases"] * (context + whole.chunk)
        batch = tokens / recipe.CORPORA[corpus].training.tokens_per_batch
        settings = {"label": label, "kind": kind, "context": context, "training": training, "batch": batch}
        recipe.SYSTEMS[name] = replace(whole, **settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="ptb", choices=recipe.AT_HAND)
    parser.add_argument("--share", type=int, default=3, help="the first of so many parts of the lines is learnt")
    parser.add_argument("--steps", type=int, default=600, help="in context; three times as many before")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=WAYS, metavar="NAME")
    parser.add_argument("--out", type=Path, help="rows that are there already are not done again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    prepare(options.corpus, options.share, options.steps, options.seed)
    report = {
        "benchmark": "contexts",
        **{name: getattr(options, name) for name in ("corpus", "share", "steps", "seed")},
    }
    report |= {"size": levers.SIZE, "hardware": core.hardware("cpu"), "rows": core.rows_before(options.out)}
    missing = [name for name in options.only or WAYS if name not in report["rows"]]
    with tempfile.TemporaryDirectory() as folder:
        for name in ["blm-128", *missing] if missing else []:
            (part,) = recipe.parts_of(options.corpus, [name], out=Path(folder))
            levers.add_row(report, part, options.out)


if __name__ == "__main__":
    main()
