"""What a writer may have meant: other ways to write a stretch of a text, each with its cost.

A cost, in nats, says how much more than the margin a text must gain by such a change. They were chosen on validation
texts with errors made by rule, whose true and false proposals lie far apart. An unrelated word in place of another is
never proposed: a model's favourite word is seldom what a writer meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blanklm.repairing.lexicon import COMMONER, Lexicon
from blanklm.repairing.units import Unit

LETTER = (0.0, 5.5, 7.5)  # of a known word for another, one or two letters apart
MISSPELT = (0.0, 5.0, 8.0)  # the same where what is written is no known word
FORM = -0.5  # another form of the word, or one it is often mistaken for
REGULAR = 3.5  # a form that another ending makes: "nations" is as good as "nation"
DOUBLED = -2.0  # a word that stands there twice
REPEATED = 6.0  # the same of a name, or of a word that may stand there twice
SPARE = 6.0  # a short word too many
MISSING = 0.5  # a short word that is not there
SWAPPED = 2.5
SPACED = 4.0  # a space too many or too few
NAME = 9.0  # more for a capital within a sentence
RARE_PART = {1: 500, 2: 100, 3: 10, 4: 1}  # by letters: the short parts of a word must be common words
LONGEST_JOINED = 50  # letters of what is read as two words without the space
TWICE = frozenset(["had", "that", "very", "so", "no", "yes", "bye", "ha", "really", "many", "long", "far"])
_MISREAD = re.compile(r"(?=.*[015])(?!\d+(?:st|nd|rd|th|s|k|m|am|pm|[a-z])$)[A-Za-z015]+", re.ASCII)
_SHORT = """a an the of to in on at by for from with as is are was were be been am has have had do does did not and or
but that it he she they we you i this his her their its my your who which will would can could so if up out into
than"""
SHORT = frozenset(_SHORT.split())


def is_spelt(word: str) -> bool:
    """Whether a word is of letters, apart from apostrophes and hyphens."""
    return word.translate(dict.fromkeys(map(ord, "'’-"))).isalpha()


def has_other_ending(one: str, other: str) -> bool:
    """Whether two words differ by a regular ending of one of them, as nouns do and most verbs."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short[:-1]) and long.endswith(("s", "ed", "ing", "ly", "er"))


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

    def around(self, i: int, gaps: Sequence[Sequence[str]]) -> Iterator[Proposal]:
        """The proposals that a suspicious word gives rise to; ``gaps``: words that fit before and after it."""
        yield from self.replaced(i)
        yield from self.dropped(i)
        yield from self.swapped(i - 1)
        yield from self.swapped(i)
        yield from self.respaced(i)
        for at, words in zip((i, i + 1), gaps, strict=True):
            yield from self.inserted(at, words)

    def replaced(self, i: int) -> Iterator[Proposal]:
        word = self.units[i].text
        letters = sum(map(str.isalpha, word))
        if self.locked[i] or self.lexicon is None or not (is_spelt(word) or (letters > 1 and _MISREAD.fullmatch(word))):
            return
        costs, extra = MISSPELT, NAME if self._is_name(i) else 0.0
        found: dict[str, tuple[float, str]] = {}
        if not self.lexicon.misspelt(word):
            costs = LETTER
        for other, changes in self.lexicon.alike(word):
            unlike = NAME if not extra and changes > 1 and word[:1].isupper() else 0.0  # a name may begin a sentence
            found[other] = costs[changes] + unlike, "spelling"
        for other in self.lexicon.forms(word):
            known = not self.lexicon.misspelt(word)
            cost = REGULAR if known and has_other_ending(word.lower(), other.lower()) else FORM
            found[other] = min(found.get(other, (99.0, "")), (cost, "form"))
        for other, (cost, rule) in found.items():
            if other.lower() != word.lower():
                yield Proposal(i, i, other, cost + extra, rule)

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
            twice = word.lower() in TWICE or self._is_name(first)
            cost = (REPEATED if twice else DOUBLED) if same else SPARE
            yield Proposal(first, last, rest, cost, "doubled" if same else "spare")

    def swapped(self, i: int) -> Iterator[Proposal]:
        if not self._joins(i, i + 1) or self.locked[i] or self.locked[i + 1]:
            return
        one, two = self.units[i].text, self.units[i + 1].text
        if one.lower() == two.lower() or (self.lexicon and (self.lexicon.misspelt(one) or self.lexicon.misspelt(two))):
            return  # spelling is corrected first
        if self._begins_sentence(i):
            two = two[:1].upper() + two[1:]
            one = one if one == "I" or (self.lexicon and self._proper(one)) else one[:1].lower() + one[1:]
        between = self.text[self.units[i].end : self.units[i + 1].start]
        yield Proposal(i, i + 1, f"{two}{between}{one}", SWAPPED, "swapped")

    def respaced(self, i: int) -> Iterator[Proposal]:
        """Two words written as one, or one as two."""
        if self.lexicon is None or self.locked[i]:
            return
        word = self.units[i].text
        for cut in range(1, len(word)) if len(word) <= LONGEST_JOINED else ():
            left, right = word[:cut], word[cut:]
            least = max(20 * RARE_PART[min(len(left), len(right), 4)], COMMONER * self.lexicon.count(word))
            if min(self.lexicon.count(left), self.lexicon.count(right)) > least:
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
