"""The bundled model ``greek-attribution``: where and when a Greek inscription or papyrus was written.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.greek_attribution OUT

The regions are those of I.PHI; papyri are of Egypt, and the inscriptions of I.Sicily of its region. Writes OUT/model,
OUT/sample.jsonl and OUT/result.json.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from blanklm.data import read_corpus
from blanklm.paper.bundled.attribution_recipe import Corpus, Recipe, Schedule
from blanklm.paper.tasks.attribution import Inscription, Years

RECIPE = Recipe(
    name="greek-attribution",
    bc=800,
    years=25,
    bins=64,
    about={
        "name": "greek-attribution",
        "summary": "Says in which region and when a Greek inscription or papyrus was written",
        "language": "grc",
        "licence": "CC BY-SA 4.0",
        "data": "5,646 Greek inscriptions and papyri: I.PHI, papyri.info, EDH, I.Sicily, IIP, USEP, Aphrodisias",
    },
    dropout=0.5,
    schedule=Schedule(epochs=12, texts=32),
)
WHOLE_SOURCES = {"papyri": "Egypt and Nubia", "isicily": "Sicily, Sardinia, and neighboring Islands"}
HELD_OUT = 5  # of so many training texts of I.PHI, one calibrates: there are few validation texts
SAMPLE = 60  # papyri, and as many inscriptions at most
_DATE = re.compile(r"(-?\d+)±(\d+)")


def place_of(record: Mapping[str, Any]) -> str | None:
    """Return the region of a record: of a papyrus, Egypt."""
    place = WHOLE_SOURCES.get(record["source"], record.get("place"))
    return None if place is None or place.startswith("unspecified") else place


def years_of(record: Mapping[str, Any]) -> Years | None:
    """Return the first and last year of a record; a date that is open to one side is left out."""
    found = _DATE.fullmatch(record.get("date") or "")
    return (int(found[1]) - int(found[2]), int(found[1]) + int(found[2])) if found else None


def inscriptions(split: str) -> Iterator[Inscription]:
    for number, line in enumerate(read_corpus("greek_documentary", f"{split}.jsonl"), 1):
        record = json.loads(line)
        name = record.get("id") or f"{record['source']}:{split}:{number}"
        yield Inscription(name, record["norm"], place_of(record), years_of(record))


def by_source(some: Sequence[Inscription]) -> dict[str, list[Inscription]]:
    """Part texts by where they come from: the place of a papyrus is no question."""
    return {
        "I.PHI": [one for one in some if one.name.startswith("iphi:")],
        "papyri": [one for one in some if is_papyrus(one)],
    }


def is_papyrus(inscription: Inscription) -> bool:
    return inscription.name.startswith("papyri:")


def sample_of(some: Sequence[Inscription]) -> list[Inscription]:
    """Return some test texts under an open licence: papyri, and inscriptions of I.Sicily."""
    able = [one for one in some if is_papyrus(one) and one.years and one.place]
    return [*able[:SAMPLE], *[one for one in some if one.name.startswith("isicily:") and one.place][:SAMPLE]]


def corpus() -> Corpus:
    """Return the corpus; probabilities are calibrated on texts of I.PHI, since the others are easy to place."""
    train, validation, test = (list(inscriptions(split)) for split in ("train", "valid", "test"))
    held_out = by_source(train)["I.PHI"][::HELD_OUT]
    return Corpus(train, by_source(validation)["I.PHI"], test, by_source, sample_of(test), held_out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train the bundled model greek-attribution.")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    made = RECIPE.make(options.out, corpus())
    print(json.dumps({key: made[key] for key in ("seconds", "model_bytes", "temperatures", "scores")}, indent=2))
