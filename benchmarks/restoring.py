"""How long a gap takes on a CPU: every draft of the search read whole, or near the gap alone; and as people restore.

    BLANKLM_DATA=<corpora> python benchmarks/restoring.py [--texts 24] [--out results/benchmarks/restoring-cpu.json]

One slot of 1 to 10 characters in each of some long validation texts, half Greek, half Latin; 20 restorations of each.
Reading near the gap is not quite the same (``MixedLBLM.read_around``): how often is the first restoration the same, how
many of the twenty are, and how far apart are the probabilities of the first? Then, as people restore: one short gap,
one long gap, and ten gaps in a text, their characters or their letters counted. Seconds are those of the processor, all
threads together, the least of some runs, as other programs may take some of it; those on the clock stand beside them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import mean

import torch

from blanklm.core.template import Blank
from blanklm.data import read_corpus
from blanklm.paper.provenance import hardware, write_result
from blanklm.paper.tasks.masking import LOST, slots_of_corpus
from blanklm.paper.tasks.restoration import document
from blanklm.restoration import restorer as restoring
from blanklm.restoration.candidates import Candidate, letters_in
from blanklm.restoration.draft import Part
from blanklm.restoration.options import Count, RestoreOptions
from blanklm.restoration.restorer import Restorer

CORPORA = {"greek": "greek_documentary", "latin": "edh_latin"}
SHORTEST, LONGEST = 300, 1000  # characters of a text
APART = 4  # characters between two gaps of a text, at least
DAILY: dict[str, tuple[Count, list[list[int]]]] = {  # what is counted, and the lengths of the gaps of each text
    "a gap of 4 to 10 characters": ("characters", [[4], [6], [8], [10]]),
    "the same, its letters counted": ("letters", [[4], [6], [8], [10]]),
    "a gap of 20 letters": ("letters", [[20]]),
    "a gap of 30 letters": ("letters", [[30]]),
    "ten gaps of 2 to 7 characters in a text": ("characters", [[2, 3, 4, 5, 6, 7, 3, 4, 5, 6]]),
    "the same, their letters counted": ("letters", [[2, 3, 4, 5, 6, 7, 3, 4, 5, 6]]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--runs", type=int, default=2, help="Of each text of daily work.")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    restorers = {name: Restorer.from_pretrained(name, device="cpu") for name in CORPORA}
    texts = {
        name: [text for text in read_corpus(corpus, "valid") if SHORTEST <= len(text) <= LONGEST]
        for name, corpus in CORPORA.items()
    }
    daily = [
        {"what": what, **{name: seconds_of(restorers[name], texts[name], *work, options.runs) for name in CORPORA}}
        for what, work in DAILY.items()
    ]
    report = {"benchmark": "restoring", "hardware": hardware("cpu"), "threads": torch.get_num_threads()}
    report |= {"texts": options.texts // 2 * 2, "read": near_and_whole(restorers, texts, options.texts), "daily": daily}
    for say, m in report["read"].items():
        print(f"{say}: {m['cpu_seconds_a_gap']:.2f} s a gap, first the same {m['same_first']:.0%}")
    for row in daily:
        print(row["what"], *(f"{name}: {row[name]['cpu_seconds']:.2f} s" for name in CORPORA), sep="; ")
    if options.out:
        write_result(options.out, report)


def near_and_whole(
    restorers: dict[str, Restorer], texts: dict[str, list[str]], number: int
) -> dict[str, dict[str, float]]:
    """Compare searches that read drafts near the gap with those that read them whole."""
    usual = restoring.SEARCH_WINDOW
    found: dict[int | None, list[list[Candidate]]] = {near: [] for near in (None, usual // 2, usual, 2 * usual)}
    seconds = dict.fromkeys(found, 0.0)
    for name, restorer in restorers.items():
        for masked in slots_of_corpus(texts[name][: number // 2], None, seed=0):
            for near in found:  # in turn, as other programs may take some of the processor
                restoring.SEARCH_WINDOW = near
                started = time.process_time()
                found[near].append(restorer.rank([document(masked)])[0][0])
                seconds[near] += time.process_time() - started
    restoring.SEARCH_WINDOW = usual
    read = {}
    for near, candidates in found.items():
        both = list(zip(found[None], candidates, strict=True))
        read[f"{near} characters on either side of the gap" if near else "whole"] = {
            "cpu_seconds_a_gap": seconds[near] / len(both),
            "same_first": mean(a[0].text == b[0].text for a, b in both),
            "same_among_20": mean(len({c.text for c in a} & {c.text for c in b}) / len(a) for a, b in both),
            "largest_difference": max(abs(a[0].probability - b[0].probability) for a, b in both),
        }
    return read


def seconds_of(
    restorer: Restorer, texts: Sequence[str], count: Count, lengths: Sequence[Sequence[int]], runs: int
) -> dict[str, float]:
    """Return the mean seconds of texts with gaps of these lengths: of the processor, on the clock, to the first gap."""
    cpu, clock, first = [], [], []
    for number, of_text in enumerate(lengths):
        parts, best = gapped(texts[number], of_text, count, Random(number)), []
        for _ in range(runs):
            ready: list[float] = []
            times = time.process_time(), time.perf_counter()
            restorer.restore(
                parts, RestoreOptions(count=count), ready=lambda _, __, at=ready: at.append(time.perf_counter())
            )
            best.append((time.process_time() - times[0], time.perf_counter() - times[1], ready[0] - times[1]))
        for kept, seconds in zip((cpu, clock, first), zip(*best, strict=True), strict=True):
            kept.append(min(seconds))
    return {"cpu_seconds": mean(cpu), "seconds": mean(clock), "seconds_to_the_first_gap": mean(first)}


def gapped(text: str, lengths: Sequence[int], count: Count, random: Random) -> list[Part]:
    """Cut gaps of these lengths in characters out of a text where no letter is lost, apart from each other."""
    taken: list[tuple[int, int]] = []
    for length in lengths:
        starts = [
            start
            for start in range(len(text) - length)
            if not set(text[start : start + length]) & set(LOST)
            and letters_in(text[start : start + length])
            and all(start + length + APART <= begin or end + APART <= start for begin, end in taken)
        ]
        start = random.choice(starts)
        taken.append((start, start + length))
    parts: list[Part] = []
    behind = 0
    for begin, end in sorted(taken):
        length = letters_in(text[begin:end]) if count == "letters" else end - begin
        parts += [text[behind:begin], Blank(length, length)]
        behind = end
    return [*parts, text[behind:]]


if __name__ == "__main__":
    main()
