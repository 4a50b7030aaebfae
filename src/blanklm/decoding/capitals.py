"""Texts in capitals: models have read few, so blanks are filled in small letters, which then become capitals.

FIREFIGHTERS RESCUE ___     is read as    Firefighters rescue ___
"""

from __future__ import annotations

import re
from dataclasses import replace

from blanklm.core.template import Template
from blanklm.decoding.constraint import Constraint

LEAST_WORDS, LEAST_LETTERS = 2, 10  # of a text in capitals: "I ___", "NASA ___" and "OK, ___ TV" may be any text
_OPENING = r"[\"'“‘(\[]*"
_FIRST = re.compile(rf"^(\s*{_OPENING})(\w)")
_AFTER_END = re.compile(rf"([.!?…][\"'”’)\]]*\s+{_OPENING})(\w)")
_I = re.compile(r"(?<![\w'’.])i(?![\w.])")


def in_capitals(template: Template) -> bool:
    """Whether all letters that a text gives are capitals, and they are enough to tell."""
    text = " ".join(template.pieces)
    letters = [sum(c.lower() != c.upper() for c in word) for word in text.split()]
    return text == text.upper() and sum(letters) >= LEAST_LETTERS and sum(n > 1 for n in letters) >= LEAST_WORDS


def in_small_letters(template: Template) -> Template:
    """The same text with capitals only where sentences begin, and for "I"."""
    pieces = [_I.sub("I", _AFTER_END.sub(_capital, piece.lower())) for piece in template.pieces]
    return Template((_FIRST.sub(_capital, pieces[0]), *pieces[1:]), template.blanks)


def constraint_in_small_letters(constraint: Constraint) -> Constraint:
    """What a blank may hold, as it is written there; banned words are banned in either case anyway."""
    require, only = (tuple(word.lower() for word in words) for words in (constraint.require, constraint.only))
    return replace(constraint, require=require, only=only)


def _capital(match: re.Match[str]) -> str:
    return match[1] + match[2].upper()
