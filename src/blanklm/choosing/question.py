"""A text with blanks and what may stand in them, parsed and checked."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from blanklm.core.characters import check_text
from blanklm.core.in_place import Alternative
from blanklm.core.special import BLANK, UNK
from blanklm.core.template import Blank, Template, escape, how_to_write_a_blank
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError

MOST_COMBINATIONS = 100_000


@dataclass(frozen=True)
class Question:
    """A text with blanks; ``options`` of each blank, or ``rows`` that fill all blanks at once."""

    template: Template
    tokenizer: Tokenizer
    ids: tuple[int, ...]  # the canvas
    options: tuple[tuple[str, ...], ...]  # of each blank, without repetition
    tokens: dict[tuple[int, str], tuple[int, ...]]  # of each option in each blank
    rows: tuple[tuple[str, ...], ...] | None = None
    unknown: tuple[str, ...] = ()  # given words that the vocabulary does not hold

    @classmethod
    def parse(
        cls,
        text: str | None,
        options: Sequence[str | Sequence[str]] | None,
        alternatives: Sequence[str | Sequence[str]] | None,
        tokenizer: Tokenizer,
        longest: int,
    ) -> Question:
        """Parse and check one question; a mistake in it raises here, before any work is done."""
        if (options is None) == (alternatives is None):
            raise BlankLMError("give the options of each blank, or alternatives for all of them: one of the two")
        _check_entries("options", options)
        _check_entries("alternatives", alternatives)
        if text is None:
            text, alternatives = _whole_texts(alternatives)
        template = Template.parse(check_text(text))
        blanks = len(template.blanks)
        if not blanks:
            raise BlankLMError(f"there is no blank in the text: {how_to_write_a_blank(text, 'the options go')}")
        rows = None
        if alternatives is not None:
            rows = tuple(dict.fromkeys(_row(row, blanks) for row in alternatives))
            if not rows:
                raise BlankLMError("there are no alternatives: give at least one")
            by_blank = [list(column) for column in zip(*rows, strict=True)]
        else:
            by_blank = _each_blank(options or (), blanks)
        ids, spaces = tokenizer.encode_template(template)
        tokens = {}
        for number, (blank, written) in enumerate(zip(template.blanks, by_blank, strict=True)):
            for entry in written:
                tokens[number, entry] = _tokens_of(entry, number, blank, spaces[number], tokenizer)
        unknown = dict.fromkeys(word for piece in template.pieces for word in tokenizer.unknown_words(piece))
        distinct = tuple(tuple(dict.fromkeys(entries)) for entries in by_blank)
        question = cls(template, tokenizer, tuple(ids), distinct, tokens, rows, tuple(unknown))
        question._check_size(longest)
        return question

    def _check_size(self, longest: int) -> None:
        if self.count > MOST_COMBINATIONS:
            number = f"{self.count:,}" if self.count < 10**12 else "far too many"  # Python prints no longer ones
            raise BlankLMError(
                f"the options make {number} combinations, and at most {MOST_COMBINATIONS:,} are ranked: give "
                "fewer options, or choose for some blanks at a time"
            )
        most = sum(
            max(len(self.tokens[number, entry]) for entry in entries) for number, entries in enumerate(self.options)
        )
        length = len(self.ids) - len(self.template.blanks) + most
        if length > longest:
            raise BlankLMError(
                f"the text takes {length:,} tokens with its options, and this model takes at most {longest:,}: split it"
            )

    @property
    def count(self) -> int:
        """How many combinations there are."""
        return math.prod(map(len, self.options)) if self.rows is None else len(self.rows)

    def combinations(self) -> Iterator[tuple[str, ...]]:
        return itertools.product(*self.options) if self.rows is None else iter(self.rows)

    def alternative(self, spans: Sequence[str]) -> Alternative:
        """The text with options in its first blanks, all of them hidden; later blanks stay."""
        tokens: list[int] = []
        hidden: list[int] = []
        blanks: list[int] = []
        number = 0
        for item in self.ids:
            if item != BLANK or number >= len(spans):
                tokens.append(item)
                continue
            written = self.tokens[number, spans[number]]
            hidden += range(len(tokens), len(tokens) + len(written))
            blanks += [number] * len(written)
            tokens += written
            number += 1
        return Alternative(tuple(tokens), tuple(hidden), tuple(blanks))


def _check_entries(name: str, entries: Any) -> None:
    """Refuse what is no list of strings or of lists of strings; a string is no list of letters."""

    def is_list(value: Any) -> bool:
        return isinstance(value, Sequence) and not isinstance(value, str | bytes)

    if entries is not None and not (
        is_list(entries)
        and all(
            isinstance(row, str) or (is_list(row) and all(isinstance(part, str) for part in row)) for row in entries
        )
    ):
        raise BlankLMError(f'"{name}" must be a list of strings, or a list of such lists')


def _each_blank(options: Sequence[str | Sequence[str]], blanks: int) -> list[list[str]]:
    """The options of each blank; a list of strings is for the only blank."""
    if all(isinstance(entry, str) for entry in options) and options:
        if blanks > 1:
            raise BlankLMError(f"the text has {blanks} blanks: give a list of options for each of them")
        return [[str(entry) for entry in options]]
    by_blank = [[entry] if isinstance(entry, str) else list(entry) for entry in options]
    if len(by_blank) > blanks:
        raise BlankLMError(f"there are options for {len(by_blank)} blanks, and the text has {blanks}")
    by_blank += [[] for _ in range(blanks - len(by_blank))]
    for number, entries in enumerate(by_blank, 1):
        if not entries:
            raise BlankLMError(f"blank {number} has no options: name what may stand in it")
    return by_blank


def _row(row: str | Sequence[str], blanks: int) -> tuple[str, ...]:
    parts = (row,) if isinstance(row, str) else tuple(row)
    if len(parts) != blanks:
        shown = " | ".join(parts)
        raise BlankLMError(f"an alternative has {len(parts)} parts, and the text has {blanks} blanks: {shown}")
    return parts


def _whole_texts(alternatives: Sequence[str | Sequence[str]] | None) -> tuple[str, list[str]]:
    """Turn whole texts into one blank: the words that all begin and end with are given, the rest is compared."""
    texts = [text if isinstance(text, str) else "" for text in alternatives or ()]
    if not texts or not all(text.strip() for text in texts):
        raise BlankLMError("without a text, the alternatives are whole texts: give at least one, none of them empty")
    pieces = [re.findall(r"\s*\S+", text.rstrip()) for text in texts]  # spaces at the end would be tried one by one
    room = min(map(len, pieces)) - 1  # at least one word of each is compared
    first = min(room, _in_common(pieces))
    last = min(room - first, _in_common([words[::-1] for words in pieces]))
    before = "".join(pieces[0][:first])
    after = "".join(pieces[0][len(pieces[0]) - last :])
    middles = ["".join(words[first : len(words) - last]) for words in pieces]
    if first:  # the space belongs to what is given
        before += " "
        middles = [middle.strip() for middle in middles]
    return f"{escape(before)}___{escape(after)}", middles


def _in_common(texts: Sequence[Sequence[str]]) -> int:
    """How many words all texts begin with."""
    return sum(1 for _ in itertools.takewhile(lambda words: len(set(words)) == 1, zip(*texts, strict=False)))


def _tokens_of(entry: str, number: int, blank: Blank, space: bool, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens of an option in a blank; whatever keeps it from standing there raises."""
    place = f"the option {entry!r} cannot stand in blank {number + 1}"
    if not entry.strip():
        raise BlankLMError(f"{place}: a blank takes at least one word")
    if Template.parse(entry).blanks:
        raise BlankLMError(f"{place}: it has a blank of its own")
    ids = tokenizer.encode((" " if space else "") + entry)
    if UNK in ids:
        unknown = ", ".join(map(repr, tokenizer.unknown_words(entry)))
        raise BlankLMError(f"{place}: the model does not know {unknown}")
    words = len(ids) if tokenizer.kind == "character" else len(entry.split())
    if words < blank.min or (blank.max is not None and words > blank.max):
        raise BlankLMError(f"{place}: it has {words} words, and the blank is {blank}")
    return tuple(ids)
