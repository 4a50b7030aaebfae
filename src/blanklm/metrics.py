"""Strings and numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence


def corpus_bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU on whitespace tokens, the paper's scale (sacrebleu, no tokenisation of its own)."""
    from sacrebleu.metrics import BLEU

    return BLEU(tokenize="none", force=True).corpus_score(list(outputs), [list(references)]).score
