"""Known words, those that are spelt alike, and the forms of English verbs: what a writer may have meant."""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from blanklm.core.tokenizer import Tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz'"
LONG = 7  # letters of words that are compared so
COMMONER = 100  # times a word may be rarer than one beside it
MOST_ALIKE = 12  # words of like spelling that are tried
RARE = 40  # words of so few in the corpus may be misspellings that many make
# Words of one family, or often mistaken for each other, that spelling does not connect.
_FAMILIES = """be was been|be were been|be is|be are|be am|go went gone|buy bought|bring brought|think thought
catch caught|teach taught|seek sought|fight fought|eat ate eaten|see saw seen|take took taken
give gave given|come came|become became|run ran|begin began begun|drink drank drunk|sing sang sung
swim swam swum|ring rang rung|sink sank sunk|write wrote written|drive drove driven|ride rode ridden
rise rose risen|break broke broken|speak spoke spoken|steal stole stolen|choose chose chosen
wake woke woken|freeze froze frozen|wear wore worn|tear tore torn|bear bore born|swear swore sworn
know knew known|grow grew grown|throw threw thrown|fly flew flown|blow blew blown|draw drew drawn
show showed shown|fall fell fallen|get got gotten|forget forgot forgotten|sit sat|stand stood
understand understood|tell told|sell sold|say said|pay paid|lay laid|make made|have had|have has
do did done|do does|find found|bind bound|wind wound|leave left|feel felt|keep kept|sleep slept
weep wept|sweep swept|meet met|read read|lead led|feed fed|bleed bled|hold held|hear heard
build built|send sent|spend spent|lend lent|bend bent|lose lost|shoot shot|win won|sting stung
dig dug|hang hung|stick stuck|strike struck|shine shone|hide hid hidden|bite bit bitten|light lit
shake shook shaken|mistake mistook mistaken|lie lay lain|mean meant|dream dreamt|learn learnt
deal dealt|creep crept|swing swung|spin spun|forgive forgave forgiven|child children|man men
woman women|foot feet|tooth teeth|mouse mice|goose geese|person people|good better best
bad worse worst|this these|that those|a an|I me|he him|she her|we us|they them|who whom|much many
less fewer|its it's|your you're|their they're there|to too two|than then|whose who's|affect effect
lose loose|accept except|of off"""


@dataclass(frozen=True)
class Lexicon:
    """The ``words`` of a language in lower case, with their number in a corpus and how they are mostly written."""

    words: dict[str, tuple[str, int]]
    _keys: list[str] = field(init=False, repr=False)
    _letters: np.ndarray = field(init=False, repr=False)  # [N, letters] how often each letter is in each word

    def __post_init__(self) -> None:
        keys = [word for word in self.words if len(word) > 1]
        object.__setattr__(self, "_keys", keys)
        object.__setattr__(self, "_letters", np.stack([_letters_of(word) for word in keys]))

    @classmethod
    @cache
    def english(cls) -> Lexicon:
        """The words of the corpus that the English models are trained on."""
        text = lzma.decompress(Path(__file__).with_name("english.tsv.xz").read_bytes()).decode()
        rows = (line.split("\t") for line in text.splitlines())
        return cls({word.lower(): (word, int(count)) for word, count in rows})

    @classmethod
    def of(cls, language: str | None, tokenizer: Tokenizer) -> Lexicon | None:
        """The words of a model's language, or those of its vocabulary where these are words."""
        if language == "English":
            return cls.english()
        if tokenizer.kind != "word":
            return None
        words = [text for text in tokenizer.token_texts if text.isalpha()]
        return cls({word.lower(): (word, RARE) for word in words}) if words else None

    def knows(self, word: str) -> bool:
        word = word.lower().replace("’", "'")
        return word in self.words or word.removesuffix("'s") in self.words or all(map(str.isdigit, word))

    def misspelt(self, word: str) -> bool:
        """Whether a word is none, or a rare one beside a very common one that many mean by it."""
        low = word.lower().replace("’", "'")
        if not self.knows(word):
            return True
        if not 0 < self.count(low) < RARE or len(low) < LONG:
            return False
        near = ((other.lower(), changes) for other, changes in self.alike(low))
        return any(
            changes == 1 and self.count(other) > COMMONER * self.count(low) and not _extends(low, other)
            for other, changes in near
        )

    def count(self, word: str) -> int:
        return self.words.get(word.lower(), ("", 0))[1]

    def alike(self, word: str) -> list[tuple[str, int]]:
        """Known words within two changes of letters, with the number of changes; the nearest and commonest first."""
        low = word.lower()
        if not 2 <= len(low) <= 25 or not self._keys:
            return []
        apart = np.abs(self._letters - _letters_of(low)).sum(1)  # a change of letters changes two counts at most
        limit = 1 if len(low) < 5 else 2
        near = [self._keys[i] for i in np.flatnonzero(apart <= 2 * limit)]
        found = [(key, distance(low, key, limit)) for key in near if key != low]
        found = [(key, changes) for key, changes in found if changes <= limit]
        found.sort(key=lambda pair: (pair[1], -self.words[pair[0]][1]))
        return [(self.written_like(key, word), changes) for key, changes in found[:MOST_ALIKE]]

    def written_like(self, key: str, word: str) -> str:
        """A known word with the capitals of the word that it replaces."""
        form = self.words.get(key, (key, 0))[0]
        if len(word) > 1 and word.isupper():
            return form.upper()
        return form[:1].upper() + form[1:] if word[:1].isupper() else form

    def forms(self, word: str) -> list[str]:
        """Other forms of a word, and words it is often mistaken for, that are known."""
        low = word.lower()
        bases = {low} | {base for base in _stems(low) if base in self.words}
        found: dict[str, None] = {}
        for base in sorted(bases):
            found |= dict.fromkeys(_irregular().get(base, ()))
            found |= dict.fromkeys(_regular(base))
            found[base] = None
        return [self.written_like(form, word) for form in found if form != low and form in self.words]


def distance(one: str, two: str, limit: int = 2) -> int:
    """Letters to insert, drop, change or swap with their neighbour; ``limit + 1`` where there are more."""
    if abs(len(one) - len(two)) > limit:
        return limit + 1
    before, row = [0] * (len(two) + 1), list(range(len(two) + 1))
    for i, a in enumerate(one, 1):
        older, before = before, row
        row = [i]
        for j, b in enumerate(two, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == two[j - 2] and one[i - 2] == b:
                best = min(best, older[j - 2] + 1)
            row.append(best)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def _extends(one: str, other: str) -> bool:
    """Whether one word is the other with letters at its end or beginning."""
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer.startswith(shorter) or longer.endswith(shorter)


def _letters_of(word: str) -> np.ndarray:
    return np.array([word.count(letter) for letter in LETTERS], dtype=np.int8)


@cache
def _irregular() -> dict[str, tuple[str, ...]]:
    groups: dict[str, dict[str, None]] = {}
    for row in _FAMILIES.replace("\n", "|").split("|"):
        words = [word.lower() for word in row.split()]
        for word in words:
            groups.setdefault(word, {}).update(dict.fromkeys(words))
    groups["was"] |= dict.fromkeys(("were", "is", "are"))
    groups["were"] |= dict.fromkeys(("was", "is", "are"))
    groups["is"] |= dict.fromkeys(("are", "was", "were"))
    groups["are"] |= dict.fromkeys(("is", "was", "were"))
    groups["has"] |= dict.fromkeys(("had",))
    groups["do"] |= dict.fromkeys(("don't", "doesn't"))
    groups["don't"] = dict.fromkeys(("doesn't", "didn't"))
    groups["doesn't"] = dict.fromkeys(("don't", "didn't"))
    return {word: tuple(other for other in group if other != word) for word, group in groups.items()}


def _stems(word: str) -> Iterable[str]:
    """What may be left without an English ending."""
    for ending, instead in (("ies", "y"), ("ied", "y"), ("es", ""), ("s", ""), ("ed", ""), ("ed", "e"), ("d", "")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            yield word.removesuffix(ending) + instead
    for ending, instead in (("ing", ""), ("ing", "e"), ("er", ""), ("est", ""), ("ly", "")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            yield word.removesuffix(ending) + instead
    if word.endswith(("ed", "en")) and word[:-2] and len(word) > 4 and word[-3] == word[-4]:
        yield word[:-3]


def _regular(base: str) -> Iterable[str]:
    if base.endswith("y"):
        yield from (base[:-1] + "ies", base[:-1] + "ied")
    stem = base.removesuffix("e")
    yield from (base + "s", base + "es", stem + "ed", stem + "ing", base + base[-1] + "ed", base + base[-1] + "ing")
    yield base + "ly"
