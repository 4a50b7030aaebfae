"""A blank, and text with blanks: ``___`` (any length), ``___[3]`` (exactly three), ``___[2-5]`` (two to five),
``___[2-]`` (two or more).

A backslash before a run of underscores makes it literal (``\\___``), and so it does with a bracket right after a blank
(``___\\[``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from blanklm.errors import CanvasError

LONGEST_TEXT = 1_000_000  # characters; no model reads nearly as many
SHOWN = 40  # characters of a wrong length that an error shows
# None of these reads a character more than a few times, so that reading a text takes time in proportion to it.
_RUN = re.compile(r"(?<!\\)(?P<slashes>\\*)(?P<run>_{3,})")
_BRACKET = re.compile(r"\[[^\]\n]*\]?")
_LENGTH = re.compile(r"\[\s*(?P<min>\d{1,9})\s*(?P<dash>-\s*(?:(?P<max>\d{1,9})\s*)?)?\]")
_ESCAPED_BRACKET = re.compile(r"(?P<slashes>\\+)\[")
# What stands for missing words elsewhere.
OTHER_BLANKS = re.compile(r"\[MASK\]|<mask>|<blank>|<extra_id_\d+>|(?<!_)__?(?!_)(?=\s|[.,;:!?]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Blank:
    """A hole for at least one token: of unknown length by default, else between ``min`` and ``max`` tokens."""

    min: int = 1
    max: int | None = None

    def __post_init__(self) -> None:
        if self.min < 1:
            raise CanvasError(f"a blank takes at least one token, not {self.min}; leave the blank out instead")
        if self.max is not None and self.max < self.min:
            raise CanvasError(f"a blank's minimum {self.min} is greater than its maximum {self.max}")

    @classmethod
    def exactly(cls, length: int) -> Blank:
        return cls(length, length)

    @property
    def length(self) -> int | None:
        """The length, where it is known exactly."""
        return self.min if self.min == self.max else None

    def __str__(self) -> str:
        if self.length is not None:
            return f"___[{self.length}]"
        if self.max is not None:
            return f"___[{self.min}-{self.max}]"
        return "___" if self.min == 1 else f"___[{self.min}-]"


@dataclass(frozen=True)
class Template:
    """A text with blanks, as the user wrote it: ``pieces[0] blanks[0] pieces[1] ... blanks[k-1] pieces[k]``.

    The pieces are kept character for character, so the text outside the blanks comes back unchanged.
    """

    pieces: tuple[str, ...]
    blanks: tuple[Blank, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        if len(text) > LONGEST_TEXT:
            raise CanvasError(f"the text has {len(text):,} characters, and at most {LONGEST_TEXT:,} are read: split it")
        pieces, blanks, position = [], [], 0
        piece: list[str] = []  # the parts of the one being read
        while match := _RUN.search(text, position):
            piece += text[position : match.start()], "\\" * (len(match["slashes"]) // 2)
            position = match.end()
            if len(match["slashes"]) % 2:
                piece.append(match["run"])
                continue
            length = _BRACKET.match(text, position)
            blanks.append(Blank() if length is None else _parse_length(text, match, length))
            pieces.append("".join(piece))
            piece = []
            if length is not None:
                position = length.end()
            elif bracket := _ESCAPED_BRACKET.match(text, position):
                piece = ["\\" * (len(bracket["slashes"]) // 2), "["]
                position = bracket.end()
        pieces.append("".join((*piece, text[position:])))
        return cls(tuple(pieces), tuple(blanks))

    def __str__(self) -> str:
        """The text that parses back to this template."""
        text: list[str] = []
        for k, piece in enumerate(self.pieces):
            written = escape(piece)
            if k < len(self.blanks):
                if piece.endswith("_"):
                    raise CanvasError("a blank right after an underscore cannot be written: put a space between")
                slashes = len(piece) - len(piece.rstrip("\\"))
                written += "\\" * slashes
            if k > 0:
                blank = self.blanks[k - 1]
                bare = blank == Blank()
                touches_blank = piece == "" and k < len(self.blanks)
                if bare and (piece.startswith("_") or touches_blank):
                    text.append("___[1-]")
                else:
                    text.append(str(blank))
                    slashes = len(piece) - len(piece.lstrip("\\"))
                    if bare and piece[slashes : slashes + 1] == "[":
                        written = "\\" * (slashes + 1) + written
            text.append(written)
        return "".join(text)

    def render(self, spans: Sequence[str]) -> str:
        """The text with each blank replaced by its span."""
        if len(spans) != len(self.blanks):
            raise CanvasError(f"{len(self.blanks)} blanks cannot take {len(spans)} spans")
        filled = [self.pieces[0]]
        for span, piece in zip(spans, self.pieces[1:], strict=True):
            filled += [span, piece]
        return "".join(filled)


def escape(text: str) -> str:
    """Write literal text so that its underscore runs are not read as blanks."""
    return re.sub(r"(?<!\\)(\\*)(_{3,})", lambda m: m[1] * 2 + "\\" + m[2], text)


def _parse_length(text: str, run: re.Match[str], bracket: re.Match[str]) -> Blank:
    length = _LENGTH.fullmatch(bracket[0])
    if length is None:
        raise CanvasError(
            f"{_written_at(text, run, bracket)} is not a blank with a length: write ___[3] or ___[2-5], "
            "or ___\\[ for a bracket after a blank"
        )
    minimum = int(length["min"])
    maximum = minimum if not length["dash"] else int(length["max"]) if length["max"] else None
    try:
        return Blank(minimum, maximum)
    except CanvasError as error:
        raise CanvasError(f"{_written_at(text, run, bracket)}: {error}") from None


def _written_at(text: str, run: re.Match[str], bracket: re.Match[str]) -> str:
    """Say where a blank stands and how it is written, cut short if it is long."""
    written = run["run"] + bracket[0]
    shown = written if len(written) <= SHOWN else written[:SHOWN] + "…"
    line = text.count("\n", 0, run.start("run")) + 1
    column = run.start("run") - (text.rfind("\n", 0, run.start("run")) + 1) + 1
    where = f"line {line}, column {column}" if "\n" in text else f"column {column}"
    return f"{where}: {shown!r}"


def how_to_write_a_blank(text: str, where: str = "words are missing") -> str:
    """Say how a blank is written, to those who know it from elsewhere in particular."""
    if other := OTHER_BLANKS.search(text):
        return f"write ___ in place of {other[0]}"
    return f"write ___ where {where}"
