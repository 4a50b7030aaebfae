"""Options that several commands share, and the texts that they read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blanklm.bulk.lines import (
    EveryBlank,
    Line,
    lines_in,
    lines_of,
)
from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    from blanklm.api import BlankLM


class Order(StrEnum):
    confident = "confident"
    model = "model"
    left_to_right = "left-to-right"
    parallel = "parallel"


Texts = Annotated[list[str] | None, typer.Argument(help="Texts with blanks. None: read --file or standard input.")]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="One text a line, or .jsonl; may be .xz, .gz, .bz2, .zst. -: standard input."),
]
Model = Annotated[str | None, typer.Option("--model", "-m", help="A bundled model, a folder or a Hugging Face Hub id.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, ...; the GPU by default where there is one.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="Read JSON lines: {text, constraints}.")]
Trace = Annotated[bool, typer.Option("--trace", help="Show the trajectory, step by step.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse texts with words that the model does not know.")]
Min = Annotated[int | None, typer.Option("--min", help="Least length of each blank, in words (characters).")]
Max = Annotated[int | None, typer.Option("--max", help="Greatest length of each blank.")]
Ban = Annotated[list[str] | None, typer.Option("--ban", help="A word no blank may hold; 2=WORD: only blank 2.")]
Require = Annotated[
    list[str] | None, typer.Option("--require", help="A word every blank must hold; 2=WORD: only blank 2.")
]
Only = Annotated[list[str] | None, typer.Option("--only", help="Allow only these words; 2=WORD: only in blank 2.")]


def read_lines(texts: list[str] | None, file: Path | None, jsonl: bool) -> Iterator[Line]:
    """The inputs of a command, one at a time; a bad one carries its error, and the rest go on."""
    if texts and file:
        raise BlankLMError("give texts or --file, not both")
    if texts:
        yield from (Line(None, text) for text in texts)
        return
    file = None if file == Path("-") else file
    if file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise BlankLMError('no text: write blanklm fill "They also have ___ which ___.", or use --file or a pipe')
    if file is not None:
        yield from lines_of(file, jsonl)
        return
    with sys.stdin.buffer as stream:
        yield from lines_in(stream, "standard input", jsonl)


def every_blank(least, most, ban, require, only) -> EveryBlank:
    return EveryBlank(least, most, *(tuple(words or ()) for words in (ban, require, only)))


def load_model(model: str | None, device: str | None) -> BlankLM:
    from blanklm.api import BlankLM
    from blanklm.pretrained import DEFAULT

    return BlankLM.from_pretrained(model or DEFAULT, device)
