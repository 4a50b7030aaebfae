"""How long a gap takes on a CPU, with every draft of the search read whole, and read near the gap alone.

    BLANKLM_DATA=<corpora> python benchmarks/restoring.py [--texts 24] [--out results/benchmarks/restoring-cpu.json]

One slot of 1 to 10 characters in each of some long validation texts, half Greek, half Latin; 20 restorations of each.
Reading near the gap is not quite the same (``MixedLBLM.read_around``): how often is the first restoration the same, how
many of the twenty are, and how far apart are the probabilities of the first? Seconds are
those of the processor, all threads together.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import mean

from blanklm.data import read_corpus
from blanklm.paper.provenance import hardware, write_result
from blanklm.paper.tasks.masking import slots_of_corpus
from blanklm.paper.tasks.restoration import document
from blanklm.restoration import restorer as restoring
from blanklm.restoration.candidates import Candidate
from blanklm.restoration.restorer import Restorer

CORPORA = {"greek": "greek_documentary", "latin": "edh_latin"}
SHORTEST, LONGEST = 300, 1000  # characters of a text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    usual = restoring.SEARCH_WINDOW
    found: dict[int | None, list[list[Candidate]]] = {near: [] for near in (None, usual // 2, usual, 2 * usual)}
    seconds = dict.fromkeys(found, 0.0)
    for name, corpus in CORPORA.items():
        restorer = Restorer.from_pretrained(name, device="cpu")
        long = [text for text in read_corpus(corpus, "valid") if SHORTEST <= len(text) <= LONGEST]
        for masked in slots_of_corpus(long[: options.texts // 2], None, seed=0):
            for near in found:  # in turn, as other programs may take some of the processor
                restoring.SEARCH_WINDOW = near
                started = time.process_time()
                found[near].append(restorer.rank([document(masked)])[0][0])
                seconds[near] += time.process_time() - started
    read = {}
    for near, candidates in found.items():
        both = list(zip(found[None], candidates, strict=True))
        read[f"{near} characters on either side of the gap" if near else "whole"] = {
            "cpu_seconds_a_gap": seconds[near] / len(both),
            "same_first": mean(a[0].text == b[0].text for a, b in both),
            "same_among_20": mean(len({c.text for c in a} & {c.text for c in b}) / len(a) for a, b in both),
            "largest_difference": max(abs(a[0].probability - b[0].probability) for a, b in both),
        }
    report = {"benchmark": "restoring", "hardware": hardware("cpu"), "texts": len(found[None]), "read": read}
    for say, m in read.items():
        print(f"{say}: {m['cpu_seconds_a_gap']:.2f} s a gap, first the same {m['same_first']:.0%}")
    if options.out:
        write_result(options.out, report)


if __name__ == "__main__":
    main()
