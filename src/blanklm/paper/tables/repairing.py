"""Measure ``repair`` on errors made by rule in held-out texts, and its false alarms on the same texts unharmed.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.tables.repairing OUT/ --model english english-small

The validation texts of even number were used to choose costs and margins; those of odd number are measured.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path

from blanklm.api import BlankLM
from blanklm.data import read_corpus
from blanklm.paper.provenance import Row, write_result
from blanklm.paper.tasks.errors import KINDS, Tally, changes, clean_texts, damage


def measure(name: str, device: str | None, count: int) -> Row:
    """Repair ``count`` texts with an error each, and as many without."""
    model = BlankLM.from_pretrained(name, device)
    started = time.perf_counter()
    texts = clean_texts(read_corpus("english", "valid"))[1::2][:count]
    tallies: dict[str, Tally] = defaultdict(Tally)
    for damaged in damage(texts):
        repaired = model.repair(damaged.text).text
        for kind in (damaged.kind, "all"):
            tallies[kind].add(damaged.text, damaged.clean, repaired)
    alarms = [changes(text, model.repair(text).text).total() for text in texts]
    words = sum(len(text.split()) for text in texts)
    return {
        "model": Path(name).name,
        "parameters": model.parameters,
        "device": str(model.model.device),
        "errors": {kind: tallies[kind].to_json() for kind in (*KINDS, "all")},
        "clean": {"texts": len(texts), "words": words, "alarms": sum(alarms), "per_500": 500 * sum(alarms) / words},
        "seconds": round(time.perf_counter() - started, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a folder")
    parser.add_argument("--model", nargs="+", default=["english"], help="bundled names or folders")
    parser.add_argument("--count", type=int, default=180, help="texts")
    parser.add_argument("--device")
    options = parser.parse_args()
    for name in options.model:
        write_result(options.out / f"{Path(name).name}.json", measure(name, options.device, options.count))
