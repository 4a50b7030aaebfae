"""Detect the language of a text from its letters.

A model knows the letters of one language. A letter of another script is refused: it may be a typo (a Latin o in a Greek
word) that would mislead the model.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from blanklm.errors import BlankLMError
from blanklm.restoration.notation.document import Letters, Passage, refusal

LANGUAGES = ("greek", "latin")  # each is also the name of its script
CODES = {"grc": "greek", "el": "greek", "la": "latin", "lat": "latin"}  # as in xml:lang


@lru_cache(maxsize=4096)  # not all of Unicode, which a client could send
def script(character: str) -> str | None:
    """Return ``greek``, ``latin`` or another script by its Unicode name; None for what is not a letter."""
    if not character.isalpha() or unicodedata.category(character) == "Lm":  # a modifier, such as the sign of a numeral
        return None
    return unicodedata.name(unicodedata.normalize("NFKD", character)[0], "unnamed").split()[0].lower()


def language_of(source: str, passage: Passage, language: str | None = None) -> str:
    """Return the language of a passage: ``language`` if given, else by its letters, else by the editor's name for it.

    Letters of any other script are refused with their position, unless the editor marks them as foreign.
    """
    if language is not None and language not in LANGUAGES:
        raise BlankLMError(f"there is no language {language!r}: known are {', '.join(LANGUAGES)}")
    letters = [(name, c, place) for c, place in _characters(passage) if (name := script(c))]
    counts = {known: sum(name == known for name, _, _ in letters) for known in LANGUAGES}
    chosen = language or max(LANGUAGES, key=lambda known: counts[known])
    for name, character, place in letters:
        if name != chosen:
            what = f"{name.capitalize()} letter {character!r} (U+{ord(character):04X})"
            raise refusal(source, place, f"the {what} in a {chosen.capitalize()} text: correct it, or take it out")
    if language is None and not counts[chosen]:
        written = CODES.get((passage.language or "").split("-")[0].lower())
        if written is None:
            message = f"no letter to tell the language by: say which it is, {' or '.join(LANGUAGES)}"
            raise refusal(source, passage.lacunae[0].start if passage.lacunae else 0, message)
        return written
    return chosen


def has_letters(passage: Passage) -> bool:
    """Tell whether a passage has a letter of a language that is known."""
    return any(script(character) in LANGUAGES for character, _ in _characters(passage))


def _characters(passage: Passage) -> Iterator[tuple[str, int]]:
    for part in passage.parts:
        if isinstance(part, Letters) and not part.foreign:
            yield from zip(part.text, part.places, strict=True)
