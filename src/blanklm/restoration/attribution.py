"""Where and when a text was written: places and dates with calibrated probabilities, by the letters that are preserved.

What is lost is not read, nor what an editor has restored: who restores a text has often placed and dated it first.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from blanklm import pretrained
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.attribution import AttributionModel
from blanklm.restoration.normalise import normalise
from blanklm.restoration.notation import Letters, Passage
from blanklm.restoration.records import AttributionRecord, PlaceRecord
from blanklm.training import checkpoint

LOST = "#"  # anything that the tokenizer does not know
SHARE = 0.8  # of the probability that the range of years holds
FEW = 20  # preserved letters; with fewer, probabilities say little more than what is frequent


class Attributor:
    """A model of where and when, with its alphabet."""

    def __init__(self, model: AttributionModel, tokenizer: Tokenizer, about: dict[str, Any] | None = None) -> None:
        self.model, self.tokenizer, self.about = model.eval(), tokenizer, about or {}

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path) -> Attributor:
        loaded = checkpoint.load(pretrained.locate(name_or_folder))
        if not isinstance(loaded.model, AttributionModel):
            raise BlankLMError(f"{name_or_folder} does not say where and when: give a model such as latin-attribution")
        return cls(loaded.model, loaded.tokenizer, loaded.about)

    @staticmethod
    @cache
    def of(language: str) -> Attributor:
        """Return the bundled one of a language."""
        return Attributor.from_pretrained(f"{language}-attribution")

    def attribute(self, text: str) -> AttributionRecord:
        """Say where and when a text was written; ``-`` and ``#`` in it are letters lost."""
        return self.attribute_all([text])[0]

    @torch.inference_mode()
    def attribute_all(self, texts: list[str]) -> list[AttributionRecord]:
        """Say it of several texts at once."""
        read = [readable(text) for text in texts]
        tokens, _ = pad(self.tokenizer.encode_many(read))  # [B, L]
        logits = self.model.logits(self.model.bags(tokens))
        places, dates = logits[0].softmax(1), logits[1].softmax(1)  # [B, P], [B, bins]
        return [self._record(*parts) for parts in zip(read, places, dates, strict=True)]

    def _record(self, text: str, places: Tensor, dates: Tensor) -> AttributionRecord:
        """Make a record of what is read of one text, and of its distributions [P] and [bins]."""
        config = self.model.config
        letters = sum(map(str.isalpha, text))
        by_probability = places.sort(descending=True, stable=True)
        edges = [config.first_year + config.years * bin for bin in range(config.bins + 1)]
        first, last = shortest_range(dates.tolist(), SHARE)
        centres = torch.tensor(edges[:-1]) + config.years / 2  # [bins]
        note = f"only {letters} letters are preserved: this says little more than what is frequent"
        return AttributionRecord(
            letters=letters,
            places=[
                PlaceRecord(config.places[i], p)
                for p, i in zip(by_probability[0].tolist(), by_probability[1].tolist(), strict=True)
            ],
            first=edges[first],
            last=edges[last + 1] - 1,
            share=sum(dates[first : last + 1].tolist()),
            median=median(dates.tolist(), config.first_year, config.years),
            mean=round(float(dates @ centres)),
            dates=dict(zip(edges, dates.tolist(), strict=False)),
            note=note if letters < FEW else None,
        )


def readable(text: str) -> str:
    """Return a text as the models read it: words between single spaces, one sign for all that is lost at a place."""
    text = re.sub("[-#]+", LOST, normalise(text).replace(".", " "))
    text = re.sub(" +", " ", re.sub(f"{LOST}[ {LOST}]*{LOST}", LOST, text))
    return f" {text.strip(' ')} "


def preserved(passage: Passage) -> str:
    """Return the letters of a passage that are not lost, with ``#`` for what is lost or restored by the editor."""
    pieces = []
    for part in passage.parts:
        if not isinstance(part, Letters):
            pieces.append(LOST)
            continue
        for character, place in zip(part.text, part.places, strict=True):
            pieces.append(LOST if place in part.restored else character)
    return "".join(pieces)


def attribution_of(passage: Passage, language: str) -> AttributionRecord:
    """Say where and when a passage was written."""
    return Attributor.of(language).attribute(preserved(passage))


def shortest_range(probabilities: list[float], share: float) -> tuple[int, int]:
    """Return the first and last bin of the shortest run that holds the ``share``; of several, the most probable."""
    best = (0, len(probabilities) - 1)
    held, first = 0.0, 0
    most = (-len(probabilities), sum(probabilities))  # of the best: bins, negative, and probability
    for last, probability in enumerate(probabilities):
        held += probability
        while first < last and held - probabilities[first] >= share:
            held -= probabilities[first]
            first += 1
        if held >= share and (first - last - 1, held) > most:
            best, most = (first, last), (first - last - 1, held)
    return best


def median(probabilities: list[float], first_year: int, years: int) -> int:
    """Return the year with as much probability before as after it; within a bin, probability is spread evenly."""
    before = 0.0
    half = sum(probabilities) / 2
    for bin, probability in enumerate(probabilities):
        if before + probability >= half:
            return round(first_year + years * (bin + (half - before) / probability))
        before += probability
    raise AssertionError("a distribution has a median")


def year_named(year: int) -> str:
    """Write a year as people do."""
    return f"{-year} BC" if year < 0 else f"AD {max(year, 1)}"


def range_named(first: int, last: int) -> str:
    """Write a range of years as people do."""
    if first < 0 and last < 0:
        return f"{-first} to {-last} BC"
    return f"AD {max(first, 1)} to {last}" if first >= 0 else f"{-first} BC to AD {max(last, 1)}"
