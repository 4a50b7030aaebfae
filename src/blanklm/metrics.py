"""Strings and numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence

from blanklm.errors import BlankLMError


def corpus_bleu(outputs: Sequence[str], *references: Sequence[str]) -> float:
    """Corpus BLEU on whitespace tokens, the paper's scale (sacrebleu, no tokenisation of its own).

    Each of the ``references`` has one for every output.
    """
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise BlankLMError("BLEU needs the sacrebleu package: pip install 'blanklm[eval]'") from None
    return BLEU(tokenize="none", force=True).corpus_score(list(outputs), [list(each) for each in references]).score
