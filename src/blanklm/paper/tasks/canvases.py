"""Fills for people to judge: a hundred canvases as people write them, and reading sheets that hide who filled them.

    python -m blanklm.paper.tasks.canvases OUT.jsonl --model english     fills the canvases with a model
    python -m blanklm.paper.tasks.canvases --sheet A.jsonl B.jsonl       prints a sheet; --key says who wrote what
    python -m blanklm.paper.tasks.canvases --tally VERDICTS.json KEY.json

The judge of a sheet writes {"1": {"A": "natural", ...}, ...}: a verdict for each letter of each canvas.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from string import ascii_uppercase
from textwrap import indent
from typing import Any

from blanklm import BlankLM
from blanklm.errors import BlankLMError, DataError
from blanklm.files import replacing
from blanklm.paper.provenance import ROOT, Row, read_json, write_json

CANVASES = ROOT / "results" / "english" / "canvases.jsonl"
VERDICTS = {
    "natural": "a careful reader would accept it as written by a person",
    "awkward": "grammatical, but odd in meaning or repetitive",
    "broken": "not English",
}

Key = dict[str, dict[str, list[str]]]  # canvas -> letter -> the systems that wrote this fill


def read_rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a line of JSON for each row, to a file that is never half there."""
    with replacing(path) as temporary:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        temporary.write_text("".join(lines), encoding="utf-8")


def filled(canvases: Sequence[Row], model: BlankLM, options: Mapping[str, Any]) -> list[Row]:
    """Fill the canvases; what a reader thinks of the fills is left open."""
    fills = model.fill([canvas["text"] for canvas in canvases], **options)
    return [
        {"id": canvas["id"], "text": canvas["text"], "fill": fill.text, "spans": list(fill.spans), "verdict": None}
        for canvas, fill in zip(canvases, fills, strict=True)
    ]


def reading_sheet(systems: Mapping[str, Sequence[Row]]) -> tuple[str, Key]:
    """Return a sheet with the fills of each canvas, lettered in an order drawn by its id, and the key to it.

    A fill that several systems wrote stands there once, so that it gets one verdict.
    """
    texts = [{row["id"]: row["text"] for row in rows} for rows in systems.values()]
    if any(other != texts[0] for other in texts):
        raise DataError("these files are not fills of the same canvases: fill them again with one canvases.jsonl")
    fills = {name: {row["id"]: row["fill"] for row in rows} for name, rows in systems.items()}
    sheet = [*(f"{verdict}: {meaning}\n" for verdict, meaning in VERDICTS.items()), "\n"]
    key: Key = {}
    for number, text in texts[0].items():
        writers: dict[str, list[str]] = {}
        for name in systems:
            writers.setdefault(fills[name][number], []).append(name)
        order = sorted(writers)  # so that it does not depend on the order of the files
        Random(f"canvas {number}").shuffle(order)
        lettered = dict(zip(ascii_uppercase, order, strict=False))
        key[str(number)] = {letter: writers[fill] for letter, fill in lettered.items()}
        for label, line in ({str(number): text} | lettered).items():
            sheet.append(f"{label:>4}  {indent(line, ' ' * 6).lstrip()}\n")
        sheet.append("\n")
    return "".join(sheet), key


def tally(verdicts: Mapping[str, Mapping[str, str]], key: Key) -> dict[str, dict[str, int]]:
    """Count the verdicts on each system's fills."""
    counts: dict[str, Counter[str]] = {}
    for number, letters in key.items():
        for letter, names in letters.items():
            verdict = verdicts.get(number, {}).get(letter)
            if verdict not in VERDICTS:
                raise DataError(f"canvas {number}, {letter}: {verdict!r} is no verdict: choose {', '.join(VERDICTS)}")
            for name in names:
                counts.setdefault(name, Counter())[verdict] += 1
    return {name: {verdict: counts[name][verdict] for verdict in VERDICTS} for name in sorted(counts)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m blanklm.paper.tasks.canvases", description="Fill, read, count.")
    parser.add_argument("out", type=Path, nargs="?", help="file for the fills")
    parser.add_argument("--model", help="bundled name or folder of the model that fills")
    parser.add_argument("--options", type=json.loads, default={}, help="options of fill, as JSON")
    parser.add_argument("--sheet", type=Path, nargs="+", metavar="FILLS", help="files of fills to read side by side")
    parser.add_argument("--key", type=Path, default=Path("key.json"), help="file for the key to the sheet")
    parser.add_argument("--tally", type=Path, nargs=2, metavar=("VERDICTS", "KEY"), help="count a sheet's verdicts")
    given = parser.parse_args(arguments)
    try:
        if given.sheet:
            sheet, key = reading_sheet({str(path): read_rows(path) for path in given.sheet})
            write_json(given.key, key)
            print(sheet, end="")
        elif given.tally:
            print(json.dumps(tally(*map(read_json, given.tally)), indent=1))
        elif given.out and given.model:
            write_rows(given.out, filled(read_rows(CANVASES), BlankLM.from_pretrained(given.model), given.options))
        else:
            parser.error("give OUT and --model, or --sheet, or --tally")
    except BlankLMError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
