"""An edition for people at a terminal: each lacuna, what may have stood there, how sure, and what speaks for it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from blanklm.restoration.edition import Edition, RestoredLacuna, RestoredPassage
from blanklm.restoration.notation import Lacuna, position

SHOWN = 5  # restorations of a lacuna, of those that were asked for
INDENT = (0, 0, 0, 2)
BARS = " ▁▂▃▄▅▆▇█"
COLOURS = ((0.9, "bold green"), (0.5, "green"), (0.2, "yellow"), (0.0, "red"))


def report(edition: Edition) -> Iterator[RenderableType]:
    for passage in edition.passages:
        if len(passage.numbers) > 1 and len(passage.hypotheses) > 1:
            yield _together(passage)
        for number in passage.numbers:
            yield _lacuna(edition, number)


def extent(lacuna: Lacuna) -> str:
    """Its length in words."""
    if lacuna.least is None:
        return "extent unknown"
    if lacuna.is_exact:
        return f"{lacuna.least} character{'s' if lacuna.least > 1 else ''}"
    bounds = f"at least {lacuna.least}" if lacuna.most is None else f"{lacuna.least} to {lacuna.most}"
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
            f", line {line}, column {column}: {extent(restored.lacuna)}", style="not bold"
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
    """The best restoration, each character in the colour of its confidence."""
    text = Text()
    for character, probability in zip(restored.candidates[0].text, restored.confidence, strict=True):
        text.append(character, style=next(colour for least, colour in COLOURS if probability >= least))
    return text


def _doubtful_places(restored: RestoredLacuna) -> str:
    """For each character that is not sure, what else competes for its place: ``ι 62 % (σ 30 %)``."""
    shown = []
    for character, place, probability in zip(
        restored.candidates[0].text, restored.places, restored.confidence, strict=True
    ):
        others = [f"{other} {p:.0%}" for other, p in list(place.items())[:4] if p >= 0.05 and p != probability]
        if probability < COLOURS[0][0] and others:
            shown.append(f"{_visible(character)} {probability:.0%} ({', '.join(map(_visible, others))})")
    return ", ".join(shown)


def bars(lengths: dict[int, float]) -> str:
    """The posterior over lengths, a bar for each that reaches a tenth of the highest."""
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
