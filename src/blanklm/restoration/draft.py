"""A text with gaps in token ids, and the windows of it that a model reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from blanklm.core.special import BLANK
from blanklm.core.template import Blank
from blanklm.core.tokenizer import Tokenizer
from blanklm.restoration.normalise import normalise
from blanklm.restoration.notation.document import LONGEST_GAP

MIN_CONTEXT = 100  # characters read around a gap, however long it is
LETTERS_PER_SPACE = 3  # there is at most one space for so many letters, and one more
BLOCK = 20  # characters of a gap; a greedy guess writes one of each block in each pass

Part = str | Blank


@dataclass
class Draft:
    """A text in ids: pieces[0] gaps[0] pieces[1] ...; ``spans`` are the contents of the gaps, BLANK where open."""

    pieces: list[list[int]]
    gaps: list[Blank]
    spans: list[list[int]]  # one BLANK for a gap whose length is not known yet
    letters: list[tuple[int, int] | None]  # how many letters a gap has at least and at most, where they are counted

    @classmethod
    def of(cls, parts: Sequence[Part], tokenizer: Tokenizer, count_letters: bool = False) -> Draft:
        pieces, gaps, letters = [""], [], []
        for at, part in enumerate(parts):
            if isinstance(part, Blank):
                touches = any(
                    isinstance(beside, Blank) for beside in (*parts[max(0, at - 1) : at], *parts[at + 1 :][:1])
                )
                counts = count_letters and part != Blank() and not touches
                letters.append((part.min, part.max or LONGEST_GAP) if counts else None)
                gaps.append(with_room_for_spaces(part) if counts else part)
                pieces.append("")
            else:
                pieces[-1] += part
        encoded = tokenizer.encode_many([normalise(piece) for piece in pieces])
        return cls(encoded, gaps, [[BLANK] * (gap.length or 1) for gap in gaps], letters)

    def with_spans(self, spans: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
        """Return the text with these spans in its gaps, and where each of them begins."""
        ids, starts = list(self.pieces[0]), []
        for span, piece in zip(spans, self.pieces[1:], strict=True):
            starts.append(len(ids))
            ids += [*span, *piece]
        return ids, starts


@dataclass(frozen=True)
class OpenGap:
    """A gap of a draft to be restored, with the best guess in the other gaps."""

    draft: Draft
    spans: list[list[int]]  # of all gaps
    number: int
    posterior: Tensor | None  # [N] log p of the lengths 1 ... N in characters, where the length is not known

    @property
    def letters(self) -> tuple[int, int] | None:
        """How many letters it has at least and at most, where they are counted."""
        return self.draft.letters[self.number]

    @property
    def is_fitted(self) -> bool:
        """Whether the text beside it judges what is restored: where its length in either unit is not told."""
        return self.posterior is not None and (self.letters is None or self.letters[0] < self.letters[1])

    def filled_with(self, span: list[int]) -> tuple[list[int], int]:
        """Return the text with ``span`` in the gap, and where the gap begins."""
        ids, starts = self.draft.with_spans(replaced(self.spans, self.number, span))
        return ids, starts[self.number]


@dataclass(frozen=True)
class Window:
    """The text around a gap, which is open and ``length`` characters long."""

    ids: list[int]
    start: int  # of the gap
    length: int
    log_p_length: float

    def gap_of(self, ids: Sequence[int]) -> Sequence[int]:
        return ids[self.start : self.start + self.length]


def with_room_for_spaces(gap: Blank) -> Blank:
    """Return the lengths in characters of a gap whose letters are counted; those that touch keep their lengths.

    Editors of stones count letters: the spaces between words, which no stone has, do not count. To a model a space is
    a character like any other.
    """
    return gap if gap.max is None else replace(gap, max=min(LONGEST_GAP, gap.max + gap.max // LETTERS_PER_SPACE + 1))


def replaced(spans: Sequence[list[int]], number: int, span: list[int]) -> list[list[int]]:
    """Return the spans with another one at ``number``."""
    return [*spans[:number], span, *spans[number + 1 :]]


def around(total: int, start: int, length: int, context: int) -> tuple[int, int]:
    """Return the bounds of ``length`` characters from ``start`` with ``context`` on either side, within ``total``."""
    return max(0, start - context), min(total, start + length + context)


def centred(total: int, start: int, length: int, longest: int) -> tuple[int, int]:
    """Return the bounds of ``longest`` characters with the gap in the middle; more where the gap would fill them."""
    longest = max(longest, length + MIN_CONTEXT)
    first = max(0, min((2 * start + length - longest) // 2, total - longest))
    return first, min(total, first + longest)


def block_numbers(total: int, gaps: Iterable[tuple[int, int]]) -> list[int]:
    """Return the number of the block at each position, counted over all gaps (start, length); 0 outside gaps."""
    blocks, number = [0] * total, 0
    for start, length in gaps:
        for k in range(length):
            number += k % BLOCK == 0
            blocks[start + k] = number
    return blocks
