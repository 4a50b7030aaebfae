"""Find parallels: training texts that have the words of a restoration in the same context, as evidence for it.

The closest parallel is the text that agrees with the restored one over the longest run of words around the lacuna. If
the corpus is installed (``blanklm data`` says where), its texts are searched and quoted. If not, a small index in the
package is used: every run of two to seven words in at least three training texts, their number, and three of their
names (made by ``paper/bundled/formulae.py``).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate, takewhile
from typing import Any

from blanklm.data import read_corpus
from blanklm.errors import DataError
from blanklm.restoration.lexicon import readable
from blanklm.restoration.normalise import normalise
from blanklm.restoration.proposals import Index
from blanklm.restoration.records import Parallel

CORPORA = {"greek": "greek_documentary", "latin": "edh_latin"}
LONGEST_FORMULA = 7  # words
MIN_RESTORED = 3  # characters of the restored words; fewer are not worth a parallel
QUOTED_CONTEXT = 40  # characters of a text to quote on each side
_NAMES = {"iphi": "I.PHI", "papyri": "papyri.info"}


class Parallels(ABC):
    """A source of parallels for one language."""

    @staticmethod
    @cache
    def of(language: str) -> Parallels:
        """Return the corpus if it is installed, else the index of formulae."""
        try:
            return TrainingTexts(records(language))
        except DataError:
            return Formulae(Index.of(language))

    def find(self, before: str, restored: str, behind: str, most: int = 3) -> list[Parallel]:
        """Return the closest parallels for ``restored`` between ``before`` and ``behind``, closest first."""
        before, restored, behind = (normalise(text) for text in (before, restored, behind))
        if not restored.strip():
            return []
        text = f"{before}{restored}{behind}"
        end = text.find(" ", len(before) + len(restored.rstrip()))  # to whole words
        end = len(text) if end < 0 else end
        start = text.rfind(" ", 0, len(before) + len(restored) - len(restored.lstrip())) + 1
        if not readable(text[start:end]) or end - start < MIN_RESTORED:
            return []
        return self._closest(text[:start].split(), text[start:end].split(), text[end:].split(), most)

    @abstractmethod
    def _closest(self, before: list[str], words: list[str], behind: list[str], most: int) -> list[Parallel]:
        """Return the texts with all the ``words`` that agree over the longest run around them."""


class TrainingTexts(Parallels):
    """The training texts, given as (name, text)."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        named = list(texts)
        self.names = [name for name, _ in named]
        lines = [f" {text} \n" for _, text in named]
        self.starts = [0, *accumulate(map(len, lines))]
        self.text = "".join(lines)

    def _closest(self, before: list[str], words: list[str], behind: list[str], most: int) -> list[Parallel]:
        places: dict[str, list[tuple[int, int]]] = {}  # the words that agree: (text, offset) of each occurrence
        sought, at = f" {' '.join(words)} ", -1
        while (at := self.text.find(sought, at + 1)) >= 0:
            which = bisect_right(self.starts, at) - 1
            line_end = self.text.index("\n", at)
            left = self.text[self.starts[which] : at].split()
            right = self.text[at + len(sought) : line_end].split()
            agree_left, agree_right = _agreeing(left[::-1], before[::-1]), _agreeing(right, behind)
            agreeing = [*left[len(left) - agree_left :], *words, *right[:agree_right]]
            if len(agreeing) > 1:  # a single word is not evidence
                places.setdefault(" ".join(agreeing), []).append((which, at))
        closest = sorted(places, key=lambda run: (-run.count(" "), -len(places[run]), run))[:most]
        return [self._parallel(run, places[run]) for run in closest]

    def _parallel(self, run: str, places: list[tuple[int, int]]) -> Parallel:
        which, at = places[0]
        start, line_end = self.starts[which], self.text.index("\n", at)
        begin = self.text.rfind(f" {run} ", start, at + len(run) + 2)
        begin = begin if begin >= 0 else self.text.index(f" {run} ", start)
        end = begin + len(run) + 1
        before = self.text[max(start, begin - QUOTED_CONTEXT) : begin].strip()
        behind = self.text[end : min(line_end, end + QUOTED_CONTEXT)].strip()
        names = list(dict.fromkeys(self.names[which] for which, _ in places))
        return Parallel(run, len(names), tuple(names[:3]), before, behind)


class Formulae(Parallels):
    """An index of the runs of words that occur in several texts."""

    def __init__(self, index: Index) -> None:
        self.formulae = index.formulae

    def _closest(self, before: list[str], words: list[str], behind: list[str], most: int) -> list[Parallel]:
        parallels: list[Parallel] = []
        for more in range(LONGEST_FORMULA - len(words), -1, -1):
            for left in range(min(more, len(before)), -1, -1):
                if more - left > len(behind):
                    continue
                run = " ".join([*before[len(before) - left :], *words, *behind[: more - left]])
                texts, names = self.formulae.get(run, (0, ()))
                if texts and not any(run in longer.words for longer in parallels):
                    parallels.append(Parallel(run, texts, names))
            if len(parallels) >= most:
                break
        return parallels[:most]


def records(language: str) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each training text of a language; DataError if they are not installed."""
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
    """Return how many of the first words are equal; a word with a lost letter equals none."""
    pairs = zip(words, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] and readable(pair[0]), pairs))
