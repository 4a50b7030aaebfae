"""Propose what an index of formulae has between the words around a gap.

A model that writes letter by letter prefers common words; what stands in a well-known formula may be a rare word. So
runs of words of the index (``parallels.py``) that agree with the text on either side of a gap are read, and what they
have in its place is a proposal. The model says how probable it is, and the index adds weight to it.
"""

from __future__ import annotations

import lzma
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

FORMULAE = Path(__file__).parent / "formulae"
GROWTH = 4.0  # of the weight of a formula with each word that agrees
ELSE = 4.0  # the weight of what no formula has; both are tuned on validation texts
MOST_PROPOSALS = 8  # for one gap
MIN_AGREEING = 4  # letters of the context that must agree


@dataclass(frozen=True)
class Proposal:
    """What a formula has in the place of a gap, the formula, its texts, and how many words of it stand in the text."""

    text: str
    formula: str
    texts: int
    agreeing: int

    @property
    def weight(self) -> float:
        """Its odds against what no formula has, times ``ELSE``."""
        return math.sqrt(self.texts) * GROWTH ** (self.agreeing - 1)


class Index:
    """Runs of two to seven words that stand in several texts: how many, and the names of some."""

    def __init__(self, formulae: dict[str, tuple[int, tuple[str, ...]]]) -> None:
        self.formulae = formulae

    @staticmethod
    @cache
    def of(language: str) -> Index:
        """Load the index that comes with the package; it is empty for other languages."""
        path = FORMULAE / f"{language}.tsv.xz"
        rows = lzma.decompress(path.read_bytes()).decode().splitlines() if path.exists() else []
        split = (row.split("\t") for row in rows)
        return Index({words: (int(texts), tuple(names.split("|"))) for words, texts, names in split})

    @cached_property
    def lines(self) -> str:
        """All formulae, each between spaces on a line of its own."""
        return "\n" + "".join(f" {words} \n" for words in self.formulae)

    def proposals(
        self, before: str, behind: str, lengths: tuple[int, int], fits: Callable[[str], bool]
    ) -> list[Proposal]:
        """Return what formulae have between the two, so many characters long, that ``fits``: best first.

        ``before`` and ``behind`` are normalised; a word next to the gap may be cut by it.
        """
        best: dict[str, Proposal] = {}
        for text, line in self._between(f" {before}", f"{behind} ", *lengths):
            if not fits(text):
                continue
            agreeing = _agreeing(line, before, text, behind)
            if agreeing is None:
                continue
            formula = line.strip()
            found = Proposal(text, formula, self.formulae[formula][0], agreeing)
            if text not in best or found.weight > best[text].weight:
                best[text] = found
        return sorted(best.values(), key=lambda proposal: -proposal.weight)[:MOST_PROPOSALS]

    def _between(self, before: str, behind: str, fewest: int, most: int) -> Iterator[tuple[str, str]]:
        """Yield (text, line) where a line has what is next to the gap on either side."""
        left = before[before.rstrip(" ").rfind(" ") :]  # the last word, whole or cut, and the space before it
        word = behind.lstrip(" ").find(" ") + len(behind) - len(behind.lstrip(" "))
        right = behind[: word + 1]
        if len(left.strip()) and "-" not in left:
            for at in _places(self.lines, left):
                line = self.lines[self.lines.rfind("\n", 0, at + 1) + 1 : self.lines.index("\n", at)]
                start = at + len(left) - (self.lines.rfind("\n", 0, at + 1) + 1)
                for end in range(start + fewest, min(start + most, len(line)) + 1):
                    if line.startswith(right, end) or behind.startswith(line[end:]):
                        yield line[start:end], line
        if len(right.strip()) and "-" not in right:
            for at in _places(self.lines, right):
                first = self.lines.rfind("\n", 0, at + 1) + 1
                line = self.lines[first : self.lines.index("\n", at)]
                for start in range(max(1, at - first - most), at - first - fewest + 1):
                    if line.endswith(left, 0, start) or before.endswith(line[:start]):
                        yield line[start : at - first], line


def _places(lines: str, sought: str) -> Iterator[int]:
    at = -1
    while (at := lines.find(sought, at + 1)) >= 0:
        yield at


def _agreeing(line: str, before: str, text: str, behind: str) -> int | None:
    """Return how many words of the text around a gap the line has around ``text``; None where they differ.

    The line may end before the text does, but only at the end of a word.
    """
    found = None
    at = -1
    while (at := line.find(text, at + 1)) >= 0:
        left, right = line[:at], line[at + len(text) :]
        same_left = _common(left[::-1], f" {before}"[::-1])
        same_right = _common(right, f"{behind} ")
        # It agrees to its own end, or from the last space on.
        reaches_left = left[len(left) - same_left :]
        reaches_right = right[:same_right]
        if " " not in reaches_left or " " not in reaches_right:
            continue
        agreeing = reaches_left[reaches_left.index(" ") :], reaches_right[: reaches_right.rindex(" ") + 1]
        if sum(len(part.replace(" ", "")) for part in agreeing) >= MIN_AGREEING:
            found = max(found or 0, sum(len(part.split()) for part in agreeing))
    return found


def _common(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
