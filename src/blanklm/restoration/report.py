"""Show an edition at a terminal: each lacuna, its candidates, their probabilities and parallels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from blanklm.core.template import Blank
from blanklm.restoration.edition import Edition
from blanklm.restoration.notation import position
from blanklm.restoration.passages import RestoredLacuna, RestoredPassage

SHOWN = 5  # restorations per lacuna, however many there are
INDENT = (0, 0, 0, 2)
BARS = " ▁▂▃▄▅▆▇█"
MIN_RIVAL = 0.05  # probability of a character that is shown as competing for a place
COLOURS = ((0.9, "bold green"), (0.5, "green"), (0.2, "yellow"), (0.0, "red"))


def report(edition: Edition) -> Iterator[RenderableType]:
    """Yield what to print, passage by passage and lacuna by lacuna."""
    for passage in edition.passages:
        if len(passage.numbers) > 1 and len(passage.hypotheses) > 1:
            yield _together(passage)
        for number in passage.numbers:
            yield _lacuna(edition, number)


def extent(blank: Blank) -> str:
    """Return the length of a lacuna in words."""
    if blank == Blank():
        return "extent unknown"
    if blank.length is not None:
        return f"{blank.length} character{'s' if blank.length > 1 else ''}"
    bounds = f"at least {blank.min}" if blank.max is None else f"{blank.min} to {blank.max}"
    return f"{bounds} characters"


def _together(passage: RestoredPassage) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for hypothesis in passage.hypotheses[:SHOWN]:
        spans = Text("  ".join(f"[{span}]" for span in hypothesis.spans))  # not as rich's markup
        table.add_row(_percent(hypothesis.probability), spans)
    first, last = passage.numbers[0] + 1, passage.numbers[-1] + 1
    return Group(Text(f"\nGaps {first} to {last} together", style="bold"), Padding(table, INDENT, expand=False))


def _lacuna(edition: Edition, number: int) -> RenderableType:
    restored = edition.lacunae[number]
    line, column = position(edition.document.source, restored.lacuna.start)
    parts: list[RenderableType] = [
        Text(f"\nGap {number + 1}", style="bold").append(
            f", line {line}, column {column}: {extent(restored.lacuna.blank)}", style="not bold"
        )
    ]
    if restored.candidates:
        parts += [Padding(part, INDENT, expand=False) for part in _details(restored)]
    if restored.reason:
        parts.append(Padding(Text(f"left as it is: {restored.reason}", style="italic"), INDENT, expand=False))
    return Group(*parts)


def _details(restored: RestoredLacuna) -> Iterator[RenderableType]:
    before, behind = (context.replace("-", "[…]") for context in (restored.before, restored.behind))
    yield Text(f"… {before}[").append(coloured(restored)).append(f"]{behind} …")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for rank, candidate in enumerate(restored.candidates[:SHOWN]):
        text = coloured(restored) if rank == 0 else Text(candidate.text)
        table.add_row(_percent(candidate.probability), Text("[").append(text).append("]"))
    if len(restored.candidates) > SHOWN:
        table.add_row("", Text(f"and {len(restored.candidates) - SHOWN} more", style="dim"))
    yield table
    if doubtful := _doubtful_places(restored):
        yield Text(f"or, place by place: {doubtful}")
    if len(restored.lengths) > 1:
        yield Text(f"length: {bars(restored.lengths)}")
    for parallel in restored.parallels:
        names = "; ".join(parallel.examples) + (" and others" if parallel.texts > len(parallel.examples) else "")
        quoted = Text("cf. ").append(f"{parallel.before} ", style="dim").append(parallel.words, style="italic")
        quoted.append(f" {parallel.behind}", style="dim")
        yield quoted.append(f"  ({parallel.texts} text{'s' if parallel.texts > 1 else ''}: {names})")


def coloured(restored: RestoredLacuna) -> Text:
    """Return the best restoration, each character in the colour of its confidence."""
    text = Text()
    for character, probability in zip(restored.candidates[0].text, restored.confidence, strict=True):
        text.append(character, style=next(colour for least, colour in COLOURS if probability >= least))
    return text


def _doubtful_places(restored: RestoredLacuna) -> str:
    """List the characters that are not certain, and what competes for their places: ``ι 62 % (σ 30 %)``."""
    shown = []
    for character, place, probability in zip(
        restored.candidates[0].text, restored.places, restored.confidence, strict=True
    ):
        others = [f"{other} {p:.0%}" for other, p in list(place.items())[:4] if p >= MIN_RIVAL and p != probability]
        if probability < COLOURS[0][0] and others:
            shown.append(f"{_visible(character)} {probability:.0%} ({', '.join(map(_visible, others))})")
    return ", ".join(shown)


def bars(lengths: Mapping[int, float]) -> str:
    """Draw the length posterior: a bar for each length with at least a tenth of the highest probability."""
    highest = max(lengths.values())
    return " ".join(
        f"{length}{BARS[max(1, round(probability / highest * (len(BARS) - 1)))]}"
        for length, probability in sorted(lengths.items())
        if probability >= 0.1 * highest
    )


def _visible(text: str) -> str:
    return f"␣{text[1:]}" if text.startswith(" ") else text


def _percent(probability: float) -> str:
    return f"{probability:6.1%}"
