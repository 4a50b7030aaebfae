"""What ``Transfer.rewrite`` returns."""

from __future__ import annotations

from dataclasses import dataclass

from blanklm.transfer.marking import MarkedText
from blanklm.transfer.records import RewriteRecord, TransferResult


@dataclass(frozen=True)
class Rewrite:
    """One rewrite of a text, with the terms of its score."""

    parts: tuple[str, ...]  # kept and written text alternately: the first and the last are kept
    canvas: str
    style: float  # p(target style) by the classifier that ranks
    content: float  # the share of words that the two texts have in common
    fluency: float  # log p per word written
    score: float

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def to_json(self) -> RewriteRecord:
        return {
            "text": self.text,
            "parts": list(self.parts),
            "canvas": self.canvas,
            "style": round(self.style, 4),
            "content": round(self.content, 4),
            "fluency": round(self.fluency, 4),
            "score": round(self.score, 4),
        }


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

    def to_json(self) -> TransferResult:
        return {
            "input": self.marked.text,
            "to": self.to,
            "reads_as": {"style": self.reads_as, "p": round(self.reads_as_p, 4)},
            **self.marked.to_json(),
            "unknown": list(self.unknown),
            "rewrites": [rewrite.to_json() for rewrite in self.rewrites],
        }
