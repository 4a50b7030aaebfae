"""The texts of character models: cut into pieces, and encoded fast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import numpy as np

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer


def pieces_of(texts: Sequence[str], longest: int) -> list[str]:
    """Cut texts at spaces, where there are any, into pieces of at most ``longest`` characters."""
    pieces = []
    for text in texts:
        while len(text) > longest:
            at = text.rfind(" ", longest // 2, longest) + 1 or longest
            pieces.append(text[:at].rstrip(" "))
            text = text[at:]
        if text.strip(" -#."):
            pieces.append(text)
    return pieces


def without_held_out(texts: Sequence[str], held_out: Iterable[str]) -> list[str]:
    """Leave out texts with the letters of a text that is held out, and those that stand twice."""
    seen, kept = {_letters(text) for text in held_out}, []
    for text in texts:
        if (letters := _letters(text)) not in seen:
            seen.add(letters)
            kept.append(text)
    return kept


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text))


def snippets(texts: Sequence[str], shortest: int, longest: int, seed: int) -> list[str]:
    """Cut texts anywhere, within words too, into pieces of random lengths, as excerpts begin and end."""
    rng, pieces = Random(seed), []
    for text in texts:
        start = -rng.randrange(longest)
        while start < len(text):
            end = start + rng.randint(shortest, longest)
            if text[max(0, start) : end].strip(" -#."):
                pieces.append(text[max(0, start) : end])
            start = end
    return pieces


def encode_characters(texts: Sequence[str], tokenizer: Tokenizer) -> TokenisedTexts:
    """Encode as ``encode_many`` of a character tokenizer, by a table of code points: fast for 100 M characters."""
    table = np.full(0x110000, tokenizer.encode("\ufffe")[0], dtype=np.int32)  # no character: what is not known
    for character, i in tokenizer.backend.get_vocab().items():
        if len(character) == 1:
            table[ord(character)] = i
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)
    return TokenisedTexts(table[codes], [len(text) for text in texts])
