"""A text with some of its words hidden."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from blanklm.core.template import Blank, Template
from blanklm.errors import DataError

_WORD = re.compile(r"\S+")  # the words of str.split(), with their positions


@dataclass(frozen=True)
class MaskedText:
    """A text with blanks and the words that each blank hides, inner whitespace included."""

    template: Template
    spans: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the original text, character for character."""
        return self.template.render(self.spans)


def blank_out(text: str, words: Sequence[tuple[int, int]], hidden: Set[int]) -> MaskedText:
    """Hide the words whose numbers are in ``hidden``; ``words`` are the spans of all. Neighbours share one blank."""
    pieces, spans, shown_from = [], [], 0
    for i, (start, end) in enumerate(words):
        if i not in hidden:
            continue
        if i - 1 not in hidden:
            pieces.append(text[shown_from:start])
            run_from = start
        if i + 1 not in hidden:
            spans.append(text[run_from:end])
            shown_from = end
    pieces.append(text[shown_from:])
    return MaskedText(Template(tuple(pieces), (Blank(),) * len(spans)), tuple(spans))


def places_of_words(text: str) -> list[tuple[int, int]]:
    """Return where each word of a text begins and ends."""
    return [word.span() for word in _WORD.finditer(text)]


def mask_words(text: str, ratio: float, rng: Random) -> MaskedText:
    """Hide ceil(``ratio`` * n) of the n words of ``text``; neighbouring hidden words share one blank.

    Everything outside the blanks stays exactly as it was. A text without words gets no blank.
    """
    if not 0 <= ratio <= 1:
        raise DataError(f"the share of words to hide must be between 0 and 1, not {ratio}")
    words = places_of_words(text)
    # Exact, as the ratio is written: in floating point 0.55 * 100 is a little over 55, and its ceiling 56.
    hidden_count = math.ceil(Fraction(str(ratio)) * len(words))
    return blank_out(text, words, set(rng.sample(range(len(words)), hidden_count)))
