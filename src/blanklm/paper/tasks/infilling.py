"""Text infilling (Section 4.1): hide a share of the words, fill, and compare with the original.

Every system that can ``fill(list of canvas texts) -> list of Fill`` is evaluated the same way. One that declares itself
an ``oracle`` is also told what each blank hides, ``fill(texts, hidden=spans)``: an upper bound, not a rival.
A text that has more tokens than a system takes (its ``longest``) is filled in pieces and scored as a whole.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from blanklm.core.canvas import Fill
from blanklm.core.template import Blank, Template
from blanklm.core.tokenizer import Tokenizer
from blanklm.data import MaskedText
from blanklm.paper.tasks.fluency import Judge, perplexity
from blanklm.paper.tasks.masking import mask_corpus, no_infill
from blanklm.paper.tasks.metrics import bleu_interval, corpus_bleu

FAILURES = ("lost_words", "wrong_blanks")  # of outputs that do not fill their canvas

Progress = Callable[[float], None]  # called with the number of texts just filled

_WORD_AND_SPACE = re.compile(r"\S+\s*|\s+")


class Filler(Protocol):
    """A system that fills; with a ``longest`` text it has a ``tokenizer``, and an ``oracle`` is told what is hidden."""

    def fill(self, texts: Sequence[str], **options: Any) -> list[Fill]: ...


def evaluate(
    system: Filler,
    texts: Sequence[str],
    ratios: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5),
    seed: int = 0,
    progress: Progress | None = None,
    judge: Judge | None = None,
    **options: Any,
) -> dict[str, dict[str, Any]]:
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


def fills_of(
    system: Filler, masked: Sequence[MaskedText], progress: Progress | None = None, **options: Any
) -> list[Fill]:
    """The system's fills; an oracle is told what is hidden."""
    longest, tokenizer = getattr(system, "longest", None), getattr(system, "tokenizer", None)
    cut = [[m] if longest is None or tokenizer is None else in_pieces(m, tokenizer, longest) for m in masked]
    pieces = [piece for parts in cut for piece in parts if piece.spans]
    if getattr(system, "oracle", False):
        options["hidden"] = [piece.spans for piece in pieces]
    if progress is not None:
        texts_per_piece = len(masked) / max(1, len(pieces))
        options["progress"] = lambda done: progress(done * texts_per_piece)
    filled = iter(system.fill([str(piece.template) for piece in pieces], **options))
    return [_joined([next(filled) if piece.spans else Fill(piece.text, (), 0.0) for piece in parts]) for parts in cut]


def _joined(fills: list[Fill]) -> Fill:
    if len(fills) == 1:
        return fills[0]
    spans = tuple(span for fill in fills for span in fill.spans)
    return Fill("".join(fill.text for fill in fills), spans, sum(fill.log_prob for fill in fills))


def in_pieces(masked: MaskedText, tokenizer: Tokenizer, longest: int) -> list[MaskedText]:
    """The text, cut where it has more than ``longest`` tokens: after the last space between two given words that fits.

    Where there is none it is cut beside a blank; a word, or what one blank hides, is never cut.
    """
    if len(tokenizer.encode(masked.text)) <= longest:
        return [masked]
    parts: list[tuple[str, bool]] = []  # a given word with the space after it, or what a blank hides
    for piece, span in zip(masked.template.pieces, (*masked.spans, ""), strict=True):
        parts += [(word, False) for word in _WORD_AND_SPACE.findall(piece)]
        parts += [(span, True)] if span else []
    sizes = [len(ids) for ids in tokenizer.encode_many([part for part, _ in parts])]
    starts, size, between = [0], 0, 0
    for i, (_, hidden) in enumerate(parts):
        if i and not hidden and not parts[i - 1][1]:
            between = i  # two given words meet here
        if size + sizes[i] > longest and i > starts[-1]:
            starts.append(between if between > starts[-1] else i)
            size = sum(sizes[starts[-1] : i])
        size += sizes[i]
    return [_masked(parts[start:end]) for start, end in zip(starts, (*starts[1:], len(parts)), strict=True)]


def _masked(parts: list[tuple[str, bool]]) -> MaskedText:
    pieces, spans = [""], []
    for part, hidden in parts:
        if hidden:
            spans.append(part)
            pieces.append("")
        else:
            pieces[-1] += part
    return MaskedText(Template(tuple(pieces), (Blank(),) * len(spans)), tuple(spans))


def score(masked: Sequence[MaskedText], fills: Sequence[Fill]) -> dict[str, Any]:
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
        "bleu_interval": bleu_interval([fill.text for fill in fills], originals),
        "failure_rate": sum(kind is not None for kind in kinds) / max(1, len(fills)),
        **{kind: kinds.count(kind) / max(1, len(fills)) for kind in FAILURES},
        "length_error": sum(lengths) / max(1, len(lengths)),
        "texts": len(fills),
    }


def failure(masked: MaskedText, fill: Fill) -> str | None:
    """What is wrong with a fill, of FAILURES; None where every blank is filled and nothing else is changed.

    "lost_words": words of the canvas are missing or out of order. "wrong_blanks": they are all there, but a blank is
    empty, or words stand where there was no blank.
    """
    if fill.text == masked.template.render(fill.spans) and all(fill.spans):
        return None
    words = iter(fill.text.split())
    kept = all(word in words for piece in masked.template.pieces for word in piece.split())  # `in` goes on from there
    return "wrong_blanks" if kept else "lost_words"
