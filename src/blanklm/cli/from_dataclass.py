"""Command-line options from the fields of a dataclass, so that each is written down once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, fields
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, get_type_hints

import typer


def with_options(dataclass: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter ``options`` of a command by one option for each field of a dataclass.

    The metadata of a field may have its ``description``, its bounds ``ge`` and ``le``, a ``short`` name of one letter,
    and an ``old_name``, which is still accepted but not shown.
    """
    hints = get_type_hints(dataclass)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**arguments: Any) -> None:
            values = {}
            for entry in fields(dataclass):
                old_value = arguments.pop(entry.metadata.get("old_name", ""), None)
                value = arguments.pop(entry.name)
                values[entry.name] = value if old_value is None else old_value
            command(**arguments, options=dataclass(**values))

        parameters: list[Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.name != "options":
                parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
                continue
            for entry in fields(dataclass):
                parameters += _parameters(entry, hints[entry.name])
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # read by typer
        return run

    return decorate


def _parameters(entry: Field[Any], hint: Any) -> list[Parameter]:
    metadata = entry.metadata
    names = [f"--{entry.name.replace('_', '-')}", *([f"-{metadata['short']}"] if "short" in metadata else [])]
    least, most = metadata.get("ge"), metadata.get("le")
    option = typer.Option(*names, help=metadata["description"], min=least, max=most)
    parameters = [
        Parameter(entry.name, Parameter.KEYWORD_ONLY, default=entry.default, annotation=Annotated[hint, option])
    ]
    if old_name := metadata.get("old_name"):
        hidden = typer.Option(f"--{old_name}", hidden=True, min=least, max=most)
        annotation = Annotated[hint | None, hidden]
        parameters.append(Parameter(old_name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    return parameters
