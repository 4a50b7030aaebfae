"""Text infilling (Section 4.1): hide a share of the words, fill, and compare with the original.

Every system that can ``fill(list of canvas texts) -> list of Fill`` is evaluated alike. One that declares itself an
``oracle`` is also told what each blank hides, ``fill(texts, hidden=spans)``: a mark to compare with, not a rival.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from blanklm.canvas import Fill
from blanklm.data import Masked, mask_corpus, no_infill
from blanklm.metrics import corpus_bleu
from blanklm.tasks.fluency import Judge, perplexity

FAILURES = ("lost_words", "wrong_blanks")  # of outputs that are no fill of their canvas

Progress = Callable[[int], None]  # called with the number of texts just filled


class Filler(Protocol):
    def fill(self, texts: Sequence[str], **options: Any) -> list[Fill]: ...


def evaluate(
    system: Filler,
    texts: Sequence[str],
    ratios: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5),
    seed: int = 0,
    progress: Progress | None = None,
    judge: Judge | None = None,
    **options: Any,
) -> dict[str, dict[str, float]]:
    """For each mask ratio: BLEU of the fills and of no infill, failures, length error per blank, words per second.

    With a ``judge``, also the perplexity of the filled texts and of the originals (see tasks/fluency.py).
    """
    report = {}
    for ratio in ratios:
        masked = [m for m in mask_corpus(texts, ratio, seed) if m.spans]
        started = time.perf_counter()
        fills = fills_of(system, masked, progress=progress, **options)
        seconds = time.perf_counter() - started
        report[f"{ratio:g}"] = score(masked, fills) | {
            "words_per_second": sum(len(span.split()) for fill in fills for span in fill.spans) / seconds
        }
        if judge is not None:
            report[f"{ratio:g}"] |= {
                "perplexity": perplexity(judge, [fill.text for fill in fills]),
                "original_perplexity": perplexity(judge, [m.text for m in masked]),
            }
    return report


def fills_of(system: Filler, masked: Sequence[Masked], **options: Any) -> list[Fill]:
    """The system's fills; an oracle is told what is hidden."""
    told = {"hidden": [m.spans for m in masked]} if getattr(system, "oracle", False) else {}
    return system.fill([str(m.template) for m in masked], **told, **options)


def score(masked: Sequence[Masked], fills: Sequence[Fill]) -> dict[str, float]:
    """What the paper reports of the fills of one mask ratio. Length errors are those of fills that are valid."""
    originals = [m.text for m in masked]
    kinds = [failure(m, fill) for m, fill in zip(masked, fills, strict=True)]
    lengths = [
        abs(len(filled.split()) - len(hidden.split()))
        for m, fill, kind in zip(masked, fills, kinds, strict=True)
        if kind is None
        for filled, hidden in zip(fill.spans, m.spans, strict=True)
    ]
    return {
        "no_infill_bleu": corpus_bleu([no_infill(m) for m in masked], originals),
        "bleu": corpus_bleu([fill.text for fill in fills], originals),
        "failure_rate": sum(kind is not None for kind in kinds) / max(1, len(fills)),
        **{kind: kinds.count(kind) / max(1, len(fills)) for kind in FAILURES},
        "length_error": sum(lengths) / max(1, len(lengths)),
        "texts": len(fills),
    }


def failure(masked: Masked, fill: Fill) -> str | None:
    """What is wrong with a fill, of FAILURES; None where every blank is filled and nothing else is changed.

    "lost_words": words of the canvas are missing or out of order. "wrong_blanks": they are all there, but a blank is
    empty, or words stand where there was no blank.
    """
    if fill.text == masked.template.render(fill.spans) and all(fill.spans):
        return None
    words = iter(fill.text.split())
    kept = all(word in words for piece in masked.template.pieces for word in piece.split())  # `in` goes on from there
    return "wrong_blanks" if kept else "lost_words"
