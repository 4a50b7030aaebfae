"""How long a person waits for the bundled model: a fresh process loads it and fills a sentence with two blanks.

    python benchmarks/first_fill.py [--processes 5] [--threads 1] [--out results/benchmarks/first-fill-cpu.json]

Seconds of each of a few processes, and their median: importing, loading, the first fill, a fill after it, and the whole
of `blanklm fill`, from its start to its end. It is to load in under 2 s and fill in under 0.6 s on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from blanklm.paper.provenance import hardware, write_result

SENTENCE = "She opened the ___ and ___."  # of the README's first command
STEPS = """
import json, sys, time
marks = [time.perf_counter()]
from blanklm import BlankLM
marks.append(time.perf_counter())
model = BlankLM.from_pretrained(device="cpu")
marks.append(time.perf_counter())
for _ in range(2):
    model.fill(sys.argv[1])
    marks.append(time.perf_counter())
print(json.dumps([after - before for before, after in zip(marks, marks[1:])]))
"""


def measure(threads: int) -> dict[str, float]:
    """One process of each kind."""
    env = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([sys.executable, "-c", STEPS, SENTENCE], env=env, capture_output=True, text=True, check=True)
    import_, load, first, again = json.loads(done.stdout)
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "blanklm", "fill", SENTENCE], env=env, capture_output=True, check=True)
    command = time.perf_counter() - started
    return {"import": import_, "load": load, "first_fill": first, "fill": again, "command": command}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    runs = [measure(options.threads) for _ in range(options.processes)]
    record = {
        "sentence": SENTENCE,
        "hardware": hardware("cpu"),
        "threads": options.threads,
        "median_seconds": {name: statistics.median(run[name] for run in runs) for name in runs[0]},
        "seconds": {name: [run[name] for run in runs] for name in runs[0]},
    }
    for name, seconds in record["median_seconds"].items():
        print(f"{name}: {seconds:.3f} s")
    if options.out:
        write_result(options.out, record)


if __name__ == "__main__":
    main()
