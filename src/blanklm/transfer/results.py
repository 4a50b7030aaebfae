"""What ``Transfer.rewrite`` returns, also as JSON, and the terms of the score of a rewrite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict  # pydantic refuses that of ``typing`` before Python 3.12

from blanklm.records import doc, to_json
from blanklm.transfer.marking import DIGITS, MarkedText, Word

SHORTEST_REPETITION = 4  # letters: shorter words, such as "the" and "was", may recur


@dataclass(frozen=True)
class Rewrite:
    """One rewrite of a text, with the terms of its score."""

    text: str
    parts: tuple[str, ...] = field(metadata=doc("What was kept and what was written, alternately."))
    canvas: str
    style: float = field(metadata=doc("p(target style)."))
    content: float = field(metadata=doc("The share of words that the two texts have in common."))
    fluency: float = field(metadata=doc("log p per word written."))
    score: float


@dataclass(frozen=True)
class TextRewrites:
    """A text, the style it reads as, its marked words, and its rewrites, best first."""

    marked: MarkedText
    to: str
    reads_as: str
    reads_as_p: float
    rewrites: tuple[Rewrite, ...]
    unknown: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the best rewrite."""
        return self.rewrites[0].text

    def to_json(self) -> dict[str, Any]:
        """Return a ``TransferResult``."""
        return {
            "input": self.marked.text,
            "to": self.to,
            "reads_as": {"style": self.reads_as, "p": round(self.reads_as_p, DIGITS)},
            **self.marked.to_json(),
            "unknown": list(self.unknown),
            "rewrites": to_json(self.rewrites, DIGITS),
        }


class ReadsAs(TypedDict):
    style: str
    p: float


class TransferResult(TypedDict):
    """A text and its rewrites."""

    # The server's schema takes the docstring below a field as its description.
    input: str
    to: str
    reads_as: ReadsAs
    canvas: str
    words: list[Word]
    unknown: list[str]
    """Words that the model does not know."""
    rewrites: list[Rewrite]
    """Best first."""


def overlap(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Return the Dice coefficient of two bags of tokens or words."""
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
