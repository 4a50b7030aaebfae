"""Mark the words of a text that carry its style, and mask them."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from blanklm.data.masking import MaskedText, blank_out
from blanklm.errors import BlankLMError
from blanklm.records import doc, to_json

MAX_MASKS = 4  # of one text, where smaller masks are tried too
DIGITS = 4  # of numbers in JSON
CARRIES = 0.35  # of the greatest weight: words of so much carry the style
JOINS = 0.1  # the same, of a word between two such words

Mask = Sequence[str | int]  # words and phrases of a text, or numbers of its words
Span = tuple[int, int]  # start and end of a word in its text


@dataclass(frozen=True)
class Word:
    text: str
    weight: float = field(metadata=doc("Its share of the classifier's attention; the shares of a text add up to 1."))
    masked: bool


@dataclass(frozen=True)
class MarkedText:
    """A text whose marked words are to be replaced."""

    text: str
    spans: tuple[Span, ...]  # of the words
    words: tuple[Word, ...]
    by_user: bool = False  # whether a user chose the words, and not the classifier

    @classmethod
    def of(
        cls, text: str, spans: Sequence[Span], weights: Sequence[float], chosen: Set[int], by_user: bool = False
    ) -> MarkedText:
        parts = enumerate(zip(spans, weights, strict=True))
        words = (Word(text[start:end], weight, i in chosen) for i, ((start, end), weight) in parts)
        return cls(text, tuple(spans), tuple(words), by_user)

    @property
    def masked(self) -> MaskedText:
        return self.mask_at_most(len(self.words))

    @property
    def canvas(self) -> str:
        return str(self.masked.template)

    def mask_at_most(self, count: int) -> MaskedText:
        """Blank out at most ``count`` of the marked words, those of the greatest weight."""
        marked = [i for i, word in enumerate(self.words) if word.masked]
        chosen = sorted(marked, key=lambda i: -self.words[i].weight)[:count]
        return blank_out(self.text, self.spans, set(chosen))

    def nested_masks(self) -> list[MaskedText]:
        """Return masks from the one word of the greatest weight up to all marked words; a user's mask stays whole."""
        marked = sum(word.masked for word in self.words)
        sizes = [marked] if self.by_user else sorted({min(size, marked) for size in (*range(1, MAX_MASKS), marked)})
        return [self.mask_at_most(size) for size in sizes]

    def to_json(self) -> dict[str, Any]:
        return {"canvas": self.canvas, "words": to_json(self.words, DIGITS)}


def mark_words(
    text: str, spans: Sequence[Span], weights: Sequence[float], mask: Mask | None, carrying: Set[int] | None = None
) -> MarkedText:
    """Mark the words of ``mask``, or else those ``carrying`` the style: by default, whose weight is above average."""
    if mask:
        chosen = find_words(text, spans, mask)
    elif carrying is not None:
        chosen = set(carrying)
    else:
        chosen = {i for i, weight in enumerate(weights) if weight > 1 / len(weights)}
    chosen |= {i + shift for i, shift in product(chosen, (-1, 1)) if is_negated(text, spans, i + min(0, shift))}
    if not chosen:
        raise BlankLMError(f"no word of {text!r} stands out: choose words to replace with a mask")
    if len(chosen) == len(spans):
        raise BlankLMError(f"the mask covers all of {text!r}, so nothing would be kept: leave a word out of it")
    return MarkedText.of(text, spans, weights, chosen, by_user=bool(mask))


def check_text(text: str, spans: Sequence[Span], longest: int) -> None:
    """Raise an error if a text cannot be rewritten by a model that takes at most ``longest`` words."""
    words = [text[start:end] for start, end in spans]
    if not words:
        raise BlankLMError("the text is empty: write a sentence to rewrite")
    if len(words) > longest:
        raise BlankLMError(f"the text has {len(words):,} tokens, and this model takes at most {longest:,}: split it")
    if any("___" in word for word in words):
        raise BlankLMError(f"{text!r} has a blank: write the whole text, and choose words to replace with a mask")
    with_letters = sum(any(map(str.isalnum, word)) for word in words)
    if with_letters < 2:
        count = "only one word" if with_letters else "no word"
        raise BlankLMError(f"there is {count} in {text!r}, so nothing could be kept: write a sentence")


def find_words(text: str, spans: Sequence[Span], mask: Mask) -> set[int]:
    """Return the numbers of the words that a mask covers; a phrase counts wherever it occurs, in any case."""
    chosen: set[int] = set()
    for phrase in mask:
        if isinstance(phrase, int):
            if not 0 <= phrase < len(spans):
                raise BlankLMError(f"there is no word {phrase} in {text!r}: its words are 0 to {len(spans) - 1}")
            chosen.add(phrase)
            continue
        if not phrase.strip():
            raise BlankLMError("the mask is empty: write a word or a phrase of the text")
        pattern = r"\s+".join(re.escape(part) for part in phrase.split())
        matches = [match.span() for match in re.finditer(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE)]
        if not matches:
            raise BlankLMError(f"there is no {phrase!r} in {text!r}: a mask is a word or phrase of the text")
        chosen |= {i for i, (a, b) in enumerate(spans) if any(a < end and start < b for start, end in matches)}
    return chosen


def is_negated(text: str, spans: Sequence[Span], i: int) -> bool:
    """Tell whether word ``i`` is joined to an n't: neither can be replaced without the other."""
    if not 0 <= i < len(spans) - 1:
        return False
    (_, end), (start, last) = spans[i], spans[i + 1]
    return end == start and text[start:last].lower() in ("n't", "n’t")


def carriers(weights: Sequence[float], share: float = CARRIES) -> set[int]:
    """The numbers of the words that carry a style, given how much each contributes to it.

    Those near the weightiest, and what stands between two of them and contributes, too: "waste *of* time".
    """
    greatest = max(weights, default=0.0)
    if greatest <= 0:
        return set()
    chosen = {i for i, weight in enumerate(weights) if weight >= share * greatest}
    between = {i for i, weight in enumerate(weights) if weight >= JOINS * greatest}
    return chosen | {i for i in between if {i - 1, i + 1} <= chosen}


def grown(chosen: Set[int], others: Set[int]) -> set[int]:
    """The chosen words with those of ``others`` that stand beside them, and those beside these, and so on."""
    reached = set(chosen)
    while more := {i for i in others if {i - 1, i + 1} & reached} - reached:
        reached |= more
    return reached
