"""Parallels: where in the training corpus the words of a restoration stand as they do here. Scholars want evidence.

The nearest parallel is the text that agrees with the restored one over the longest stretch of words around the lacuna.
Where the corpus is at hand (``blanklm data`` says where it is looked for) its texts are searched and quoted. Where it
is not, a small index that comes with the package answers: every run of two to seven words that stands in at least three
training texts, in how many, and which are three of them (``recipes/formulae.py`` makes it).
"""

from __future__ import annotations

import json
import lzma
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from blanklm.data import read_corpus
from blanklm.errors import DataError
from blanklm.restoration.lexicon import readable
from blanklm.restoration.restorer import normalise

CORPORA = {"greek": "greek_documentary", "latin": "edh_latin"}
FORMULAE = Path(__file__).parent / "formulae"
LONGEST_FORMULA = 7  # words
SHORTEST = 3  # letters that a parallel must have beside what agrees around them
AROUND = 40  # characters of a text to quote on each side
_NAMES = {"iphi": "I.PHI", "papyri": "papyri.info"}


@dataclass(frozen=True)
class Parallel:
    """``words`` stand so in ``texts`` training texts, ``examples`` among them; ``before`` and ``behind`` quote one.

    A parallel from the index of formulae quotes nothing.
    """

    words: str
    texts: int
    examples: tuple[str, ...]
    before: str = ""
    behind: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"examples": list(self.examples)}


class Parallels(ABC):
    """Where parallels for one language are looked for."""

    @staticmethod
    @cache
    def of(language: str) -> Parallels:
        """The corpus where it is at hand, else the index of formulae."""
        try:
            return TrainingTexts(records(language))
        except DataError:
            return Formulae.load(language)

    def find(self, before: str, restored: str, behind: str, most: int = 3) -> list[Parallel]:
        """The nearest parallels for ``restored`` between ``before`` and ``behind``, nearest first."""
        before, restored, behind = (normalise(text) for text in (before, restored, behind))
        text = f"{before}{restored}{behind}"
        start, end = len(before), len(before) + len(restored)
        while start < end and text[start] == " ":
            start += 1
        while end > start and text[end - 1] == " ":
            end -= 1
        if start == end:
            return []
        start = text.rfind(" ", 0, start) + 1  # to whole words
        end = len(text) if (space := text.find(" ", end)) < 0 else space
        if not readable(text[start:end]) or end - start < SHORTEST:
            return []
        return self._nearest(text[:start].split(), text[start:end].split(), text[end:].split(), most)

    @abstractmethod
    def _nearest(self, before: list[str], words: list[str], behind: list[str], most: int) -> list[Parallel]:
        """Of texts that have all the ``words``, those that agree furthest around them."""


class TrainingTexts(Parallels):
    """The texts themselves, as (name, text)."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self.names, self.starts, lines, at = [], [], [], 0
        for name, text in texts:
            self.names.append(name)
            self.starts.append(at)
            lines.append(f" {text} \n")
            at += len(lines[-1])
        self.text = "".join(lines)

    def _nearest(self, before: list[str], words: list[str], behind: list[str], most: int) -> list[Parallel]:
        found: dict[str, list[tuple[int, int]]] = {}  # the words that agree: where
        wanted, at = f" {' '.join(words)} ", -1
        while (at := self.text.find(wanted, at + 1)) >= 0:
            which = bisect_right(self.starts, at) - 1
            line_end = self.text.index("\n", at)
            left = self.text[self.starts[which] : at].split()
            right = self.text[at + len(wanted) : line_end].split()
            agree_left, agree_right = _agreeing(left[::-1], before[::-1]), _agreeing(right, behind)
            agreeing = [*left[len(left) - agree_left :], *words, *right[:agree_right]]
            if len(agreeing) > 1:  # a word alone speaks for nothing
                found.setdefault(" ".join(agreeing), []).append((which, at))
        nearest = sorted(found, key=lambda stretch: (-stretch.count(" "), -len(found[stretch]), stretch))[:most]
        return [self._parallel(stretch, found[stretch]) for stretch in nearest]

    def _parallel(self, stretch: str, places: list[tuple[int, int]]) -> Parallel:
        which, at = places[0]
        start, line_end = self.starts[which], self.text.index("\n", at)
        begin = self.text.rfind(f" {stretch} ", start, at + len(stretch) + 2)
        begin = begin if begin >= 0 else self.text.index(f" {stretch} ", start)
        end = begin + len(stretch) + 1
        before = self.text[max(start, begin - AROUND) : begin].strip()
        behind = self.text[end : min(line_end, end + AROUND)].strip()
        names = list(dict.fromkeys(self.names[which] for which, _ in places))
        return Parallel(stretch, len(names), tuple(names[:3]), before, behind)


class Formulae(Parallels):
    """Runs of words that stand in several texts."""

    def __init__(self, formulae: dict[str, tuple[int, tuple[str, ...]]]) -> None:
        self.formulae = formulae

    @classmethod
    def load(cls, language: str) -> Formulae:
        path = FORMULAE / f"{language}.tsv.xz"
        rows = lzma.decompress(path.read_bytes()).decode().splitlines() if path.exists() else []
        split = (row.split("\t") for row in rows)
        return cls({words: (int(texts), tuple(names.split("|"))) for words, texts, names in split})

    def _nearest(self, before: list[str], words: list[str], behind: list[str], most: int) -> list[Parallel]:
        found: list[Parallel] = []
        for more in range(LONGEST_FORMULA - len(words), -1, -1):
            for left in range(min(more, len(before)), -1, -1):
                if more - left > len(behind):
                    continue
                stretch = " ".join([*before[len(before) - left :], *words, *behind[: more - left]])
                texts, names = self.formulae.get(stretch, (0, ()))
                if texts and not any(stretch in longer.words for longer in found):
                    found.append(Parallel(stretch, texts, names))
            if len(found) >= most:
                break
        return found[:most]


def records(language: str) -> Iterator[tuple[str, str]]:
    """The training texts of a language and what to call each; DataError where they are not at hand."""
    if language not in CORPORA:
        raise DataError(f"there is no corpus for {language}")
    for line in read_corpus(CORPORA[language], "train.jsonl"):
        record = json.loads(line)
        yield _name(record), record["norm"].replace("[", "").replace("]", "")


def _name(record: dict[str, Any]) -> str:
    if "id" in record:
        return record["id"].removeprefix("edh:").removeprefix("isicily:").replace(":", " ")
    parts = [_NAMES.get(record["source"], record["source"]), record.get("place"), record.get("date")]
    return ", ".join(part for part in parts if part and not part.startswith("unspecified"))


def _agreeing(words: list[str], others: list[str]) -> int:
    """How many of the first words are the same, lost letters agreeing with nothing."""
    count = 0
    for word, other in zip(words, others, strict=False):
        if word != other or not readable(word):
            break
        count += 1
    return count
