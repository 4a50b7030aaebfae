"""A text as units, words and marks with their places, and parts of it as alternatives for the model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from blanklm.core.in_place import Alternative
from blanklm.core.tokenizer import Tokenizer

_UNIT = re.compile(r"[^\W_]+(?:['’.\-][^\W_]+)*|[^\w\s]+|_+")
CONTEXT = 40  # units on either side that are read with a unit: more would make long texts slow


@dataclass(frozen=True)
class Unit:
    start: int
    end: int
    text: str

    @property
    def is_word(self) -> bool:
        return self.text[:1].isalnum()


def units_of(text: str) -> list[Unit]:
    return [Unit(match.start(), match.end(), match[0]) for match in _UNIT.finditer(text)]


@dataclass(frozen=True)
class Window:
    """A stretch of a text from ``start`` to ``end`` that may be written in another way, and what is read around it."""

    start: int
    end: int
    before: str
    after: str

    @classmethod
    def over(cls, text: str, units: list[Unit], first: int, last: int) -> Window:
        """The window over the units from ``first`` to ``last``, both included."""
        start, end = units[first].start, units[last].end
        left, right = units[max(0, first - CONTEXT)].start, units[min(len(units) - 1, last + CONTEXT)].end
        if first <= CONTEXT:
            left = 0
        return cls(start, end, text[left:start], text[end:right])

    def with_text(self, span: str, tokenizer: Tokenizer) -> Alternative:
        """The text around with a span in the window, hidden."""
        space = tokenizer.kind == "bpe" and self.before.endswith(" ")
        before = tokenizer.encode(self.before[:-1] if space else self.before)
        written = tokenizer.encode((" " if space else "") + span)
        tokens = (*before, *written, *tokenizer.encode(self.after))
        return Alternative(tokens, tuple(range(len(before), len(before) + len(written))))
