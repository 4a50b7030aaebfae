"""Greek and Latin text as the models read it: the normal form of the training corpora."""

from __future__ import annotations

import unicodedata

_VARIANTS = str.maketrans("ςϲϐϑϕϖϰϱϝϙj–—‐‑−", "σσβθφπκρϛϟi-----")  # the last five are dashes


def normalise(text: str) -> str:
    """Return the text in lower case without accents or breathings, with one kind of sigma and single spaces.

    One character becomes one character, with two exceptions: combining marks and punctuation other than the full stop
    are removed, and runs of spaces, line breaks and digits (line numbers) become one space.
    """
    return normalise_with_positions(text)[0]


def fold(text: str) -> str:
    """Return each character in the form that the models write, none added and none removed."""
    return "".join(_folded(character) for character in text)


def _folded(character: str) -> str:
    return unicodedata.normalize("NFD", character)[0].lower()[:1].translate(_VARIANTS)


def normalise_with_positions(text: str) -> tuple[str, list[int]]:
    """Return the normalised text, and for each of its characters the index in ``text`` that it came from."""
    characters: list[str] = []
    positions: list[int] = []
    for index, character in enumerate(text):
        base = _folded(character)
        if base.isspace() or base.isdigit():
            base = " "
        elif not base.isalpha() and base not in "-#.":
            continue
        if base != " " or characters[-1:] != [" "]:
            characters.append(base)
            positions.append(index)
    return "".join(characters), positions
