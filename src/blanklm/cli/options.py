"""Options that several commands share, and the texts that they read."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import Field, is_dataclass
from functools import wraps
from pathlib import Path
from threading import Timer
from typing import IO, TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer

from blanklm.bulk.lines import Line, lines_in, lines_of
from blanklm.cli.output import say
from blanklm.cores import Reading, use_free_cores
from blanklm.errors import BlankLMError
from blanklm.options import option_fields

if TYPE_CHECKING:
    from blanklm.api import BlankLM

STARTED = Reading.now()  # when the command did
TELL_AFTER = 2.0  # seconds
FILL = 'fill "She opened the ___ and ___."'
MASK = re.compile(r"\[MASK\]|<mask>")

Texts = Annotated[list[str] | None, typer.Argument(help="Texts with blanks; by default from --file or standard input.")]
WholeTexts = Annotated[list[str] | None, typer.Argument(help="Whole texts; by default from --file or standard input.")]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="One text per line, or .jsonl; may be .xz, .gz, .bz2, .zst; -: standard input."),
]
Model = Annotated[str | None, typer.Option("--model", "-m", help="A bundled model, a folder or a Hugging Face Hub id.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, ...; by default the GPU if there is one.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help='Read JSON lines: objects with a "text".')]
Trace = Annotated[bool, typer.Option("--trace", help="Show the trajectory, step by step.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse texts with words that the model does not know.")]


def read_lines(
    texts: list[str] | None, file: Path | None, jsonl: bool, example: str = FILL, whole: bool = False
) -> Iterator[Line]:
    """Yield the inputs of a command one at a time; a bad one carries its error, and the rest continue.

    The ``example`` of a command is for somebody at a terminal who gives none. The first text in which a mask of
    another kind of model would be read as it is written is noted; ``whole`` texts have no blanks at all.
    """
    noted = False
    for line in _lines(texts, file, jsonl, example):
        if not noted and (found := MASK.search(line.text)) and (whole or "___" in line.text):
            say(f"note: {line.place}{found[0]} is read as it is written: a blank is ___, and blanklm fill fills it")
            noted = True
        yield line


def _lines(texts: list[str] | None, file: Path | None, jsonl: bool, example: str) -> Iterator[Line]:
    if texts and file:
        raise BlankLMError("give texts or --file, not both")
    if texts:
        yield from (Line(None, text) for text in texts)
    elif file is not None and file != Path("-"):
        yield from lines_of(file, jsonl)
    else:
        with standard_input(example) as stream:
            yield from lines_in(stream, "standard input", jsonl)


def standard_input(example: str) -> IO[bytes]:
    """Return standard input; if it is a terminal, raise an error that shows an ``example`` of a command."""
    if sys.stdin is None or sys.stdin.isatty():
        raise BlankLMError(f"no text: write blanklm {example}, or use --file or a pipe")
    return sys.stdin.buffer


def load_model(model: str | None, device: str | None) -> BlankLM:
    from blanklm.pretrained import DEFAULT

    with loading(model or DEFAULT):
        from blanklm.api import BlankLM

        return BlankLM.from_pretrained(model or DEFAULT, device)


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Load a model on the cores that are free; somebody who waits at a terminal is told for what."""
    told = Timer(TELL_AFTER, lambda: print(f"loading {name} ...", file=sys.stderr))
    told.daemon = True
    if sys.stderr.isatty():
        told.start()
    try:
        yield
    finally:
        told.cancel()
    use_free_cores(STARTED)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of its dataclass parameters as options (see ``blanklm.options``)."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    products: dict[str, type] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            products[name] = hints[name]
            field_hints = get_type_hints(hints[name])
            parameters += [_parameter(field, field_hints[field.name]) for field in option_fields(hints[name])]
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**values: Any) -> None:
        for name, product in products.items():
            chosen = {field.name: values.pop(field.name) for field in option_fields(product)}
            values[name] = product(**{key: tuple(v) if isinstance(v, list) else v for key, v in chosen.items()})
        command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(field: Field[Any], hint: Any) -> inspect.Parameter:
    """A field as a typer option; a tuple of words becomes an option that may be repeated."""
    kind, default = hint, field.default
    if get_origin(hint) is tuple:
        kind, default = list[str], list(default)  # type: ignore[arg-type]  # a tuple, as its hint says
    annotation: Any = Annotated[kind, typer.Option(*field.metadata["flags"], help=field.metadata["help"])]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
