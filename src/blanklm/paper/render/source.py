"""Where the results are, and how a table is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from blanklm.errors import BlankLMError

HERE = Path(__file__).resolve()


@cache
def checkout() -> Path:
    """The root of the repository: around the current folder or, failing that, around this file."""
    for folder in (Path.cwd(), *Path.cwd().parents, *HERE.parents):
        if (folder / "results").is_dir() and (folder / "src" / "blanklm").is_dir():
            return folder
    raise BlankLMError("results/ is not here: run this command in a checkout of blanklm")


def result(name: str) -> dict[str, Any]:
    return json.loads((checkout() / "results" / f"{name}.json").read_text(encoding="utf-8"))


def results(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Those of the named results that exist, by the last part of their name."""
    folder = checkout() / "results"
    return {name.rpartition("/")[2]: result(name) for name in names if (folder / f"{name}.json").exists()}


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def by_ratio(first: str, ratios: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a column for each share of hidden words."""
    return table([first, *percentages(ratios)], rows)


def percentages(ratios: Iterable[str]) -> list[str]:
    return [f"{float(ratio):.0%}" for ratio in ratios]


def numbers(row: dict[str, Any] | None, *keys: str, digits: int = 1) -> list[str]:
    """A cell for each key, empty where there is no such number."""
    return [f"{row[key]:.{digits}f}" if row and key in row else "" for key in keys]
