"""A damaged text as its editor wrote it, whatever the notation: what can be read, what is lost, and where each stands.

A ``Document`` keeps its source. Restoring it replaces the places of some lacunae in that source and leaves every other
character alone, so what the editor wrote comes back as it was by construction.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from blanklm.errors import NotationError

LONGEST = 1000  # characters that a lacuna may have
_SIGNS_OF_LOSS = "-#\u2010\u2011\u2012\u2013\u2014\u2015\u2212"  # to the models; here they are hyphens and the like
CERTAINTIES = ("high", "medium", "low")


def position(source: str, offset: int) -> tuple[int, int]:
    """Line and column of a character, both from 1, as editors count them."""
    return source.count("\n", 0, offset) + 1, offset - (source.rfind("\n", 0, offset) + 1) + 1


def refusal(source: str, offset: int, message: str) -> NotationError:
    line, column = position(source, offset)
    return NotationError(f"line {line}, column {column}: {message}", line, column)


@dataclass(frozen=True)
class Supplement:
    """What to write in a lacuna; ``-`` is a letter that stays lost. ``certainty``: one of CERTAINTIES."""

    text: str
    certainty: str | None = None

    def runs(self) -> Iterator[tuple[bool, str]]:
        """The stretches of restored (True) and of lost (False) letters, in order."""
        for run in re.findall(r"-+|[^-]+", self.text):
            yield not run.startswith("-"), run


@dataclass(frozen=True)
class Lacuna(ABC):
    """A loss of ``least`` to ``most`` characters, None where the editor sets no bound; both None: extent unknown.

    ``start`` and ``end`` are what a supplement replaces in the source.
    """

    least: int | None
    most: int | None
    start: int
    end: int

    @property
    def is_exact(self) -> bool:
        return self.least is not None and self.least == self.most

    def joined(self, following: Lacuna) -> Lacuna:
        """One lacuna for two that touch: where one of them ends, nobody knows."""
        least = min((self.least or 1) + (following.least or 1), LONGEST)
        most = None if self.most is None or following.most is None else min(self.most + following.most, LONGEST)
        return replace(self, least=least, most=most, end=following.end)

    @abstractmethod
    def written(self, supplement: Supplement) -> str:
        """The supplement in the notation of the document."""


@dataclass(frozen=True)
class Letters:
    """What can be read, white space reduced to single spaces; ``places`` are those of its characters in the source.

    ``foreign``: the editor says that it is in another language than the text around it.
    """

    text: str
    places: tuple[int, ...]
    foreign: bool = False


@dataclass(frozen=True)
class Passage:
    """A text that is restored by itself. ``language`` is what the editor calls it, as in ``xml:lang``."""

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
    encoded: Callable[[str], bytes] = field(default=str.encode, repr=False, compare=False)  # as the file was

    @property
    def lacunae(self) -> list[Lacuna]:
        """All of them, in the order of the source: what supplements are numbered by, from 0."""
        return [lacuna for passage in self.passages for lacuna in passage.lacunae]

    def restored(self, supplements: Mapping[int, Supplement]) -> str:
        """The source with these lacunae restored; those that are not named stay as they are written."""
        lacunae, pieces, rest = self.lacunae, [], 0
        for number in sorted(supplements):
            lacuna = lacunae[number]
            pieces += [self.source[rest : lacuna.start], lacuna.written(supplements[number])]
            rest = lacuna.end
        return "".join([*pieces, self.source[rest:]])


class PassageReader:
    """Collects the parts of a passage while its source is read from left to right."""

    def __init__(self, language: str | None = None) -> None:
        self.language = language
        self._parts: list[Letters | Lacuna] = []
        self._text: list[str] = []
        self._places: list[int] = []
        self._foreign = False
        self._space: int | None = None  # where a space is due before whatever comes
        self._joining = False  # the next white space does not count

    @property
    def in_word(self) -> bool:
        """Does a letter or a lacuna stand directly before what comes?"""
        return self._space is None and (self._text[-1].isalpha() if self._text else bool(self._parts))

    def letters(self, text: str, offset: int, foreign: bool = False) -> None:
        for place, character in enumerate(text, offset):
            if character.isspace():
                self.space(place)
                continue
            if character in _SIGNS_OF_LOSS:
                continue
            self._spend_space(foreign)
            self._text.append(character)
            self._places.append(place)

    def space(self, offset: int) -> None:
        if not self._joining and self._space is None and (self._text or self._parts):
            self._space = offset

    def join(self) -> None:
        """A word goes on here, over the end of a line: white space before and behind does not count."""
        self._space, self._joining = None, True

    def lacuna(self, lacuna: Lacuna) -> None:
        if self._space is not None and self._space >= lacuna.start:
            self._space = None  # it is a part of the lacuna
        self._spend_space(self._foreign)
        self._end_letters()
        before = self._parts[-1] if self._parts else None
        if isinstance(before, Lacuna) and before.end == lacuna.start and not (before.is_exact and lacuna.is_exact):
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
            self._parts.append(Letters("".join(self._text), tuple(self._places), self._foreign))
            self._text, self._places = [], []

    def passage(self) -> Passage:
        self._end_letters()
        return Passage(tuple(self._parts), self.language)


def bounds(least: int, most: int | None, refuse: Callable[[str], NotationError]) -> tuple[int, int | None]:
    """Check the length of a lacuna; ``refuse`` makes the error that says where it stands."""
    if least < 1:
        raise refuse("a gap holds at least one character: give its length, or say that it is unknown")
    if max(least, most or 0) > LONGEST:
        raise refuse(f"a gap of {max(least, most or 0):,} characters is too long: at most {LONGEST:,} can be restored")
    if most is not None and most < least:
        raise refuse(f"a gap of at least {least} and at most {most} characters cannot be")
    return least, most


def about(number: int) -> tuple[int, int]:
    """What *c. n* allows: a fifth more or less, and at least one."""
    slack = max(1, round(number / 5))
    return max(1, number - slack), number + slack
