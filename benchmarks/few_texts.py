"""What ten minutes on a few thousand sentences give: from the bundled English model, and from scratch.

    python benchmarks/few_texts.py --out results/few_texts.json

Both runs go at the same time, with a thread each, on 3,000 sentences of ROCStories ($BLANKLM_DATA), with the defaults
of ``blanklm train``; BLEU is on 300 others, all blanks at once.
"""

from __future__ import annotations

import argparse
import lzma
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from blanklm import BlankLM
from blanklm.paper.provenance import read_json, write_json, write_result
from blanklm.paper.tasks.infilling import evaluate

TEXTS, HELD_OUT = 3000, 300
SHARES = (0.1, 0.3, 0.5)
STARTS = {"english-small": "from english-small", "scratch": "from scratch"}


def sentences() -> list[str]:
    """Draw different sentences of five words and more."""
    path = Path(os.environ["BLANKLM_DATA"]) / "rocstories" / "natural.txt.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        found = [sentence for line in lines for sentence in re.split(r"(?<=[.!?])\s+", line.strip())]
    found = list(dict.fromkeys(sentence for sentence in found if len(sentence.split()) > 4))
    random.Random(1).shuffle(found)
    return found[: TEXTS + HELD_OUT]


def measure(folder: str, held_out: list[str]) -> dict[str, float]:
    report = evaluate(BlankLM.from_pretrained(folder), held_out, SHARES, blanks="words", order="parallel")
    return {share: row["bleu"] for share, row in report.items()}


def train(start: str, minutes: float, folder: Path) -> None:
    """Train in this process; the record is left in ``folder``."""
    from blanklm.fitting import fit

    texts = sentences()
    begun, worked = time.perf_counter(), time.process_time()
    fit(texts[:TEXTS], folder / "run", start=start, minutes=minutes, show_progress=False)
    used = {"seconds": time.perf_counter() - begun, "processor_seconds": time.process_time() - worked}
    settings = read_json(folder / "run" / "run.json")["training"]
    steps = max(int(state.name.removeprefix("state-")) for state in (folder / "run").glob("state-*"))
    record = {"name": STARTS[start], "steps": steps, "training": settings, **used}
    write_json(folder / "record.json", record | {"bleu": measure(str(folder / "run"), texts[TEXTS:])})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--start", choices=STARTS, help=argparse.SUPPRESS)  # one of the two processes
    options = parser.parse_args()
    if options.start:
        train(options.start, options.minutes, options.out)
        return
    held_out = sentences()[TEXTS:]
    with tempfile.TemporaryDirectory() as scratch:
        processes = []
        for start in STARTS:
            (Path(scratch) / start).mkdir()
            command = [sys.executable, __file__, "--start", start, "--minutes", str(options.minutes)]
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            processes.append(subprocess.Popen([*command, "--out", str(Path(scratch) / start)], env=environment))
        if any([process.wait() for process in processes]):
            sys.exit("a run failed")
        rows = {start: read_json(Path(scratch) / start / "record.json") for start in STARTS}
    unfilled = evaluate(BlankLM.from_pretrained("english-small"), held_out, SHARES, blanks="words", order="parallel")
    before = {"name": "english-small, not trained further", "bleu": {s: row["bleu"] for s, row in unfilled.items()}}
    nothing = {"name": "no infill", "bleu": {s: row["no_infill_bleu"] for s, row in unfilled.items()}}
    row = {"minutes": options.minutes, "texts": TEXTS, "held_out": HELD_OUT}
    write_result(options.out, row | {"runs": {"nothing": nothing, "before": before, **rows}})


if __name__ == "__main__":
    main()
