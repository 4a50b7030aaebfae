"""aNLG and ROCStories: the sentence between two others, written by a bundled model, against what people wrote.

    blanklm reproduce middles --out runs/middles [--corpus anlg] [--system english-small] [--texts 300]

aNLG gives the first and the last sentence of a story and up to five references for what happened between them; of
ROCStories ("rocstories", as written) the third of five sentences is hidden. The models were not trained on either
corpus, and are compared with rows that need no model.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

from blanklm.api import BlankLM
from blanklm.data import read_corpus
from blanklm.paper import runner
from blanklm.paper.provenance import Row
from blanklm.paper.runner import Say
from blanklm.paper.tasks.middles import Item, fills_of, of_another_item, people, score

CORPORA = ("anlg", "rocstories")
TRIVIAL = {"before": "the sentence before, copied", "another": "a sentence of another story", "people": "people"}
SYSTEMS = ("english", "english-small", *TRIVIAL)
ITEMS, SEED = 500, 0
SENTENCES = 5  # of a story


def items_of(corpus: str, most: int) -> list[Item]:
    """Draw so many items of a corpus, the same whatever the system."""
    found = _anlg() if corpus == "anlg" else _rocstories()
    return random.Random(SEED).sample(found, min(most, len(found)))


def _anlg() -> list[Item]:
    records = [json.loads(line) for line in read_corpus("anlg", "test.jsonl")]
    return [Item.between(record["obs1"], record["obs2"], record["references"]) for record in records]


def _rocstories() -> list[Item]:
    stories = [re.split(r"(?<=[.!?])\s+", line.strip()) for line in read_corpus("rocstories", "natural")]
    return [Item.between(" ".join(s[:2]), " ".join(s[3:]), s[2:3]) for s in stories if len(s) == SENTENCES]


class Experiment(runner.UntrainedExperiment):
    def measure(self, say: Say) -> Row:
        items = items_of(self.corpus, self.texts)
        row: Row = {"corpus": self.corpus, "system": self.system, "label": TRIVIAL.get(self.system, self.system)}
        if self.system == "people":
            outputs, items = people(items)
        elif self.system == "another":
            outputs = of_another_item(items)
        elif self.system == "before":
            outputs = [re.split(r"(?<=[.!?])\s+", item.before)[-1] for item in items]
        else:
            model, done = BlankLM.from_pretrained(self.model or self.system), 0

            def progress(count: int) -> None:
                nonlocal done
                done += count
                say(f"{self.name}: {done:,} items")

            outputs = fills_of(model, items, progress)
            row["parameters"] = model.parameters
        return row | score(outputs, items) | {"outputs": outputs[:20]}


def experiments(
    out: Path,
    corpora: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    texts: int = ITEMS,
    model: Path | None = None,
    seconds: float = 0.0,
) -> list[Experiment]:
    """The rows of the table, all or those named; ROCStories has one reference, so none is against the others."""
    return [
        Experiment(out=out, corpus=corpus, system=system, texts=texts, model=model, seconds=seconds)
        for corpus in runner.choose("corpus", corpora, CORPORA, CORPORA)
        for system in runner.choose("system", systems, SYSTEMS, SYSTEMS)
        if (corpus, system) != ("rocstories", "people")
    ]


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal."""
    return "\n".join(
        f"{row['corpus']} {row['label']}: BLEU {row['bleu']:.1f}, ROUGE-L {row['rouge_l']:.1f}" for row in rows
    )
