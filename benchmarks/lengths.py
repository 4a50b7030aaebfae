"""What being told the lengths of blanks is worth: the BLM and the masked model where the BLM has the length right.

    python benchmarks/lengths.py RUNS [--corpus yahoo] [--texts 1000] [--out results/infilling/yahoo-lengths.json]

RUNS is the folder of ``blanklm reproduce infilling``, where both systems have filled the test texts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from blanklm.paper.tables.infilling import RATIOS, parts_of
from blanklm.paper.tables.report import write_json
from blanklm.paper.tasks.infilling import where_lengths_are_right

SYSTEMS = ["mlm", "blm-parallel"]  # in the order of the recipe; the BLM in the way that is best where much is hidden


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--corpus", default="yahoo")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    told, own = parts_of(options.corpus, SYSTEMS, out=options.runs, texts=options.texts)
    ratios = {}
    print(f"{'hidden':>8}{'right length':>16}{'words right, BLM':>20}{'MLM':>8}")
    for ratio in RATIOS:
        found = where_lengths_are_right(own.masks("test", ratio), own.fills(ratio), told.fills(ratio))
        shares = (found["right_length"], found["words_right"], found["words_right_told"])
        print(f"{ratio:8.0%}{shares[0]:16.1%}{shares[1]:20.1%}{shares[2]:8.1%}")
        ratios[f"{ratio:g}"] = found
    if options.out:
        write_json(options.out, {"corpus": options.corpus, "system": own.system.label, "ratios": ratios})


if __name__ == "__main__":
    main()
