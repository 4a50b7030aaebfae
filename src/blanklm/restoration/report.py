"""Show an edition at a terminal: each lacuna, its candidates, their probabilities and parallels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from blanklm.restoration.attribution import range_named, year_named
from blanklm.restoration.edition import Edition
from blanklm.restoration.records import AttributionRecord, GapRecord, PassageRecord

SHOWN = 5  # restorations per lacuna, however many there are
SHOWN_PLACES = 3
INDENT = (0, 0, 0, 2)
BARS = " ▁▂▃▄▅▆▇█"
MIN_RIVAL = 0.05  # probability of a character that is shown as competing for a place
COLOURS = ((0.9, "bold green"), (0.5, "green"), (0.2, "yellow"), (0.0, "red"))


def report(edition: Edition) -> Iterator[RenderableType]:
    """Yield what to print, passage by passage and lacuna by lacuna."""
    for passage in edition.passages:
        if len(passage.gaps) > 1 and len(passage.hypotheses) > 1:
            yield _together(passage)
        yield from (_lacuna(edition.lacunae[number - 1]) for number in passage.gaps)
        if passage.attribution is not None:
            yield _where_and_when(passage.attribution)


def _extent(gap: GapRecord) -> str:
    """Return the length of a lacuna in words."""
    if gap.min is None:
        return "extent unknown"
    if gap.min == gap.max:
        return f"{gap.min} {gap.unit if gap.min > 1 else gap.unit[:-1]}"
    return f"at least {gap.min} {gap.unit}" if gap.max is None else f"{gap.min} to {gap.max} {gap.unit}"


def _where_and_when(attribution: AttributionRecord) -> RenderableType:
    """Show the most probable places, the range of years, and the distribution over years as bars."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for place in attribution.places[:SHOWN_PLACES]:
        table.add_row(f"{place.probability:6.1%}", Text(place.name))
    years = f"{range_named(attribution.first, attribution.last)} ({attribution.share:.0%})"
    middle = Text(f"{years}, as likely before as after {year_named(attribution.median)}")
    parts: list[RenderableType] = [table, middle, Text(_years(attribution.dates))]
    if attribution.note:
        parts.append(Text(attribution.note, style="italic"))
    heading = Text("\nWhere and when", style="bold")
    heading.append(f", by {attribution.letters} letters that are preserved", style="not bold")
    return Group(heading, *(Padding(part, INDENT, expand=False) for part in parts))


def _years(dates: Mapping[int, float]) -> str:
    """Draw the distribution over years, a bar for each bin between the first and the last that are worth one."""
    highest = max(dates.values())
    shown = [year for year, probability in dates.items() if probability >= 0.05 * highest]
    width = min(later - year for year, later in pairwise(dates))
    drawn = [
        BARS[round(probability / highest * (len(BARS) - 1))]
        for year, probability in dates.items()
        if shown[0] <= year <= shown[-1]
    ]
    return f"{year_named(shown[0])} {''.join(drawn)} {year_named(shown[-1] + width - 1)}  ({width} years each)"


def _together(passage: PassageRecord) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for hypothesis in passage.hypotheses[:SHOWN]:
        spans = Text("  ".join(f"[{span}]" for span in hypothesis.restorations))  # not as rich's markup
        table.add_row(f"{hypothesis.probability:6.1%}", spans)
    heading = Text(f"\nGaps {passage.gaps[0]} to {passage.gaps[-1]} together", style="bold")
    return Group(heading, Padding(table, INDENT, expand=False))


def _lacuna(gap: GapRecord) -> RenderableType:
    place = f", line {gap.line}, column {gap.column}: {_extent(gap)}"
    parts: list[RenderableType] = [Text(f"\nGap {gap.gap}", style="bold").append(place, style="not bold")]
    if gap.restorations:
        parts += [Padding(part, INDENT, expand=False) for part in _details(gap)]
    if gap.reason:
        parts.append(Padding(Text(f"left as it is: {gap.reason}", style="italic"), INDENT, expand=False))
    return Group(*parts)


def _details(gap: GapRecord) -> Iterator[RenderableType]:
    before, behind = (context.replace("-", "[…]") for context in (gap.before, gap.behind))
    yield Text(f"… {before}[").append(_coloured(gap)).append(f"]{behind} …")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for rank, candidate in enumerate(gap.restorations[:SHOWN]):
        text = _coloured(gap) if rank == 0 else Text(candidate.text)
        shown = Text("[").append(text).append("]")
        if candidate.formula:
            shown.append(f"  formula: {candidate.formula}", style="dim")
        table.add_row(f"{candidate.probability:6.1%}", shown)
    if len(gap.restorations) > SHOWN:
        table.add_row("", Text(f"and {len(gap.restorations) - SHOWN} more", style="dim"))
    yield table
    if doubtful := _doubtful_places(gap):
        yield Text(f"or, place by place: {doubtful}")
    if len(gap.lengths) > 1:
        yield Text(f"length: {_bars(gap.lengths)}")
    for parallel in gap.parallels:
        names = "; ".join(parallel.examples) + (" and others" if parallel.texts > len(parallel.examples) else "")
        quoted = Text("cf. ").append(f"{parallel.before} ", style="dim").append(parallel.words, style="italic")
        quoted.append(f" {parallel.behind}", style="dim")
        yield quoted.append(f"  ({parallel.texts} text{'s' if parallel.texts > 1 else ''}: {names})")


def _coloured(gap: GapRecord) -> Text:
    """Return the best restoration, each character in the colour of its confidence."""
    text = Text()
    for character, probability in zip(gap.restorations[0].text, gap.confidence, strict=True):
        text.append(character, style=next(colour for least, colour in COLOURS if probability >= least))
    return text


def _doubtful_places(gap: GapRecord) -> str:
    """List the characters that are not certain, and what competes for their places: ``ι 62 % (σ 30 %)``."""
    shown = []
    for character, place, probability in zip(gap.restorations[0].text, gap.places, gap.confidence, strict=True):
        others = [f"{other} {p:.0%}" for other, p in list(place.items())[:4] if p >= MIN_RIVAL and p != probability]
        if probability < COLOURS[0][0] and others:
            shown.append(f"{_visible(character)} {probability:.0%} ({', '.join(map(_visible, others))})")
    return ", ".join(shown)


def _bars(lengths: Mapping[int, float]) -> str:
    """Draw the length posterior: a bar for each length with at least a tenth of the highest probability."""
    highest = max(lengths.values())
    return " ".join(
        f"{length}{BARS[max(1, round(probability / highest * (len(BARS) - 1)))]}"
        for length, probability in sorted(lengths.items())
        if probability >= 0.1 * highest
    )


def _visible(text: str) -> str:
    return f"␣{text[1:]}" if text.startswith(" ") else text
