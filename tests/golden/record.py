"""Write the golden outputs, or check that the program still gives them.

    python tests/golden/record.py [name ...]            write tests/golden/NAME.json, of all by default
    python tests/golden/record.py --check [name ...]    compare exactly, print the first difference, exit with 1

A change that is meant to change what the program gives writes the files anew, and says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

if __package__ is None or __package__ == "":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.golden import cases

NAMES = ("fills", "scores", "restorations", "transfers", "losses")
FOLDER = Path(__file__).parent


def path_of(name: str) -> Path:
    """Where the golden outputs of that name are."""
    return FOLDER / f"{name}.json"


def recorded(name: str, every: int = 1) -> list[cases.Record]:
    """The golden outputs of every ``every``-th case."""
    records = json.loads(path_of(name).read_text(encoding="utf-8"))
    return [record for record in records if record["case"] % every == 0]


def computed(name: str, every: int = 1) -> list[cases.Record]:
    """The same as the program gives it now, as JSON has it."""
    return json.loads(json.dumps(getattr(cases, name)(every)))


def write(name: str, records: list[cases.Record]) -> None:
    """Write the records, one a line."""
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    path_of(name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def difference(golden: Any, now: Any, tolerance: float = 0.0, where: str = "") -> str | None:
    """Say where two records first differ; numbers with a fraction may by ``tolerance``, all else may not."""
    if isinstance(golden, float) and isinstance(now, float):
        return None if abs(golden - now) <= tolerance else f"{where}: {golden!r} became {now!r}"
    if type(golden) is not type(now):
        return f"{where}: {golden!r} became {now!r}"
    if isinstance(golden, dict):
        if list(golden) != list(now) and (tolerance == 0 or set(golden) != set(now)):
            return f"{where}: the keys {list(golden)} became {list(now)}"
        pairs = [(f"{where}.{key}", golden[key], now[key]) for key in golden]
    elif isinstance(golden, list):
        if len(golden) != len(now):
            return f"{where}: {len(golden)} became {len(now)} of them"
        pairs = [(f"{where}[{i}]", *each) for i, each in enumerate(zip(golden, now, strict=True))]
    else:
        return None if golden == now else f"{where}: {golden!r} became {now!r}"
    found = (difference(*each, tolerance, place) for place, *each in pairs)
    return next((each for each in found if each is not None), None)


def main() -> None:
    """Write or check the files that are named."""
    parser = argparse.ArgumentParser(description="Write or check the golden outputs.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(NAMES)}; all by default")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"there is no {name!r}: choose {', '.join(NAMES)}")
    for name in options.names or NAMES:
        began = time.perf_counter()
        records = computed(name)
        took = f"{len(records)} records, {time.perf_counter() - began:.1f} s"
        if not options.check:
            write(name, records)
            print(f"{name}: {took}")
        elif differs := difference(recorded(name), records, where=name):
            sys.exit(differs)
        else:
            print(f"{name}: the same, {took}")


if __name__ == "__main__":
    main()
