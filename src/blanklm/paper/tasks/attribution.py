"""Where and when, as Ithaca and Aeneas report it: top-1 and top-3 places, and how many years a date is off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from blanklm.paper.tasks.metrics import expected_calibration_error
from blanklm.restoration.attribution import Attributor
from blanklm.restoration.records import AttributionRecord

Years = tuple[int, int]


@dataclass(frozen=True)
class Inscription:
    """A text with ``[restored]`` letters marked, and what its editors say of it."""

    name: str
    text: str
    place: str | None
    years: Years | None  # first and last


def years_off(year: float, years: Years) -> float:
    """Return how many years a date lies outside the editor's range; 0 within it."""
    first, last = years
    return max(first - year, year - last, 0)


def share_within(years: Years, first: int, last: int) -> float:
    """Return how much of the editor's range lies between two years."""
    shared = min(years[1], last) - max(years[0], first) + 1
    return max(0, shared) / (years[1] - years[0] + 1)


def measure(records: Sequence[AttributionRecord], inscriptions: Sequence[Inscription]) -> dict[str, float]:
    """Score answers: places in percent of the texts that have one (if any has), dates in years."""
    pairs = list(zip(records, inscriptions, strict=True))
    placed = [([place.name for place in r.places[:3]], i.place, r.places[0].probability) for r, i in pairs if i.place]
    dated = [(record, inscription.years) for record, inscription in pairs if inscription.years]
    first = [names[0] == truth for names, truth, _ in placed]
    said = [probability for *_, probability in placed]
    off = [years_off(record.median, years) for record, years in dated]
    covered = [share_within(years, record.first, record.last) for record, years in dated]
    return {
        **shares_right(first, [truth in names for names, truth, _ in placed]),
        **({"ece": 100 * expected_calibration_error(said, first)} if placed else {}),
        "dated": len(dated),
        "years": fmean(off),
        "years_of_mean": fmean(years_off(record.mean, years) for record, years in dated),
        "years_median": median(off),
        "claimed": 100 * fmean(record.share for record, _ in dated),
        "held": 100 * fmean(covered),
    }


def shares_right(first: Sequence[bool], third: Sequence[bool]) -> dict[str, float]:
    """Return how many places were asked for, and how many in percent were the first or among the first three."""
    return {"placed": len(first)} | ({"top1": 100 * fmean(first), "top3": 100 * fmean(third)} if first else {})


def measure_attributor(
    attributor: Attributor, texts: Sequence[str], inscriptions: Sequence[Inscription], at_once: int = 256
) -> dict[str, float]:
    """Score the answers to ``texts``, which are what is shown of the inscriptions."""
    by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # little padding
    records: dict[int, AttributionRecord] = {}
    for start in range(0, len(texts), at_once):
        some = by_length[start : start + at_once]
        records |= zip(some, attributor.attribute_all([texts[i] for i in some]), strict=True)
    return measure([records[i] for i in range(len(texts))], inscriptions)


def majority(known: Sequence[Inscription], inscriptions: Sequence[Inscription]) -> dict[str, float]:
    """Score the same answer to every text: the places that are most frequent, and the year that is off the least."""
    counts = Counter(inscription.place for inscription in known if inscription.place)
    ranges = [inscription.years for inscription in known if inscription.years]
    year = best_year(ranges)
    places = [inscription.place for inscription in inscriptions if inscription.place]
    frequent = [place for place, _ in counts.most_common(3)]
    off = [years_off(year, inscription.years) for inscription in inscriptions if inscription.years]
    return {
        **shares_right([place == frequent[0] for place in places], [place in frequent for place in places]),
        "dated": len(off),
        "years": fmean(off),
        "years_median": median(off),
        "year": year,
    }


def best_year(ranges: Sequence[Years]) -> int:
    """Return the year that is off the least from ranges: the median of all their ends, where that sum is least."""
    return int(median(end for years in ranges for end in years))
