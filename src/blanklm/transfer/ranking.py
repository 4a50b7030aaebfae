"""The score by which rewrites of a text are ranked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from blanklm.errors import OptionError

SHORTEST_REPETITION = 4  # letters: shorter words, such as "the" and "was", may recur


@dataclass(frozen=True)
class Weights:
    """The weights of a linear score.

    log p(style) + content * words kept + fluency * log p per word written - repetition * words repeated. With all
    weights 0 the classifier alone decides, as in the paper.
    """

    content: float = 0.5
    fluency: float = 0.0
    repetition: float = 1.0

    def __post_init__(self) -> None:
        for name, weight in vars(self).items():
            if not 0 <= weight < math.inf:
                raise OptionError(name, f"the weight of {name} must be 0 or more, not {weight:g}")

    def score(self, log_p_style: float, content: float, fluency: float, repetitions: int) -> float:
        return log_p_style + self.content * content + self.fluency * fluency - self.repetition * repetitions


def overlap(first: Sequence[int], second: Sequence[int]) -> float:
    """Return the Dice coefficient of two bags of tokens."""
    common = sum((Counter(first) & Counter(second)).values())
    return 2 * common / max(1, len(first) + len(second))


def count_repetitions(source: Sequence[str], rewrite: Sequence[str]) -> int:
    """Count the repeated words of a rewrite, as in "rude and rude", beyond those repeated in the source."""
    in_source = Counter(source)
    return sum(
        max(0, times - max(1, in_source[word]))
        for word, times in Counter(rewrite).items()
        if len(word) >= SHORTEST_REPETITION
    )
