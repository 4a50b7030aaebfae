"""Filling many files with 1, 2, ... processes of one machine, start-up included, and with as many Ray actors.

    python benchmarks/scale.py [--workers 1,2] [--shards 16] [--lines 1000] [--ray]
                               [--out results/benchmarks/scale-cpu.json]

The texts are review-like sentences with two blanks, filled greedily by the small model of review words in
tests/fixtures/yelp-words, one torch thread a worker.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from random import Random

import core

from blanklm.bulk.fill import fill_shards
from blanklm.bulk.shards import Filling
from blanklm.paper.provenance import hardware, write_result

WORDS = ("the", "food", "service", "staff", "was", "is", "very", "really", "good", "great", "friendly", "here")


def write_shards(folder: Path, shards: int, lines: int) -> None:
    random = Random(0)
    for shard in range(shards):
        texts = (" ".join(random.choices(WORDS, k=random.randint(3, 10))) for _ in range(lines))
        written = "".join(json.dumps({"text": f"{text} ___ and the ___ ."}) + "\n" for text in texts)
        (folder / f"{shard:04d}.jsonl").write_text(written)


def measure(folder: Path, out: Path, workers: int, on_ray: bool) -> dict[str, float]:
    load = os.getloadavg()[0]  # what else the machine does
    totals = fill_shards(f"{folder}/*.jsonl", Filling(str(core.YELP_WORDS)), out, workers, "" if on_ray else None)
    if totals.failed_lines or totals.failed_shards:
        raise SystemExit(f"some lines could not be filled: {totals}")
    reports = [json.loads(path.read_text()) for path in (out / "reports").glob("*.json")]
    busy = sum(report["seconds"] for report in reports)
    return {
        "workers": workers,
        "load_before": load,
        "seconds": totals.seconds,
        "lines_per_second": totals.lines / totals.seconds,
        "filling_seconds": busy / workers,  # of a worker: without start-up and waiting
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--ray", action="store_true", help="also on Ray actors")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of the workers
    report = {"benchmark": "scale", "hardware": hardware("cpu"), "model": core.YELP_WORDS.name,
              "shards": options.shards, "lines": options.shards * options.lines, "rows": []}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder, "texts")
        texts.mkdir()
        write_shards(texts, options.shards, options.lines)
        for on_ray in (False, True) if options.ray else (False,):
            for workers in map(int, options.workers.split(",")):
                row = {"on": "ray" if on_ray else "processes"}
                row |= measure(texts, Path(folder, f"{row['on']}-{workers}"), workers, on_ray)
                report["rows"].append(row)
                print(
                    f"{workers} {row['on']}: {row['lines_per_second']:.0f} lines/s, {row['seconds']:.1f} s", flush=True
                )
    if options.out:
        write_result(options.out, report)


if __name__ == "__main__":
    main()
