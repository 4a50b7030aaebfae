"""``blanklm restore``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blanklm.bulk.lines import (
    one_line_json,
)
from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    pass
from blanklm.cli.options import Device, Json
from blanklm.cli.output import progress_bar, say, terminal


class Notation(StrEnum):
    leiden = "leiden"
    epidoc = "epidoc"


class Count(StrEnum):
    characters = "characters"
    letters = "letters"


class Language(StrEnum):
    greek = "greek"
    latin = "latin"


def restore(
    text: Annotated[
        str | None, typer.Argument(help="A damaged text, Leiden or EpiDoc. None: read --file or standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A file with one text. -: standard input.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file for the restored text.")] = None,
    notation: Annotated[Notation | None, typer.Option(help="Detected if it is not named.")] = None,
    language: Annotated[Language | None, typer.Option(help="Told by the letters if it is not named.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="By default the bundled model of the language.")
    ] = None,
    top: Annotated[int, typer.Option("--top", "-n", min=1, help="How many restorations of each gap.")] = 20,
    abstain_below: Annotated[
        float, typer.Option(min=0, max=1, help="Leave a gap as it is if nothing is as probable as this.")
    ] = 0.05,
    sure: Annotated[
        float, typer.Option(min=0, max=1, help="Leave characters lost that are less probable than this.")
    ] = 0.0,
    parallels: Annotated[int, typer.Option(min=0, help="How many parallels for each gap.")] = 3,
    count: Annotated[Count, typer.Option(help="What lengths count; letters: not the spaces.")] = Count.characters,
    details: Annotated[
        bool | None,
        typer.Option(help="Show what speaks for each; by default at a terminal and with --out."),
    ] = None,
    as_json: Json = False,
    device: Device = None,
) -> None:
    """Restore a damaged Greek or Latin text: Leiden notation or EpiDoc in, the same out.

    blanklm restore "d(is) m(anibus) s[.....] iuliae felici vixit an[...] xx"
    """
    from blanklm.restoration import edition as editions
    from blanklm.restoration import notation as notations

    document = notations.parse(_damaged_text(text, file), notation.value if notation else None)
    find = editions.parallels_of(parallels) if parallels else None
    with progress_bar(len(document.lacunae), "gaps") as advance:
        edition = editions.restore_document(
            document,
            lambda found: editions.load_restorer(model or editions.model_for(found), device),
            language.value if language else None,
            top,
            abstain_below,
            sure,
            find,
            count.value,
            advance,
        )
    for number, restored in enumerate(edition.lacunae):
        if restored.reason:
            line, column = notations.position(document.source, restored.lacuna.start)
            say(f"gap {number + 1} (line {line}, column {column}) is left as it is: {restored.reason}")
    written = document.encoded(edition.text)
    if out is not None:
        out.write_bytes(written)
    if as_json:
        print(one_line_json(edition.to_json()))
        return
    if out is None and text is not None:
        print(edition.text)
    elif out is None:  # a file, byte for byte
        sys.stdout.flush()
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()
    if details or (details is None and (out is not None or sys.stdout.isatty())):
        from blanklm.restoration.report import report

        console = terminal()
        for shown in report(edition):
            console.print(shown, highlight=False, soft_wrap=True)


def _damaged_text(text: str | None, file: Path | None) -> str | bytes:
    if text is not None and file is not None:
        raise BlankLMError("give a text or --file, not both")
    if text is not None:
        return text
    if file is not None and file != Path("-"):
        return file.read_bytes()
    if sys.stdin is None or sys.stdin.isatty():
        raise BlankLMError('no text: write blanklm restore "τῶι δ[. . . .]", or use --file or a pipe')
    return sys.stdin.buffer.read()
