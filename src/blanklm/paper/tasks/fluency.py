"""How fluent texts are: their perplexity under a left-to-right language model that had no part in writing them.

It is counted per word between spaces, and the end of a text as one more, so that it does not depend on how the
language model cuts words into tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol


class Judge(Protocol):
    def log_prob(self, texts: Sequence[str]) -> Sequence[float]:
        """log p of each text, its end included."""
        ...


def perplexity(judge: Judge, texts: Sequence[str]) -> float:
    """exp(- sum of log p / words with the ends)."""
    return math.exp(-sum(judge.log_prob(texts)) / max(1, sum(len(text.split()) + 1 for text in texts)))
