"""Errors made by rule in clean text, and how well a repair undoes them."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from blanklm.repairing.lexicon import LETTERS

KINDS = ("doubled", "dropped", "swapped", "misspelt", "scanned")
_CLEAN = re.compile(r"[A-Z][\w ,;'’()-]+[.!?]")
_TWICE = re.compile(r"\b(\w+) \1\b", re.IGNORECASE)
_SCANNED = (
    ("rn", "m"),
    ("m", "rn"),
    ("e", "c"),
    ("l", "1"),
    ("i", "l"),
    ("h", "b"),
    ("o", "0"),
    ("cl", "d"),
    ("u", "n"),
)
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


@dataclass(frozen=True)
class Damaged:
    clean: str
    text: str
    kind: str


def clean_texts(texts: Iterable[str]) -> list[str]:
    """Single sentences of eight to forty words that begin with a capital and end with a mark; no word stands twice."""
    found = [text for text in texts if 8 <= len(text.split()) <= 40 and _CLEAN.fullmatch(text)]
    return [text for text in found if not _TWICE.search(text)]


def damage(texts: Sequence[str], kinds: Sequence[str] = KINDS, seed: int = 0) -> list[Damaged]:
    """One error in each text, of the kinds in turn; a text on which a kind cannot be made is left out."""
    found = []
    for number, text in enumerate(texts):
        kind = kinds[number % len(kinds)]
        rng = random.Random(f"{seed} {number}")
        words = text.split(" ")
        places = [i for i in range(len(words) - 2) if words[i].isalpha() and words[i + 1].isalpha()]
        if kind in ("misspelt", "scanned"):
            places = [i for i in places if len(words[i]) > 3 and words[i].islower()]
        rng.shuffle(places)
        for i in places:
            made = _made(words, i, kind, rng)
            if made != words:
                found.append(Damaged(text, " ".join(made), kind))
                break
    return found


def _made(words: Sequence[str], i: int, kind: str, rng: random.Random) -> list[str]:
    one, two = words[i], words[i + 1]
    if kind == "doubled":
        return [*words[: i + 1], one.lower() if i == 0 else one, *words[i + 1 :]]
    if kind == "dropped":
        return [*words[: i + 1], *words[i + 2 :]]
    if kind == "swapped":
        if one.lower() == two.lower() or i == 0:
            return list(words)
        return [*words[:i], two, one, *words[i + 2 :]]
    wrong = _misspelt(one, rng) if kind == "misspelt" else _scanned(one, rng)
    return [*words[:i], wrong, *words[i + 1 :]]


def _misspelt(word: str, rng: random.Random) -> str:
    """A letter dropped, doubled, changed for one beside it on the keyboard, or swapped with the next."""
    at = rng.randrange(1, len(word) - 1)
    row = next((row for row in _KEYS if word[at] in row), LETTERS)
    beside = row[max(0, row.find(word[at]) - 1) : row.find(word[at]) + 2].replace(word[at], "") or "e"
    return rng.choice(
        [
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
            word[:at] + rng.choice(beside) + word[at + 1 :],
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        ]
    )


def _scanned(word: str, rng: random.Random) -> str:
    """Letters misread as they are in scans."""
    able = [(read, seen) for read, seen in _SCANNED if read in word]
    if not able:
        return word
    read, seen = rng.choice(able)
    return word.replace(read, seen, 1)


def changes(before: str, after: str) -> Counter[tuple[int, int, str]]:
    """What was changed, word by word: from which word to which, and what stands there now."""
    old, new = before.split(), after.split()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return Counter((a, b, " ".join(new[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")


@dataclass
class Tally:
    """Changes that were asked for, made, and right."""

    wanted: int = 0
    made: int = 0
    right: int = 0
    noticed: int = 0  # wanted changes that some change touches

    def add(self, damaged: str, clean: str, repaired: str) -> None:
        wanted, made = changes(damaged, clean), changes(damaged, repaired)
        self.wanted += wanted.total()
        self.made += made.total()
        self.right += (wanted & made).total()
        self.noticed += sum(any(a <= d and c <= b for c, d, _ in made) for a, b, _ in wanted)

    def to_json(self) -> dict[str, Any]:
        precision = self.right / self.made if self.made else 1.0
        recall = self.right / self.wanted if self.wanted else 1.0
        f_half = 1.25 * precision * recall / (0.25 * precision + recall) if precision and recall else 0.0
        return vars(self) | {"precision": precision, "recall": recall, "f0.5": f_half}
