"""Options that several commands share, and the texts that they read."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import Field, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer

from blanklm.bulk.lines import (
    Line,
    lines_in,
    lines_of,
)
from blanklm.errors import BlankLMError

if TYPE_CHECKING:
    from blanklm.api import BlankLM


Texts = Annotated[list[str] | None, typer.Argument(help="Texts with blanks. None: read --file or standard input.")]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", help="One text per line, or .jsonl; may be .xz, .gz, .bz2, .zst. -: standard input."),
]
Model = Annotated[str | None, typer.Option("--model", "-m", help="A bundled model, a folder or a Hugging Face Hub id.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, ...; the GPU by default where there is one.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="Read JSON lines: {text, constraints}.")]
Trace = Annotated[bool, typer.Option("--trace", help="Show the trajectory, step by step.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse texts with words that the model does not know.")]


def read_lines(texts: list[str] | None, file: Path | None, jsonl: bool) -> Iterator[Line]:
    """Yield the inputs of a command one at a time; a bad one carries its error, and the rest continue."""
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


def load_model(model: str | None, device: str | None) -> BlankLM:
    from blanklm.api import BlankLM
    from blanklm.pretrained import DEFAULT

    return BlankLM.from_pretrained(model or DEFAULT, device)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of its dataclass parameters as options (see ``blanklm.options``)."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    products: dict[str, type] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            products[name] = hints[name]
            field_hints = get_type_hints(hints[name])
            parameters += [_parameter(field, field_hints[field.name]) for field in _options(hints[name])]
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**values: Any) -> None:
        for name, product in products.items():
            chosen = {field.name: values.pop(field.name) for field in _options(product)}
            values[name] = product(**{key: tuple(v) if isinstance(v, list) else v for key, v in chosen.items()})
        command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options(product: type) -> list[Field[Any]]:
    """The fields that are options; one without help is set from Python alone."""
    return [field for field in fields(product) if field.metadata]


def _parameter(field: Field[Any], hint: Any) -> inspect.Parameter:
    """A field as a typer option; a tuple of words becomes an option that may be repeated."""
    is_list = get_origin(hint) is tuple
    kind: Any = list[str] if is_list else hint
    default: Any = field.default
    annotation: Any = Annotated[kind, typer.Option(*field.metadata["flags"], help=field.metadata["help"])]
    if is_list:
        default = list(default)
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
