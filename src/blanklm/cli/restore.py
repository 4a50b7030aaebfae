"""``blanklm restore``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blanklm.bulk.lines import one_line_json
from blanklm.cli.options import Device, Json, expanded, loading, standard_input
from blanklm.cli.output import progress_bar, say, terminal
from blanklm.errors import BlankLMError
from blanklm.restoration.options import RestoreOptions

if TYPE_CHECKING:
    from blanklm.restoration.records import GapRecord


@expanded
def restore(
    text: Annotated[
        str | None,
        typer.Argument(help="A damaged text, Leiden or EpiDoc; by default from --file or standard input."),
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A file with one text; -: standard input.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file for the restored text.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="By default the bundled model for the language."),
    ] = None,
    *,
    options: RestoreOptions,
    details: Annotated[
        bool | None,
        typer.Option(help="Show candidates and parallels; by default at a terminal, with --out and --attribute."),
    ] = None,
    as_json: Json = False,
    device: Device = None,
) -> None:
    """Restore a damaged Greek or Latin text: Leiden notation or EpiDoc in, the same out; where and when it was written.

    blanklm restore "d(is) m(anibus) s[.....] iuliae felici vixit an[...] xx"
    """
    from blanklm.files import write_whole
    from blanklm.restoration.edition import restore_document, restorers_for
    from blanklm.restoration.notation import parse

    document = parse(_damaged_text(text, file), options.notation)
    with loading(model or "the model of the language"):
        restorers = restorers_for(document, options, model, device)
    ready = _say_ready if len(document.lacunae) > 1 and sys.stderr.isatty() else lambda gap: None
    with progress_bar(len(document.lacunae), "gaps") as advance:
        edition = restore_document(document, restorers, options, advance, ready)
    for gap in edition.lacunae:
        if gap.reason:
            say(f"gap {gap.gap} (line {gap.line}, column {gap.column}) is left as it is: {gap.reason}")
    written = document.encoded(edition.text)
    if out is not None:
        write_whole(out, written)
    if as_json:
        print(one_line_json(edition.to_json()))
        return
    if out is None and text is not None:
        print(edition.text)
    elif out is None:  # a file, byte for byte
        sys.stdout.flush()
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()
    if details or (details is None and (options.attribute or out is not None or sys.stdout.isatty())):
        from blanklm.restoration.report import report

        for shown in report(edition):
            terminal().print(shown, highlight=False, soft_wrap=True)


def _say_ready(gap: GapRecord) -> None:
    """Say what a gap's best restoration is, while the others are sought."""
    if gap.restorations:
        best = gap.restorations[0]
        say(f"gap {gap.gap} (line {gap.line}, column {gap.column}): [{best.text}] {best.probability:.0%}")


def _damaged_text(text: str | None, file: Path | None) -> str | bytes:
    if text is not None and file is not None:
        raise BlankLMError("give a text or --file, not both")
    if text is not None:
        return text
    if file is not None and file != Path("-"):
        return file.read_bytes()
    return standard_input('restore "τῶι δ[. . . .]"').read()
