"""A text with gaps in token ids, and the windows of it that a model reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from blanklm.core.special import BLANK
from blanklm.core.template import Blank
from blanklm.core.tokenizer import Tokenizer
from blanklm.restoration.normalise import normalise

MIN_CONTEXT = 100  # characters read around a gap, however long it is
BLOCK = 20  # characters of a gap; a greedy guess writes one of each block in each pass

Part = str | Blank


@dataclass
class Draft:
    """A text in ids: pieces[0] gaps[0] pieces[1] ...; ``spans`` are the contents of the gaps, BLANK where open."""

    pieces: list[list[int]]
    gaps: list[Blank]
    spans: list[list[int]]  # one BLANK for a gap whose length is not known yet

    @classmethod
    def of(cls, parts: Sequence[Part], tokenizer: Tokenizer) -> Draft:
        pieces, gaps = [""], []
        for part in parts:
            if isinstance(part, Blank):
                gaps.append(part)
                pieces.append("")
            else:
                pieces[-1] += part
        encoded = tokenizer.encode_many([normalise(piece) for piece in pieces])
        return cls(encoded, gaps, [[BLANK] * (gap.length or 1) for gap in gaps])

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
    posterior: Tensor | None  # [N] log p of the lengths 1 ... N, where the length is not known

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
