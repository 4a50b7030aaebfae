"""BLiMP: which of two sentences is good English? By likelihood, on pairs that differ in grammar alone.

    blanklm reproduce blimp --out runs/blimp [--system english-small] [--texts 100]

Of each of the 67 paradigms the same random pairs are asked (all 1,000 with --texts 1000), in two ways: "in place", what
both sentences have in common being given, and "whole", by Monte Carlo over orders of the whole sentence, the same
orders for both, on fewer pairs since it takes far longer. The accuracy is the mean over paradigms.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from blanklm.api import BlankLM
from blanklm.data import read_corpus
from blanklm.paper import runner
from blanklm.paper.provenance import Row
from blanklm.paper.runner import Say
from blanklm.paper.tasks.choices import Asked, accuracy, in_place, of_whole_texts

CORPORA, SYSTEMS = ("blimp",), ("english", "english-small")
PAIRS, WHOLE_SHARE, ORDERS = 100, 0.1, 8  # of a paradigm; of these, by whole sentences; m there
SEED = 0


def pairs(of_each: int) -> tuple[list[Asked], dict[str, str]]:
    """Draw so many pairs of each paradigm; and the phenomenon that each paradigm is of."""
    by_paradigm: dict[str, list[Asked]] = defaultdict(list)
    phenomena: dict[str, str] = {}
    for line in read_corpus("blimp", "blimp.jsonl"):
        record = json.loads(line)
        phenomena[record["uid"]] = record["term"]
        by_paradigm[record["uid"]].append(Asked(None, ((record["good"],), (record["bad"],)), 0, record["uid"]))
    rng = random.Random(SEED)
    drawn = [rng.sample(found, len(found))[:of_each] for found in by_paradigm.values()]
    return [pair for part in drawn for pair in part], phenomena


class Experiment(runner.UntrainedExperiment):
    def measure(self, say: Say) -> Row:
        model = BlankLM.from_pretrained(self.model or self.system)
        asked, phenomena = pairs(self.texts)
        fewer, _ = pairs(max(1, round(WHOLE_SHARE * self.texts)))
        row: Row = {"corpus": self.corpus, "system": self.system, "parameters": model.parameters}
        done = 0

        def progress(count: int) -> None:
            nonlocal done
            done += count
            if done % 640 < count:
                say(f"{self.name}: {done:,} pairs")

        row["in_place"] = accuracy(in_place(model, asked, progress), asked)
        row["phenomena"] = _by_phenomenon(row["in_place"]["groups"], phenomena)
        say(f"{self.name}: {row['in_place']['accuracy']:.1%} in place")
        whole = of_whole_texts(model, fewer, ORDERS, SEED, progress)
        return row | {"whole": accuracy(whole, fewer) | {"orders": ORDERS}}


def _by_phenomenon(paradigms: dict[str, float], phenomena: dict[str, str]) -> dict[str, float]:
    """The mean over the paradigms of each phenomenon."""
    members: dict[str, list[float]] = defaultdict(list)
    for paradigm, share in paradigms.items():
        members[phenomena[paradigm]].append(share)
    return {name: sum(shares) / len(shares) for name, shares in sorted(members.items())}


def experiments(
    out: Path,
    corpora: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    texts: int = PAIRS,
    model: Path | None = None,
    seconds: float = 0.0,
) -> list[Experiment]:
    """The models that are asked, all or those named."""
    return [
        Experiment(out=out, corpus=corpus, system=system, texts=texts, model=model, seconds=seconds)
        for corpus in runner.choose("corpus", corpora, CORPORA, CORPORA)
        for system in runner.choose("system", systems, SYSTEMS, SYSTEMS)
    ]


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal."""
    return "\n".join(
        f"{row['system']}: {row['in_place']['accuracy']:.1%} of {row['in_place']['questions']:,} pairs in place, "
        f"{row['whole']['accuracy']:.1%} of {row['whole']['questions']:,} by whole sentences"
        for row in rows
    )
