"""Letters as editors write them and as the models read them: Greek without accents in lower case, Latin a to z.

A model knows the letters of one language. Punctuation, editorial signs and digits are not read. A letter of the right
script that the alphabet lacks (a digamma) is read as ``-``, a letter that cannot be made out; a letter of another script
is refused where it stands, as it may be a slip (a Latin o in a Greek word) that would spoil the reading.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache

from blanklm.errors import BlankLMError
from blanklm.notation.document import Letters, Passage, refusal

ALPHABETS = {"greek": "αβγδεζηθικλμνξοπρστυφχψωϛϟϡ", "latin": "abcdefghijklmnopqrstuvwxyz"}
CODES = {"grc": "greek", "el": "greek", "la": "latin", "lat": "latin"}  # as in xml:lang
UNREADABLE = "-"
_SAME = {"ς": "σ", "ϲ": "σ", "ϙ": "ϟ", "ϐ": "β", "ϑ": "θ", "ϕ": "φ", "ϖ": "π", "ϰ": "κ", "ϱ": "ρ", "ϵ": "ε"}
_SAME |= {"æ": "ae", "œ": "oe", "ß": "ss", "ſ": "s", "ı": "i"}


@cache
def script(character: str) -> str | None:
    """``greek``, ``latin`` or another script by its Unicode name; None for what is no letter."""
    if not character.isalpha():
        return None
    return unicodedata.name(character, "unnamed").split()[0].lower()


@cache
def folded(character: str, language: str) -> str:
    """What a model of the language reads for a character: some letters, a space, or nothing."""
    if character == " ":
        return " "
    letters = ""
    for base in unicodedata.normalize("NFD", character.lower()):
        for letter in _SAME.get(base, base):
            if letter in ALPHABETS[language]:
                letters += letter
            elif script(letter) == language:
                letters += UNREADABLE
    return letters


def language_of(source: str, passage: Passage, language: str | None = None) -> str:
    """The language to restore a passage in: as asked for, else by its letters, else as its editor calls it.

    Letters of any other script are refused with their place, but for those that the editor marks as foreign.
    """
    if language is not None and language not in ALPHABETS:
        raise BlankLMError(f"there is no language {language!r}: known are {', '.join(ALPHABETS)}")
    letters = [(script(c), c, place) for c, place in _characters(passage) if script(c)]
    counts = {known: sum(found == known for found, _, _ in letters) for known in ALPHABETS}
    chosen = language or max(counts, key=counts.get)
    for found, character, place in letters:
        if found != chosen:
            what = f"{found.capitalize()} letter {character!r} (U+{ord(character):04X})"
            raise refusal(source, place, f"the {what} in a {chosen.capitalize()} text: correct it, or take it out")
    if language is None and not counts[chosen]:
        written = CODES.get((passage.language or "").split("-")[0].lower())
        if written is None:
            message = f"no letter to tell the language by: say which it is, {' or '.join(ALPHABETS)}"
            raise refusal(source, passage.lacunae[0].start if passage.lacunae else 0, message)
        return written
    return chosen


def _characters(passage: Passage) -> Iterator[tuple[str, int]]:
    for part in passage.parts:
        if isinstance(part, Letters) and not part.foreign:
            yield from zip(part.text, part.places, strict=True)


def as_written(restored: str, before: str, behind: str, letters: str) -> str:
    """A restoration in the hand of the text around it: its sigmas and its case.

    ``before`` and ``behind`` are the characters that it stands between, ``letters`` all those of the passage.
    """
    if any(c.isalpha() for c in letters) and not any(c.islower() for c in letters):
        restored = restored.upper()
    if "ϲ" in letters or "Ϲ" in letters:
        return restored.replace("σ", "ϲ").replace("Σ", "Ϲ")
    if "ς" not in letters and _ends_in_plain_sigma(letters):
        return restored
    written = list(restored)
    for i, letter in enumerate(written):
        follows = restored[i + 1] if i + 1 < len(restored) else behind
        precedes = restored[i - 1] if i else before
        if letter == "σ" and not follows[:1].isalpha() and follows[:1] != UNREADABLE and precedes[-1:].isalpha():
            written[i] = "ς"
    return "".join(written)


def _ends_in_plain_sigma(letters: str) -> bool:
    return any(word.endswith("σ") for word in letters.split() if len(word) > 1)
