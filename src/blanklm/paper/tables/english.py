"""Measure a bundled English model as it is used, on held-out texts of its corpus.

    BLANKLM_DATA=<corpora> python -m blanklm.paper.tables.english OUT.json --model english --judge smollm2.gguf

Blanks of words as the paper hides them, and blanks of spans as people leave them: every 16th validation text, those of
eight to forty words for spans. The length rule of ``decoding.span_view`` was chosen on others of these texts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blanklm.api import BlankLM
from blanklm.data import read_corpus
from blanklm.paper.provenance import Row, write_result
from blanklm.paper.tasks.causal_judge import CausalJudge
from blanklm.paper.tasks.infilling import evaluate
from blanklm.paper.tasks.spans import KINDS, evaluate_spans

RATIOS, EVERY = (0.1, 0.3, 0.5), 16  # what is hidden of words, and of which validation texts
DECODINGS: dict[str, dict[str, Any]] = {
    "all blanks at once": {"order": "parallel"},
    "at once where p is at least 0.5": {"order": "parallel", "threshold": 0.5},
    "one word at a time": {},
}
SHORTEST, LONGEST = 8, 40  # words of the texts in which spans are hidden


def measure(
    name: str, judge: CausalJudge | None, device: str | None, ways: Sequence[str] = tuple(DECODINGS), spans: bool = True
) -> Row:
    """Fill blanks of words in these ways, and of spans; a ``judge`` gives the perplexity of filled spans."""
    model = BlankLM.from_pretrained(name, device)
    texts = list(read_corpus("english", "valid"))[::EVERY]
    row: Row = {"model": Path(name).name, "parameters": model.parameters, "device": str(model.model.device)}
    started = time.perf_counter()
    if ways:
        row["words"] = {way: evaluate(model, texts, RATIOS, seed=0, blanks="words", **DECODINGS[way]) for way in ways}
    if spans:
        fitting = [text for text in texts if SHORTEST <= len(text.split()) <= LONGEST]
        row["spans"] = evaluate_spans(model, fitting, KINDS, seed=0, judge=judge)
    return row | {"seconds": round(time.perf_counter() - started, 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="english", help="a bundled name or a folder")
    parser.add_argument("--judge", help="a Llama-type language model that gives the perplexity of the fills")
    parser.add_argument("--device")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--spans-only", action="store_true", help="leave out blanks of words")
    which.add_argument("--words-only", nargs="+", choices=list(DECODINGS), metavar="WAY", help="leave out spans")
    options = parser.parse_args()
    judge = CausalJudge.load(options.judge) if options.judge else None
    ways = options.words_only or ([] if options.spans_only else list(DECODINGS))
    write_result(options.out, measure(options.model, judge, options.device, ways, not options.words_only))
