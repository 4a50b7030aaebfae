"""What the text around a blank says of it: line ends, sentences, quotation marks.

Models have read texts of one line. A line end beside a blank is read as a comma where no mark says otherwise, as in
verse and lists, so that what is written there begins and ends like a part of a sentence. All other line ends are read
as spaces. What was given comes back as it was.

A blank between sentences stands for a sentence: what is written there ends as sentences do. Into a quotation no
quotation marks are written, and elsewhere an even number, where those around the blanks are in order.
"""

from __future__ import annotations

import re
from enum import Enum

from blanklm.core.template import Template

QUOTE = '"'
CLOSING = "\"'”’)]»"
SENTENCE_ENDS = (".", "!", "?", "…")
ABBREVIATIONS = frozenset(("mr", "mrs", "ms", "dr", "st", "prof", "gen", "rev", "sr", "jr", "vs", "e.g", "i.e", "fig"))
_LINE_ENDS = re.compile(r"\s*\n\s*")
_LAST_WORD = re.compile(r"(?:^|[\s\"'“‘(\[])([^\s\"'“‘(\[]+)$")
_NEXT_WORD = re.compile(r"\s+[\"'“‘(\[]*(\w+)")


class Quotes(Enum):
    """Which straight quotation marks may be written into a blank."""

    ANY = "any"
    NONE = "none"
    EVEN = "even"


def as_one_line(template: Template) -> Template:
    """The template as models read it."""
    if not any("\n" in piece for piece in template.pieces):
        return template
    last, sentences = len(template.blanks), for_sentences(template)
    pieces = []
    for k, piece in enumerate(template.pieces):
        text = piece.strip()
        before, after = piece[: len(piece) - len(piece.lstrip())], piece[len(piece.rstrip()) :]
        if "\n" in before:  # between blanks, it is all there is
            outside = k == 0 or (k == last and not text)
            before = "" if outside else " " if sentences[k - 1] else ", "
        if "\n" in after:
            after = "" if k == last else ", " if text[-1:].isalnum() else " "
        pieces.append(before + _LINE_ENDS.sub(" ", text) + after if text else before)
    return Template(tuple(pieces), template.blanks)


def for_sentences(template: Template) -> list[bool]:
    """Of each blank, whether it stands for one or more whole sentences."""
    pieces = template.pieces
    return [
        _sentence_may_begin(pieces[k], pieces[k + 1]) and _sentence_must_end(pieces[k + 1], k == len(pieces) - 2)
        for k in range(len(template.blanks))
    ]


def _sentence_may_begin(before: str, after: str) -> bool:
    given = before.rstrip()
    if "\n\n" in before[len(given) :] and after.startswith("\n\n"):
        return True  # a paragraph of its own
    ended = given.rstrip(CLOSING)
    if given == before or not ended.endswith(SENTENCE_ENDS):
        return False
    last = _LAST_WORD.search(ended)
    word = last[1][:-1].lower() if last and ended.endswith(".") else ""
    return word not in ABBREVIATIONS and not (len(word) == 1 and word.isalpha() and word != "i")


def _sentence_must_end(after: str, is_last: bool) -> bool:
    if not after.strip():
        return is_last
    if after.startswith("\n"):
        return not after.lstrip()[0].islower()
    following = _NEXT_WORD.match(after)
    return following is not None and following[1][0].isupper() and following[1] != "I"  # "I" says nothing


def quotes(template: Template) -> list[Quotes]:
    """Of each blank, which quotation marks may be written into it."""
    counts = [piece.count(QUOTE) for piece in template.pieces]
    if sum(counts) % 2:
        return [Quotes.ANY] * len(template.blanks)
    return [Quotes.NONE if sum(counts[: k + 1]) % 2 else Quotes.EVEN for k in range(len(template.blanks))]
