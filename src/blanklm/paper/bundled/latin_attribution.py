"""The bundled model ``latin-attribution``: where and when a Latin inscription was written.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.bundled.latin_attribution OUT

Dates are those of ``edh_latin`` and ``edcs_latin``. Provinces are those of ``edcs_latin``, whose licence is stated in
different ways (see NOTICE), since ``edh_latin`` names few; ten provinces are missing there. Writes OUT/model,
OUT/sample.jsonl and OUT/result.json.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from blanklm.data import read_corpus
from blanklm.data.readers import read_lines
from blanklm.data.registry import data_root
from blanklm.paper.bundled.attribution_recipe import Corpus, Recipe, by_length
from blanklm.paper.bundled.latin import repaired
from blanklm.paper.tasks.attribution import Inscription, Years

RECIPE = Recipe(
    name="latin-attribution",
    bc=300,
    years=25,
    bins=40,
    about={
        "name": "latin-attribution",
        "summary": "Says in which province and when a Latin inscription was written",
        "language": "la",
        "licence": "CC BY-SA 4.0",
        "data": "Inscriptions of the Epigraphic Database Heidelberg and of Clauss / Slaby (EDCS)",
    },
    least={2: 5, 3: 12, 4: 18, 5: 25, "word": 4, "pair": 6},
)
NO_PROVINCE = {"", "unbekannt", "Provincia incerta", "Italia"}
EVERY = 16  # of the dated test texts is in the sample
PLACED = 60  # test texts in the sample that have a province and no date, at most
_ITALIC = re.compile(r"(.+) / (Regio [IVX]+)")
AS_EDH = {  # the names that EDCS has for provinces, where they differ
    "Lugudunensis": "Lugdunensis",
    "Aquitani(c)a": "Aquitania",
    "Sicilia": "Sicilia, Melita",
    "Palaestina": "Iudaea",
    "Pontus et Bithynia": "Bithynia et Pontus",
    "Creta et Cyrenaica": "Creta, Cyrene",
}


def years_of(record: Mapping[str, Any]) -> Years | None:
    """Return the first and last year of a record; one year alone is both, and days and months are left out."""
    found = [re.match(r"-?\d+", str(record[name] or "")) for name in ("not_before", "not_after")]
    years = [int(match[0]) for match in found if match]
    return (min(years), max(years)) if years else None


def province_of(record: Mapping[str, Any]) -> str | None:
    """Return the province of a record by the name that EDH has for it; a doubtful one counts as certain."""
    name = _ITALIC.sub(r"\1 (\2)", record["province"] or "").removesuffix("?")
    return None if name in NO_PROVINCE or "|" in name else AS_EDH.get(name, name)


def clauss_slaby(split: str) -> Iterator[tuple[str, Inscription]]:
    """Yield the inscriptions of EDCS, each after its Heidelberg number or an empty string."""
    for line in read_lines(data_root() / "edcs_latin" / f"{split}.jsonl.xz"):
        record = json.loads(line)
        found = Inscription(record["id"], record["norm"], province_of(record), years_of(record))
        yield record["hd"] or "", found


def heidelberg(split: str) -> Iterator[Inscription]:
    for line in read_corpus("edh_latin", f"{split}.jsonl"):
        record = json.loads(line)
        yield Inscription(record["id"], repaired(record["norm"]), province_of(record), years_of(record))


def joined(ours: Sequence[Inscription], others: Sequence[tuple[str, Inscription]]) -> list[Inscription]:
    """Add what only EDCS has to the inscriptions of Heidelberg, and its provinces to those that both have."""
    linked = {number: one.place for number, one in others if number}
    known = {one.name for one in ours}
    placed = [replace(one, place=one.place or linked.get(one.name)) for one in ours]
    return placed + [one for number, one in others if number not in known]


def sample_of(inscriptions: Sequence[Inscription]) -> list[Inscription]:
    """Return every so many of the dated test texts, and some of the others that have a province."""
    placed = [one for one in inscriptions if one.place and not one.years][:PLACED]
    return [one for one in inscriptions if one.years][::EVERY] + placed


def by_source(some: Sequence[Inscription]) -> dict[str, list[Inscription]]:
    """Part texts by the database that they are from, and those of each by their length."""
    parts = {"EDH": [one for one in some if one.name.startswith("HD")]}
    parts["EDCS"] = [one for one in some if not one.name.startswith("HD")]
    lengths = {f"{name}, {title}": found for name in parts for title, found in by_length(parts[name]).items()}
    return parts | lengths


def corpus() -> Corpus:
    """Return the corpus; of test and validation texts of Heidelberg only the dates are asked: few have a province."""
    test = list(heidelberg("test"))
    held_out = {"valid": list(heidelberg("valid")), "test": test}
    splits = {
        split: [*(replace(one, place=None) for one in some), *(one for _, one in clauss_slaby(split))]
        for split, some in held_out.items()
    }
    train = joined(list(heidelberg("train")), list(clauss_slaby("train")))
    return Corpus(train, splits["valid"], splits["test"], by_source, sample_of(test))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train the bundled model latin-attribution.")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    made = RECIPE.make(options.out, corpus())
    print(json.dumps({key: made[key] for key in ("seconds", "model_bytes", "temperatures", "scores")}, indent=2))
