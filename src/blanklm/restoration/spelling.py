"""Read and write in the spelling of the text around: capitals, sigmas, U and V, I and J, accents.

The models know one spelling: lower case, one sigma, u and v apart, i for j, no accents. ``Spelling.of`` finds out from
the letters of a passage how its editor writes.
"""

from __future__ import annotations

import lzma
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from blanklm.restoration.normalise import fold

ACCENTS = Path(__file__).parent / "accents"
VOWELS = "aeiouy"
AFTER = "lrnbd"  # consonants after which a v before a vowel mostly is one: silva, servus, convenit, advena
MOST_SPELLINGS = 6  # of the letters u and v in a word, how many are tried either way
_WORD = re.compile(r"[^\W\d_]+")
_ACUTE, _GRAVE, _SUBSCRIPT = "\u0301", "\u0300", "\u0345"
_NO_ACCENTS = ("\u0323", "\u0308")  # a dot below, a diaeresis
_ENCLITICS = frozenset(
    ("τισ", "τι", "τε", "γε", "με", "μου", "μοι", "σε", "σου", "σοι", "εστι", "εστιν", "εισι", "εισιν")
)


@dataclass(frozen=True)
class Spelling:
    capitals: bool = False
    lunate: bool = False  # c-shaped sigmas
    plain: bool = False  # the same sigma at the end of a word as within it
    one_u: tuple[str, ...] = ()  # of V and u, and U and v, those that stand for both
    writes_j: bool = False
    accents: bool = False
    subscripts: bool = False  # iota

    @classmethod
    def of(cls, letters: str, language: str) -> Spelling:
        """Return the spelling of a passage, given all its letters and spaces."""
        written = unicodedata.normalize("NFC", letters)
        if language == "latin":
            return cls(
                capitals=_all_capitals(letters),
                one_u=tuple(one for one, other in ("Vu", "vu", "uv", "UV") if _stands_for_both(written, one, other)),
                writes_j="j" in written.lower(),
            )
        return cls(
            capitals=_all_capitals(letters),
            lunate="ϲ" in letters or "Ϲ" in letters,
            plain="ς" not in letters and any(word.endswith("σ") for word in letters.split() if len(word) > 1),
            accents=_is_accented(written),
            subscripts=_SUBSCRIPT in _marks(letters),
        )

    def read(self, text: str, is_word: Callable[[str], bool]) -> str:
        """Return a text as long, with u and v apart; ``is_word`` knows some words of the language."""
        return _WORD.sub(lambda m: _u_and_v(m[0], is_word), text) if self.one_u else text

    def write(self, restored: str, before: str, behind: str) -> str:
        """Return a restoration as the text writes between ``before`` and ``behind``; - is an unknown letter there."""
        written = restored.upper() if self.capitals else restored
        if self.writes_j:
            written = _with_j(written, before, behind)
        for letter in self.one_u:
            written = written.replace("UVuv"["VUvu".index(letter)], letter)
        if self.lunate:
            return written.replace("σ", "ϲ").replace("Σ", "Ϲ")
        if self.accents:
            written = _accented(written, before, behind, self.subscripts)
        return written if self.plain else _with_final_sigmas(written, before, behind)


def _all_capitals(letters: str) -> bool:
    return any(c.isalpha() for c in letters) and not any(c.islower() for c in letters)


# --- Latin --------------------------------------------------------------------------------------------------------


def _stands_for_both(letters: str, one: str, other: str) -> bool:
    """Return whether a text writes ``one`` of u and v where the other is meant, and never the other."""
    same_case = other.upper() if one.isupper() else other
    if one not in letters or same_case in letters:
        return False
    spelled = [(word, _u_and_v(word, lambda _: False)) for word in _WORD.findall(letters)]
    return any(a == one and b != one for word, right in spelled for a, b in zip(word, right, strict=True))


def _u_and_v(word: str, is_word: Callable[[str], bool]) -> str:
    """Return a word with u for the vowel and v for the consonant: as in a known word, else by what stands beside."""
    places = [i for i, c in enumerate(word) if c in "uvUV"]
    if not places:
        return word
    lower = word.lower().replace("j", "i")
    right = list(lower)
    for i in reversed(places):
        behind, before = right[i + 1 : i + 2], right[i - 1 : i]
        is_consonant = bool(behind) and behind[0] in VOWELS and (not i or before[0] in VOWELS + "v" + AFTER)
        right[i] = "v" if is_consonant else "u"
    if not is_word("".join(right)) and len(places) <= MOST_SPELLINGS:
        for choice in product("uv", repeat=len(places)):
            tried = list(lower)
            for i, letter in zip(places, choice, strict=True):
                tried[i] = letter
            if is_word("".join(tried)):
                right = tried
                break
    return "".join((r.upper() if c.isupper() else r) if c in "uvUV" else c for c, r in zip(word, right, strict=True))


def _with_j(text: str, before: str, behind: str) -> str:
    """Write j for an i before a vowel at the beginning of a word, or between vowels."""
    whole, first = f"{before} {text}{behind}" if not before else f"{before}{text}{behind}", len(before) or 1
    written = list(text)
    for i in range(len(text)):
        left, right = whole[first + i - 1], whole[first + i + 1 : first + i + 2]
        if text[i] in "iI" and right and right.lower() in "aeou" and (not left.isalpha() or left.lower() in "aeou"):
            written[i] = "j" if text[i] == "i" else "J"
    return "".join(written)


# --- Greek --------------------------------------------------------------------------------------------------------


def _with_final_sigmas(restored: str, before: str, behind: str) -> str:
    written = list(restored)
    for i, letter in enumerate(written):
        follows = restored[i + 1] if i + 1 < len(restored) else behind[:1]
        precedes = restored[i - 1] if i else before[-1:]
        if letter == "σ" and not follows.isalpha() and follows != "-" and precedes.isalpha():
            written[i] = "ς"
    return "".join(written)


def _is_accented(letters: str) -> bool:
    """Return whether most words of more than two letters bear an accent."""
    words = [word for word in _WORD.findall(letters) if len(word) > 2]
    marked = [any(m not in _NO_ACCENTS and unicodedata.combining(m) for m in _marks(word)) for word in words]
    return bool(words) and 2 * sum(marked) > len(words)


def _marks(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@cache
def accented_words() -> dict[str, str]:
    """Return words, as the models read them, with the one way in which nearly all texts accent them."""
    path = ACCENTS / "greek.tsv.xz"
    return dict(row.split("\t") for row in lzma.decompress(path.read_bytes()).decode().splitlines())


def _accented(restored: str, before: str, behind: str, subscripts: bool) -> str:
    """Accent the words of a restoration that are known, and leave all others; the text around must agree."""
    left = before[len(before.rstrip()) :] or re.split(r"[^\w\u0300-\u0345-]", before)[-1]
    left = "" if left.isspace() else left
    right = re.split(r"[^\w\u0300-\u0345-]", behind)[0]
    rest = fold(behind[len(right) :])
    whole, known, written = f"{left}{restored}{right}", accented_words(), list(restored)
    for match in _WORD.finditer(whole):
        if match.end() <= len(left) or match.start() >= len(left) + len(restored):
            continue
        word = known.get(fold(match[0]))
        goes_on = "-" in (whole[max(0, match.start() - 1) : match.start()], whole[match.end() : match.end() + 1])
        if word is None or len(word) != len(match[0]) or goes_on or (_SUBSCRIPT in _marks(word) and not subscripts):
            continue
        follows = whole[match.end() :].split() or rest.split()
        word = word if not follows or rest[:1] == "." or follows[0] in _ENCLITICS else _with_grave(word)
        visible = [i for i in range(len(word)) if not len(left) <= match.start() + i < len(left) + len(restored)]
        if all(_same_but_for_grave(word[i], match[0][i]) for i in visible):
            for i, letter in enumerate(word):
                if i not in visible:
                    written[match.start() + i - len(left)] = letter
    return "".join(written)


def _with_grave(word: str) -> str:
    """Return a word with a grave for an acute on its last syllable."""
    letters = list(word)
    for i in range(len(letters) - 1, -1, -1):
        if fold(letters[i]) in "αεηιουω":
            letters[i] = unicodedata.normalize("NFC", _marks(letters[i]).replace(_ACUTE, _GRAVE))
            if i and fold(letters[i - 1]) in "αεηου" and fold(letters[i]) in "ιυ":
                continue
            break
    return "".join(letters)


def _same_but_for_grave(one: str, other: str) -> bool:
    first, second = (_marks(letter).replace(_GRAVE, _ACUTE).replace("ς", "σ") for letter in (one, other))
    return first == second
