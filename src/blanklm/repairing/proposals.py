"""What a writer may have meant: other ways to write a stretch of a text, each with its cost.

A cost is minus the log of the odds that somebody who meant the other way writes this one: a slip of a letter is common,
an unrelated word is not. The costs, in nats, were chosen on validation texts with errors made by rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blanklm.repairing.lexicon import Lexicon
from blanklm.repairing.surprise import WordScore
from blanklm.repairing.units import Unit

LETTER = (0.0, 4.0, 6.5)  # of a known word for another, one or two letters apart
MISSPELT = 3.0  # less where what is written is no known word
FORM = 5.5  # another form of the word
OTHER_WORD = 12.0  # a word that has nothing to do with it
OTHER_FOR_UNKNOWN = 7.0
DOUBLED = 0.5  # a word that stands there twice
SPARE = 8.5  # a short word too many
MISSING = 8.0  # a short word that is not there
SWAPPED = 6.5
SPACED = 4.0  # a space too many or too few
NAME = 5.0  # more for a capital within a sentence
_SHORT = """a an the of to in on at by for from with as is are was were be been am has have had do does did not and or
but that it he she they we you i this his her their its my your who which will would can could so if up out into
than"""
SHORT = frozenset(_SHORT.split())


@dataclass(frozen=True)
class Proposal:
    """Write ``text`` over the units from ``first`` to ``last``; ``rule`` says what is taken to have happened."""

    first: int
    last: int
    text: str
    cost: float
    rule: str


class Proposer:
    """What may be written for the units of one text; ``locked`` units stay."""

    def __init__(self, text: str, units: Sequence[Unit], lexicon: Lexicon | None, locked: Sequence[bool]) -> None:
        self.text, self.units, self.lexicon, self.locked = text, units, lexicon, locked

    def around(self, i: int, score: WordScore, gaps: Sequence[Sequence[str]]) -> Iterator[Proposal]:
        """The proposals that a suspicious word gives rise to; ``gaps``: words that fit before and after it."""
        yield from self.replaced(i, score)
        yield from self.dropped(i)
        yield from self.swapped(i - 1)
        yield from self.swapped(i)
        yield from self.respaced(i)
        for at, words in zip((i, i + 1), gaps, strict=True):
            yield from self.inserted(at, words)

    def replaced(self, i: int, score: WordScore) -> Iterator[Proposal]:
        unit = self.units[i]
        if self.locked[i] or not unit.text.replace("'", "").replace("’", "").replace("-", "").isalpha():
            return
        known = self.lexicon is None or self.lexicon.knows(unit.text)
        extra = NAME if self._is_name(i) else 0.0
        costs: dict[str, tuple[float, str]] = {}
        if self.lexicon is not None:
            for word, changes in self.lexicon.alike(unit.text):
                costs[word] = LETTER[changes] - (0.0 if known else MISSPELT), "spelling"
            for word in self.lexicon.forms(unit.text):
                costs[word] = min(costs.get(word, (99.0, "")), (FORM - (0.0 if known else MISSPELT), "form"))
        for word, _ in score.expected[:8]:
            if word.replace("'", "").isalpha():
                word = word[:1].upper() + word[1:] if self._begins_sentence(i) else word
                costs.setdefault(word, (OTHER_WORD if known else OTHER_FOR_UNKNOWN, "word"))
        for word, (cost, rule) in costs.items():
            if word != unit.text and word.lower() != unit.text.lower():
                yield Proposal(i, i, word, cost + extra, rule)

    def dropped(self, i: int) -> Iterator[Proposal]:
        """A deletion: two words become one, since a blank holds at least one."""
        if self.locked[i]:
            return
        word = self.units[i].text
        for neighbour in (i - 1, i + 1):
            if not self._joins(min(i, neighbour), max(i, neighbour)):
                continue
            rest = self.units[neighbour].text
            same = rest.lower() == word.lower()
            if same and neighbour > i:
                continue  # of two that are the same, the second goes
            if not same and word.lower() not in SHORT:
                continue
            if self._begins_sentence(i) and neighbour > i:
                rest = rest[:1].upper() + rest[1:]
            first, last = min(i, neighbour), max(i, neighbour)
            yield Proposal(first, last, rest, DOUBLED if same else SPARE, "doubled" if same else "spare")

    def swapped(self, i: int) -> Iterator[Proposal]:
        if not self._joins(i, i + 1) or self.locked[i] or self.locked[i + 1]:
            return
        one, two = self.units[i].text, self.units[i + 1].text
        if one.lower() == two.lower():
            return
        if self._begins_sentence(i):
            two = two[:1].upper() + two[1:]
            one = one if one == "I" or (self.lexicon and self._proper(one)) else one[:1].lower() + one[1:]
        yield Proposal(i, i + 1, f"{two} {one}", SWAPPED, "swapped")

    def respaced(self, i: int) -> Iterator[Proposal]:
        """Two words written as one, or one as two."""
        if self.lexicon is None or self.locked[i]:
            return
        word = self.units[i].text
        if not self.lexicon.knows(word):
            for cut in range(1, len(word)):
                left, right = word[:cut], word[cut:]
                if (
                    min(self.lexicon.count(left), self.lexicon.count(right))
                    > 20 * RARE_PART[min(len(left), len(right))]
                ):
                    yield Proposal(i, i, f"{left} {right}", SPACED, "space")
        for first in (i - 1, i):
            if self._joins(first, first + 1) and not (self.locked[first] or self.locked[first + 1]):
                joined = self.units[first].text + self.units[first + 1].text
                if self.lexicon.count(joined) > 100:
                    yield Proposal(first, first + 1, joined, SPACED, "space")

    def inserted(self, at: int, words: Sequence[str]) -> Iterator[Proposal]:
        """A word before the unit ``at``, written over that unit or the one before."""
        over = at if at < len(self.units) and self.units[at].is_word else at - 1
        if not 0 <= over < len(self.units) or not self.units[over].is_word:
            return
        there = self.units[over].text
        for word in words:
            if word.lower() not in SHORT or word.lower() == there.lower():
                continue
            if over == at and self._begins_sentence(at):
                lower = there if self._proper(there) else there[:1].lower() + there[1:]
                yield Proposal(over, over, f"{word[:1].upper()}{word[1:]} {lower}", MISSING, "missing")
            else:
                text = f"{word} {there}" if over == at else f"{there} {word}"
                yield Proposal(over, over, text, MISSING, "missing")

    def _joins(self, first: int, last: int) -> bool:
        """Whether two units are words with only a space between them."""
        if first < 0 or last >= len(self.units):
            return False
        one, two = self.units[first], self.units[last]
        return one.is_word and two.is_word and self.text[one.end : two.start].isspace()

    def _begins_sentence(self, i: int) -> bool:
        before = next((unit for unit in reversed(self.units[:i]) if unit.text not in "\"'“‘("), None)
        return before is None or before.text[-1] in ".!?…:"

    def _is_name(self, i: int) -> bool:
        word = self.units[i].text
        return word[:1].isupper() and word != "I" and not self._begins_sentence(i)

    def _proper(self, word: str) -> bool:
        if self.lexicon is None:
            return False
        return self.lexicon.words.get(word.lower(), (word.lower(), 0))[0][:1].isupper()


RARE_PART = {1: 1000, 2: 100, 3: 10} | dict.fromkeys(range(4, 30), 1)  # short parts must be common words
