"""Read results and write tables: rows are JSON records, cells are format strings with paths into them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from blanklm.errors import BlankLMError
from blanklm.paper.provenance import Row, read_json

HERE = Path(__file__).resolve()


@cache
def checkout() -> Path:
    """Find the root of the repository: around the current folder or, failing that, around this file."""
    for folder in (Path.cwd(), *Path.cwd().parents, *HERE.parents):
        if (folder / "results").is_dir() and (folder / "src" / "blanklm").is_dir():
            return folder
    raise BlankLMError("results/ is not here: run this command in a checkout of blanklm")


def result(name: str) -> Row:
    return read_json(checkout() / "results" / f"{name}.json")


def results(folder: str, names: Iterable[str]) -> dict[str, Row]:
    """Those of the named results of a folder that exist."""
    return {
        name: result(f"{folder}/{name}") for name in names if (checkout() / f"results/{folder}/{name}.json").exists()
    }


class Cells(Formatter):
    """Format ``{path[to][number]:spec}``: an M after the spec means millions; what is missing leaves its cell empty."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        value: Any = kwargs
        for key in re.split(r"[\[\]]+", field_name.rstrip("]")):
            value = value.get(key) if isinstance(value, Mapping) else value[int(key)] if value else None
        return value, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return ""
        if format_spec.endswith("M"):
            return f"{format(value / 1e6, format_spec[:-1] + 'f')} M"
        return super().format_field(value, format_spec)


def cells(template: str, row: Mapping[str, Any]) -> list[str]:
    """The cells of a row, written with | between them."""
    return [Cells().vformat(cell, (), row) for cell in template.split(" | ")]


def columns(template: str, keys: Iterable[str]) -> str:
    """A template of a cell for each key, which it has in the place of @."""
    return " | ".join(template.replace("@", key) for key in keys)


def table(headings: str, template: str, rows: Iterable[Mapping[str, Any]]) -> str:
    return lines(headings.split(" | "), (cells(template, row) for row in rows))


def lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are written already."""
    written = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in written)


def named(rows: Mapping[str, Any], names: Mapping[str, str] | None = None) -> list[Row]:
    """The records of a mapping with their ``name``, the one that ``names`` gives them where there are any."""
    keys = rows if names is None else names
    return [{**rows[key], "name": names[key] if names else key} for key in keys if key in rows]


def percentages(ratios: Iterable[str]) -> str:
    """The headings of columns for shares of hidden words."""
    return " | ".join(f"{float(ratio):.0%}" for ratio in ratios)
