"""A damaged text as its editor wrote it, in any notation: what can be read, what is lost, and where each is.

A ``Document`` keeps its source. Restoring it replaces only the characters of some lacunae in that source, so everything
else that the editor wrote is unchanged by construction.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from blanklm.core.characters import invalid
from blanklm.core.template import Blank
from blanklm.errors import NotationError

LONGEST_GAP = 1000  # characters
_SIGNS_OF_LOSS = "-#\u2010\u2011\u2012\u2013\u2014\u2015\u2212"  # to the models; to editors hyphens and the like


def position(source: str, offset: int) -> tuple[int, int]:
    """Return the line and column of a character, both from 1, as text editors count them."""
    return source.count("\n", 0, offset) + 1, offset - (source.rfind("\n", 0, offset) + 1) + 1


def refusal(source: str, offset: int, message: str) -> NotationError:
    """Return an error that says where in the source the problem is."""
    line, column = position(source, offset)
    return NotationError(f"line {line}, column {column}: {message}", line, column)


def decoded(source: bytes, encoding: str) -> str:
    """Decode a file, or say where it is not in this encoding."""
    try:
        return source.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        before = source[: error.start].decode(encoding, "ignore") if isinstance(error, UnicodeDecodeError) else ""
        raise refusal(before, len(before), f"these bytes are not {encoding}: save the file as UTF-8") from None


def check_source(source: str, longest: int) -> None:
    """Refuse a document that is empty or has more than ``longest`` characters."""
    if len(source) > longest:
        raise refusal(source, 0, f"the document has more than {longest:,} characters: split it")
    if (at := invalid(source)) is not None:
        raise refusal(source, at, f"U+{ord(source[at]):04X} is not a character: remove it")
    if not source.strip("\ufeff \t\r\n"):
        raise refusal(source, 0, "the document is empty")


@dataclass(frozen=True)
class Supplement:
    """The text to write in a lacuna; ``-`` is a letter that stays lost. ``certainty``: high, medium or low."""

    text: str
    certainty: str | None = None

    def runs(self) -> Iterator[tuple[bool, str]]:
        """Yield the runs of restored (True) and of lost (False) letters, in order."""
        for run in re.findall(r"-+|[^-]+", self.text):
            yield not run.startswith("-"), run


@dataclass(frozen=True)
class Lacuna(ABC):
    """A loss of as many characters as ``blank`` says; ``Blank()``: its extent is unknown.

    A supplement replaces the characters of the source from ``start`` to ``end``.
    """

    blank: Blank
    start: int
    end: int

    def joined(self, following: Lacuna) -> Lacuna:
        """Return one lacuna for two that touch, as it is not known where the first of them ends."""
        one, other = self.blank, following.blank
        most = None if one.max is None or other.max is None else min(one.max + other.max, LONGEST_GAP)
        return replace(self, blank=Blank(min(one.min + other.min, LONGEST_GAP), most), end=following.end)

    @abstractmethod
    def written(self, supplement: Supplement) -> str:
        """Return the supplement in the notation of the document."""


@dataclass(frozen=True)
class Letters:
    """What can be read, with single spaces; ``places`` are the offsets of its characters in the source.

    ``foreign``: the editor marks it as being in another language than the text around it. ``restored``: those of the
    places where a letter is lost and the editor has restored it.
    """

    text: str
    places: tuple[int, ...]
    foreign: bool = False
    restored: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Passage:
    """A text that is restored on its own. ``language`` is the editor's name for it, as in ``xml:lang``."""

    parts: tuple[Letters | Lacuna, ...]
    language: str | None = None

    @property
    def lacunae(self) -> list[Lacuna]:
        return [part for part in self.parts if isinstance(part, Lacuna)]


@dataclass(frozen=True)
class Document:
    source: str
    notation: str
    passages: tuple[Passage, ...]
    encoded: Callable[[str], bytes] = field(default=str.encode, repr=False, compare=False)  # as the file is encoded

    @property
    def lacunae(self) -> list[Lacuna]:
        """All lacunae in the order of the source, by which supplements are numbered from 0."""
        return [lacuna for passage in self.passages for lacuna in passage.lacunae]

    def restored(self, supplements: Mapping[int, Supplement]) -> str:
        """Return the source with these lacunae restored, and all others as they are."""
        lacunae = self.lacunae
        return self.replaced({number: lacunae[number].written(text) for number, text in supplements.items()})

    def replaced(self, texts: Mapping[int, str]) -> str:
        """Return the source with these texts, already in its notation, in the place of lacunae."""
        lacunae, pieces, rest = self.lacunae, [], 0
        for number in sorted(texts):
            pieces += [self.source[rest : lacunae[number].start], texts[number]]
            rest = lacunae[number].end
        return "".join([*pieces, self.source[rest:]])


class PassageReader:
    """Collect the parts of a passage while its source is read from left to right."""

    def __init__(self, language: str | None = None) -> None:
        self.language = language
        self._parts: list[Letters | Lacuna] = []
        self._text: list[str] = []
        self._places: list[int] = []
        self._restored: set[int] = set()  # places
        self._foreign = False
        self._space: int | None = None  # offset of a space that has not been added yet
        self._joining = False  # whether to ignore the next white space

    @property
    def in_word(self) -> bool:
        """Whether the last thing read is a letter or a lacuna."""
        return self._space is None and (self._text[-1].isalpha() if self._text else bool(self._parts))

    def letters(self, text: str, offset: int, foreign: bool = False, restored: bool = False) -> None:
        for place, character in enumerate(text, offset):
            if character.isspace():
                self.space(place)
                continue
            if character in _SIGNS_OF_LOSS:
                continue
            self._spend_space(foreign)
            self._text.append(character)
            self._places.append(place)
            if restored:
                self._restored.add(place)

    def space(self, offset: int) -> None:
        if not self._joining and self._space is None and (self._text or self._parts):
            self._space = offset

    def join(self) -> None:
        """Continue a word over the end of a line: ignore white space before and after."""
        self._space, self._joining = None, True

    def lacuna(self, lacuna: Lacuna) -> None:
        if self._space is not None and self._space >= lacuna.start:
            self._space = None  # it is part of the lacuna
        self._spend_space(self._foreign)
        self._end_letters()
        before = self._parts[-1] if self._parts else None
        if (
            isinstance(before, Lacuna)
            and before.end == lacuna.start
            and None in (before.blank.length, lacuna.blank.length)
        ):
            self._parts[-1] = before.joined(lacuna)
        else:
            self._parts.append(lacuna)

    def _spend_space(self, foreign: bool) -> None:
        if self._space is not None:
            self._text.append(" ")
            self._places.append(self._space)
        self._space, self._joining = None, False
        if foreign != self._foreign:
            self._end_letters()
            self._foreign = foreign

    def _end_letters(self) -> None:
        if self._text:
            restored = frozenset(self._restored)
            self._parts.append(Letters("".join(self._text), tuple(self._places), self._foreign, restored))
            self._text, self._places, self._restored = [], [], set()

    def passage(self) -> Passage:
        self._end_letters()
        return Passage(tuple(self._parts), self.language)


def checked_blank(source: str, offset: int, least: int, most: int | None) -> Blank:
    """Return a blank of these lengths, or say what is wrong with the lacuna at ``offset``."""
    greatest = max(least, most or 0)
    if least < 1:
        raise refusal(source, offset, "a gap holds at least one character: give its length, or say that it is unknown")
    if greatest > LONGEST_GAP:
        message = f"a gap of {greatest:,} characters is too long: at most {LONGEST_GAP:,} can be restored"
        raise refusal(source, offset, message)
    if most is not None and most < least:
        raise refusal(source, offset, f"a gap of at least {least} and at most {most} characters cannot be")
    return Blank(least, most)


def about(number: int) -> tuple[int, int]:
    """Return the least and greatest length that *c. n* allows: a fifth more or less, and at least one."""
    slack = max(1, round(number / 5))
    return max(1, number - slack), number + slack
