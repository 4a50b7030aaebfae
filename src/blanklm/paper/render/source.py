"""Read results and write tables: rows are JSON records, cells are format strings with paths into them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from blanklm.errors import BlankLMError
from blanklm.paper.provenance import Row, read_json, recorded

HERE = Path(__file__).resolve()
UNITS = {"M": 1e6, "T": 1e12}
MARK = " †"  # marks a row that was measured before provenance was recorded

_read: list[Row] = []  # the results that ``reading`` collects


@cache
def checkout() -> Path:
    """Find the root of the repository: around the current folder or, failing that, around this file."""
    for folder in (Path.cwd(), *Path.cwd().parents, *HERE.parents):
        if (folder / "results").is_dir() and (folder / "src" / "blanklm").is_dir():
            return folder
    raise BlankLMError("results/ is not here: run this command in a checkout of blanklm")


def result(name: str) -> Row:
    row = read_json(checkout() / "results" / f"{name}.json")
    _read.append(row)
    return row


@contextmanager
def reading() -> Iterator[list[Row]]:
    """Collect the results that are read meanwhile."""
    _read.clear()
    yield _read


def note(read: Iterable[Row]) -> str:
    """The line below a table with marked rows."""
    commits = dict.fromkeys(row["provenance"]["file_commit"][:7] for row in read if not recorded(row))
    return f"\n†: run before provenance was recorded; commit of the file: {', '.join(commits)}.\n"


def results(folder: str, names: Iterable[str]) -> dict[str, Row]:
    """Those of the named results of a folder that exist."""
    return {name: result(f"{folder}/{name}") for name in names if exists(f"{folder}/{name}")}


def exists(name: str) -> bool:
    return (checkout() / "results" / f"{name}.json").exists()


class Cells(Formatter):
    """Format ``{path[to][number]:spec}``, specs such as .1M giving millions; what is missing leaves its cell empty."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        value: Any = kwargs
        for key in re.split(r"[\[\]]+", field_name.rstrip("]")):
            value = value.get(key) if isinstance(value, Mapping) else value[int(key)] if value else None
        return value, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return ""
        if unit := UNITS.get(format_spec[-1:]):
            return f"{format(value / unit, format_spec[:-1] + 'f')} {format_spec[-1]}"
        return super().format_field(value, format_spec)


def cells(template: str, row: Mapping[str, Any], columns: Sequence[str] = ()) -> list[str]:
    """The cells of a row, written with | between them; one with @ is repeated for each of the ``columns``."""
    written = []
    for cell in template.split(" | "):
        for key in columns if "@" in cell else [""]:
            share = f"{float(key):.0%}" if "@%" in cell else ""
            written.append(Cells().vformat(cell.replace("@%", share).replace("@", key), (), row))
    return written


def marked(template: str, row: Mapping[str, Any], columns: Sequence[str] = ()) -> list[str]:
    """The same, the first cell marked if the row is from before provenance was recorded."""
    first, *rest = cells(template, row, columns)
    return [first + mark_of(row), *rest]


def origin(*sources: Mapping[str, Any]) -> Row:
    """What a row takes over of the results that it is made of."""
    return {"provenance": {"recorded": all(map(recorded, sources))}}


def mark_of(row: Mapping[str, Any]) -> str:
    return "" if recorded(row) else MARK


def in_bold(
    numbers: Sequence[float | None],
    intervals: Sequence[Sequence[float] | None],
    spec: str = ".1f",
    lowest: bool = False,
) -> list[str]:
    """Write what is compared in a column; bold is what is ahead of every other row beyond the intervals of both.

    The rule is the same whatever the row is, so there is no bold where a number has no interval.
    """
    sign = -1 if lowest else 1
    ranges = [interval and sorted(sign * end for end in interval) for interval in intervals]
    compared = [number for number, value in enumerate(numbers) if value is not None]
    complete = len(compared) > 1 and all(ranges[number] for number in compared)

    def ahead(one: int) -> bool:
        return complete and all(ranges[one][0] > ranges[other][1] for other in compared if other != one)  # type: ignore[index]

    return [
        "" if value is None else f"{'**' * ahead(number)}{value:{spec}}{'**' * ahead(number)}"
        for number, value in enumerate(numbers)
    ]


def lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are written already."""
    written = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in written)


def table(headings: str, template: str, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    return lines(cells(headings, {}, columns), (marked(template, row, columns) for row in rows))


def named(rows: Mapping[str, Any], names: Mapping[str, str] | None = None) -> list[Row]:
    """The records of a mapping with their ``name``, the one that ``names`` gives them where there are any."""
    keys = rows if names is None else names
    return [{**rows[key], "name": names[key] if names else key} for key in keys if key in rows]


def declared(name: str, *arguments: str) -> str:
    """A table of tables.toml, which says how."""
    spec = specs()[name]
    files, columns = spec.get("file", []), spec.get("columns", ())
    record: Row = {}
    sources = [result(file.format(*arguments)) for file in ([files] if isinstance(files, str) else files)]
    for source in sources:
        record |= source
    rows = record.get(spec.get("rows", ""), {})
    rows = [row | origin(*sources) for row in (named(rows) if isinstance(rows, Mapping) else rows)]
    rows += [{**result(file), "name": name} for file, name in spec.get("files", {}).items() if exists(file)]
    for field, labels in spec.get("labels", {}).items():
        rows = [row | {field: labels[row[field]]} for row in rows]
    written = [marked(line, record | origin(*sources), columns) for line in spec.get("lines", ())]
    written = [row for row in written if any(row[1:])]  # without what was not measured
    written += [marked(spec["cells"], row, columns) for row in rows]
    return lines(cells(spec["headings"], record, columns), written)


@cache
def specs() -> dict[str, Any]:
    return tomllib.loads(HERE.with_name("tables.toml").read_text(encoding="utf-8"))
