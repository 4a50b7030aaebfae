"""The property tests of the kernels and of the method with many cases each, and a record of it.

    python benchmarks/properties.py [--cases 10000] [--out results/properties.json]
    python benchmarks/properties.py --tests tests/core/test_properties.py::test_NAME    some; the records of others stay

Each property compares what computes many things at once with a slow version, or states what holds for every input.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import core

from blanklm.paper.provenance import provenance, read_json, write_result

FILES = ("tests/core/test_kernels.py", "tests/core/test_properties.py")
TEST = re.compile(r"^(tests/\S+?)::(\w+):$", re.MULTILINE)
CASES = re.compile(r"(\d+) passing(?: examples)?, (\d+) failing")


def run(tests: str, cases: int) -> list[dict]:
    """Run the properties of a file, or one of them; return the cases of each."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=1"]
    environment = os.environ | {"BLANKLM_CASES": str(cases), "PYTHONPATH": str(core.ROOT / "src")}
    done = subprocess.run(
        [*command, "--hypothesis-show-statistics", tests],
        cwd=core.ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    print(done.stdout[-2000:], flush=True)
    _, *parts = TEST.split(done.stdout)
    rows = []
    for file, name, statistics in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        counts = [(int(passing), int(failing)) for passing, failing in CASES.findall(statistics)]
        passing, failing = (sum(numbers) for numbers in zip(*counts, strict=True)) if counts else (0, 0)
        rows.append({"file": file, "property": name, "cases": passing, "failures": failing})
    if not rows or (done.returncode != 0 and not any(row["failures"] for row in rows)):
        raise SystemExit(f"pytest ended with {done.returncode}: {done.stderr[-2000:]}")
    return rows


def record(out: Path, rows: list[dict]) -> None:
    """Write rows with the commit and date of their run, in place of older rows of the same properties."""
    names = {row["property"] for row in rows}
    before = read_json(out)["rows"] if out.exists() else []
    now = provenance()
    rows = [row | {"commit": now["commit"], "date": now["date"]} for row in rows]
    write_result(
        out, {"benchmark": "properties", "seed": 1, "rows": [r for r in before if r["property"] not in names] + rows}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--tests", nargs="*", default=list(FILES))
    parser.add_argument("--out", type=Path, default=core.ROOT / "results" / "properties.json")
    options = parser.parse_args()
    failures = 0
    for tests in options.tests:
        rows = run(tests, options.cases)
        record(options.out, rows)
        print(json.dumps(rows, indent=1), flush=True)
        failures += sum(row["failures"] for row in rows)
    if failures:
        raise SystemExit("a property does not hold")


if __name__ == "__main__":
    main()
