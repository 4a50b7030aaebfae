"""What computing in int8 costs the bundled model in quality: the paper's protocol in each precision.

    BLANKLM_DATA=<corpora> python benchmarks/precision.py [--texts 125] [--out results/benchmarks/precision-cpu.json]

Words of held-out texts are hidden and filled all at once, in int8 and in float32. BLEU is to fall by 0.2 at most.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from blanklm import BlankLM
from blanklm.data import read_corpus
from blanklm.paper.provenance import hardware, write_result
from blanklm.paper.tables.english import EVERY, RATIOS
from blanklm.paper.tasks.infilling import evaluate

PRECISIONS = {"int8": torch.int8, "float32": torch.float32}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="english", help="a bundled name or a folder")
    parser.add_argument("--texts", type=int, default=0, help="how many; 0: all")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    texts = list(read_corpus("english", "valid"))[::EVERY][: options.texts or None]
    rows = {}
    for name, dtype in PRECISIONS.items():
        model = BlankLM.from_pretrained(options.model, "cpu", dtype)
        rows[name] = evaluate(model, texts, RATIOS, seed=0, blanks="words", order="parallel")
        print(name, {ratio: round(row["bleu"], 2) for ratio, row in rows[name].items()}, flush=True)
    lost = {ratio: rows["float32"][ratio]["bleu"] - rows["int8"][ratio]["bleu"] for ratio in rows["int8"]}
    record = {"model": options.model, "hardware": hardware("cpu"), "texts": len(texts), "rows": rows, "lost": lost}
    if options.out:
        write_result(options.out, record)


if __name__ == "__main__":
    main()
