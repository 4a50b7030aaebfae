"""Write the tables of the documents from the JSON files under results/.

    python -m blanklm.paper.render            rewrites README.md, docs/*.md and the model cards
    python -m blanklm.paper.render --check    exits with 1 if one of them is out of date

What stands between ``<!-- table: name argument ... -->`` and ``<!-- end -->`` is replaced by the table of that name,
which tables.toml declares or a function in one of the modules here returns. A measured number in prose stands between
``<!-- number: file path:format -->`` and ``<!-- end -->``, as in ``models/english training[seconds]:,.0f``. Other prose
is written by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from blanklm.errors import BlankLMError
from blanklm.files import write_whole
from blanklm.paper.render import (
    commands,
    infilling,
    language_modelling,
    models,
    outside,
    performance,
    restoration,
    sentiment,
)
from blanklm.paper.render.source import MARK, cells, checkout, declared, note, reading, result, specs

PASSAGE = re.compile(r"(<!-- table: (\w+)((?: [\w-]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)
NUMBER = re.compile(r"(<!-- number: ([\w/-]+) (\S+) -->).*?(<!-- end -->)", re.DOTALL)
GROUPS = commands, infilling, language_modelling, models, outside, performance, restoration, sentiment
TABLES: dict[str, Callable[..., str]] = {table.__name__: table for group in GROUPS for table in group.TABLES}
TABLES |= {name: partial(declared, name) for name in specs()}


def rendered(text: str) -> str:
    """Render the tables of a document, and the numbers in its prose."""
    text = PASSAGE.sub(lambda match: match[1] + _table(match[2], *match[3].split()) + match[4], text)
    return NUMBER.sub(lambda match: match[1] + cells(f"{{{match[3]}}}", result(match[2]))[0] + match[4], text)


def _table(name: str, *arguments: str) -> str:
    """A table, with a line below about its marked rows."""
    with reading() as read:
        written = TABLES[name](*arguments)
        return written + note(read) if MARK in written else written


def documents() -> list[Path]:
    """Every document with tables: the README, the docs, and the cards of models."""
    cards = [card for folder in models.CARDS for card in (checkout() / folder).glob("*/README.md")]
    return [checkout() / "README.md", *sorted((checkout() / "docs").glob("*.md")), *sorted(cards)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m blanklm.paper.render", description="Write the documents' tables.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a document is out of date")
    check = parser.parse_args(arguments).check
    try:
        texts = {path: path.read_text(encoding="utf-8") for path in documents()}
    except BlankLMError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    stale = {path: after for path, before in texts.items() if (after := rendered(before)) != before}
    for path, after in stale.items():
        if check:
            print(f"{path.relative_to(checkout())} is out of date: run python -m blanklm.paper.render", file=sys.stderr)
        else:
            write_whole(path, after.encode("utf-8"))
    return int(check and bool(stale))
