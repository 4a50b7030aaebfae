"""Leiden notation, as epigraphers and papyrologists type it.

| written | means | for the model | when restored |
|---|---|---|---|
| ``[...]``, ``[. . .]`` | three letters lost | a gap of 3 | ``[abc]`` |
| ``[. . 5 . .]``, ``[.5]``, ``[- 5 -]`` | five letters lost | a gap of 5 | ``[abcde]`` |
| ``[c. 5]``, ``[ca. 5]``, ``[- ca. 5 -]``, ``[± 5]`` | about five | 4 to 6, a fifth more or less | ``[abcd]`` |
| ``[c. 5-7]``, ``[.5-7]`` | five to seven | a gap of 5 to 7 | ``[abcdef]`` |
| ``[---]``, ``[- - -]``, ``[-ca.?-]`` | lost, extent unknown | a gap of any length | ``[abc]`` |
| ``[.. ---]`` | at least two letters | a gap of 2 or more | ``[abc]`` |
| ``[abc]`` | lost and restored by the editor | its letters | as it is |
| ``[␣]`` | a space between words, restored | a space | as it is |
| ``[ab...]`` | partly restored | letters, a gap of 3 | ``[abcde]`` |
| ``. . .`` (two or more), ``+++`` | traces of letters | a gap | ``[abc]`` |
| a letter with a dot below | doubtful | the letter | as it is |
| ``(abc)``, ``<abc>`` | abbreviation resolved; left out by the cutter | its letters | as it is |
| ``<a=b>`` | the cutter wrote b for a | ``a`` | as it is |
| ``{abc}``, ``(!)``, ``(sic)``, ``(---)`` | superfluous; remarks; not resolved | nothing | as it is |
| ``[[abc]]`` | erased in antiquity | its letters | as it is |
| ``[[...]]``, ``[[---]]`` | erased and lost | a gap | ``[[[abc]]]`` |
| ``|``, ``/``, ``|5``, end of line | a new line | as the white space around it; a hyphen joins | as it is |
| ``vac.``, ``vacat``, ``(vac. 3)`` | left empty by the cutter | a space | as it is |
| ``- - -`` outside brackets | lines lost | a space | as it is |

Curly, angled and double brackets of Unicode stand for their ASCII kin. Brackets must close in the order in which they
were opened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from unicodedata import normalize

from blanklm.core.template import Blank
from blanklm.restoration.notation.document import (
    Document,
    Lacuna,
    Passage,
    PassageReader,
    Supplement,
    about,
    check_source,
    checked_blank,
    decoded,
    refusal,
)

NAME = "leiden"
LONGEST_DOCUMENT = 1_000_000  # characters

_DASH = "\\-\u2010-\u2015\u2212"
_DOT = "(?:[.\u2026]\u0323?|[ ]\u0323)"  # also a dot below nothing
_RAISED = "[·˙‧∙⋅•⋯]"  # as editions print lost letters; one alone among letters divides words
_DIGITS = "[0-9⁰¹²³⁴-⁹]+"
_NUMERAL = r"[\d⁰¹²³⁴-⁹₀-₉]+"  # in any script: one that is not read as a number would be read as a letter
_SPACE = "␣"  # where a space would not be seen
_ANGLES = ("<", "⟨", "〈", "‹")
_OPEN = {"[[": "]]", "⟦": "⟧", "〚": "〛", "[": "]", "(": ")", "<": ">", "⟨": "⟩", "〈": "〉", "‹": "›", "{": "}"}
_ERASED = ("[[", "⟦", "〚")
_PAIR = re.compile("|".join(re.escape(mark) for pair in _OPEN.items() for mark in pair))
_LINE_NUMBER = re.compile(r"(?m:^)[ \t]*(?:[0-9]+[a-z]?[.:)]?|\([0-9]+[a-z]?\))(?=\s|\[|$)")
_LINE_END = re.compile(rf"(?:\|{{1,2}}|¦|//?)(?:[ ]?\(?{_DIGITS}\)?[ ]?)?")
_HYPHEN = re.compile(rf"[{_DASH}](?=[ \t]*(?:[|/¦]|\r?\n))")
_REMARK = re.compile(rf"\((?:\?|!|sic!?|[{_DASH}.\u2026 ]+|[0-9]+)\)|[?!*†]")
_BEFORE, _BEHIND = r"(?<![^\s\[(|/])", r"(?![^\s\])|/])"  # of a word that is an editor's, not the text's
_SPACES = r"(?:[ \t]*(?:c(?:a|irca)?\.[ \t]*)?[0-9]+)?"
_VACANT = rf"[vu]ac(?:at|ant)?(?:\.{_SPACES}|{_SPACES}{_BEHIND})"
_VACAT = re.compile(rf"\({_VACANT}\)|{_BEFORE}{_VACANT}", re.IGNORECASE)
_VACAT_AMONG_GREEK = re.compile(rf"\(v+\.?\)|{_BEFORE}v+(?:\.|{_BEHIND})")
_TRACES = re.compile(rf"\+(?:[ ]?\+)*|{_DOT}(?:[ ]?{_DOT})+|\u2026\u0323?|[ ]\u0323")
_NUMBER = re.compile(_NUMERAL)
_EMPTY = re.compile(r"\[\s*(?:[?!]+\s*)?\]")
_LINES_LOST = re.compile(rf"[{_DASH}](?:[ ]?[{_DASH}])+")
_LOSS = re.compile(  # what the description of a loss is made of
    rf"""[ \t]* (?: (?P<dot>{_DOT}|{_RAISED}) | (?P<dash>[{_DASH}]) | (?P<number>{_NUMERAL}) | (?P<unknown>\?)
    | (?P<about>(?<!\w)c(?:a|irca)?(?:\.|\b)(?=\s*[0-9?]) | ± | \+/?-)
    | (?P<unit>(?<!\w)(?:letters?|litt(?:erae)?|lett|characters?|chars?|Buchst(?:aben)?)\b\.?) )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class LeidenLacuna(Lacuna):
    in_brackets: bool  # traces of letters are not

    def written(self, supplement: Supplement) -> str:
        # A space beside a dot, or alone, would be taken for one between the dots of a gap, or for empty brackets.
        letters = re.sub(r"(?<=\.) +| +(?=\.)|^ +$", lambda m: _SPACE * len(m[0]), supplement.text.replace("-", "."))
        return letters if self.in_brackets else f"[{letters}]"


def parse(source: str | bytes) -> Document:
    text = source if isinstance(source, str) else decoded(source, "UTF-8")
    check_source(text, LONGEST_DOCUMENT)
    passage = _LeidenParser(text).passage()
    if not passage.parts:
        raise refusal(text, 0, "there is no text")
    return Document(text, NAME, (passage,))


class _LeidenParser:
    """Read the source from left to right, keeping track of the brackets that are open."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._reader = PassageReader()
        self._open: list[tuple[str, int]] = []  # brackets and their offsets
        self._last_closing = source.rfind("]")
        self._is_greek = re.search(r"[Ͱ-Ͽἀ-῿]", source) is not None

    def passage(self) -> Passage:
        offset = 0
        while offset < len(self.source):
            offset = self._step(offset)
        if self._open:
            bracket, place = self._open[-1]
            raise refusal(self.source, place, f"this {bracket} is never closed")
        return self._reader.passage()

    def _step(self, offset: int) -> int:
        """Read what is at ``offset``, and return where it ends."""
        source, inside = self.source, self._open[-1][0] if self._open else ""
        if match := _LINE_NUMBER.match(source, offset):
            return match.end()
        if self._reader.in_word and (match := _HYPHEN.match(source, offset)):
            self._reader.join()
            return match.end()
        if (match := _VACAT.match(source, offset)) or (
            self._is_greek and (match := _VACAT_AMONG_GREEK.match(source, offset))
        ):
            self._reader.space(offset)
            return match.end()
        if source[offset] == _SPACE:
            self._reader.space(offset)
            return offset + 1
        if (inside == "[" or inside in _ERASED) and (end := self._loss(offset, erased=inside != "[")):
            return end
        if match := _REMARK.match(source, offset):
            return match.end()
        if inside in _ANGLES and source[offset] == "=":  # after it comes what the stone has
            close = source.find(_OPEN[inside], offset)
            return close if close >= 0 else len(source)
        if end := self._bracket(offset):
            return end
        if inside != "[" and (match := _TRACES.match(source, offset)):
            count = _dots(match[0]) + match[0].count("+")
            self._lacuna(count, count, offset, match.end(), in_brackets=False)
            return match.end()
        if match := _LINES_LOST.match(source, offset):
            self._reader.space(offset)
            return match.end()
        if match := _LINE_END.match(source, offset):
            return match.end()
        if inside == "[" and (match := _NUMBER.match(source, offset)):
            lengths = f"write [. . {match[0]} . .] or [---]"
            raise refusal(source, offset, f"{match[0]} in brackets may mean so many letters or any number: {lengths}")
        self._reader.letters(source[offset], offset, restored=any(mark == "[" for mark, _ in self._open))
        return offset + 1

    def _bracket(self, offset: int) -> int | None:
        match = _PAIR.match(self.source, offset)
        if not match:
            return None
        mark, inside = match[0], self._open[-1][0] if self._open else ""
        if mark == "]]" and inside == "[":  # the first of three
            mark = "]"
        if mark == "{":
            return offset + len(self._until(offset, "}")) + 2
        if mark in _OPEN:
            if inside == mark and mark in ("[", "[["):
                raise refusal(self.source, offset, f"a {mark} within a {mark} that is still open")
            if mark == "[" and offset > self._last_closing:
                raise refusal(self.source, offset, "this [ is never closed")
            if mark == "[" and _EMPTY.match(self.source, offset):
                message = "these brackets are empty: write [...] for three letters, or [---]"
                raise refusal(self.source, offset, message)
            self._open.append((mark, offset))
        elif mark == _OPEN.get(inside):
            self._open.pop()
        elif inside:
            raise refusal(self.source, offset, f"{mark} where {_OPEN[inside]} must close the {inside} that is open")
        else:
            raise refusal(self.source, offset, f"this {mark} closes nothing")
        return offset + len(mark)

    def _until(self, offset: int, closing: str) -> str:
        """Return what is between the bracket at ``offset`` and the next ``closing`` one."""
        close = self.source.find(closing, offset)
        if close < 0:
            raise refusal(self.source, offset, f"this {self.source[offset]} is never closed")
        return self.source[offset + 1 : close]

    # --- Losses within brackets -----------------------------------------------------------------------------------

    def _loss(self, offset: int, erased: bool) -> int | None:
        """Read a description of a loss at ``offset``, and return where it ends; None if there is none."""
        if self.source[offset].isspace() and not self.source.startswith("\u0323", offset + 1):
            return None
        kinds: list[str] = []
        numbers: list[int] = []
        dots, end = 0, offset
        while match := _LOSS.match(self.source, end):
            kind = match.lastgroup or ""  # one group always matches
            if not kinds and (match.start(kind) > offset or kind in ("number", "unknown", "unit")):
                return None
            kinds.append(kind)
            numbers += [int(normalize("NFKC", match["number"][:9]))] if match["number"] else []
            dots += _dots(match["dot"] or "")
            end = match.end()
        if not kinds:
            return None
        start, stop, alone = self._alone(offset, end)
        if len(kinds) == 1 and not alone and (erased or re.match(_RAISED, self.source[offset])):
            return None  # a mark among letters
        if "unknown" in kinds and dots <= 1:  # as in [.?]; [...?] is three letters, perhaps
            dots = 0
        least, most = dots or None, None if "dash" in kinds else dots or None
        if numbers:
            between = kinds[kinds.index("number") + 1 :]
            if len(numbers) == 1:
                least, most = about(numbers[0]) if "about" in kinds and numbers[0] else (numbers[0], numbers[0])
            elif len(numbers) == 2 and between[:2] == ["dash", "number"]:
                least, most = numbers
            else:
                raise refusal(self.source, offset, "how many letters are lost here? write one number, or two as in 5-7")
        self._lacuna(least, most, start, stop, in_brackets=not erased)
        return stop

    def _alone(self, start: int, end: int) -> tuple[int, int, bool]:
        """Return the bounds of a loss, with the spaces around it if it is alone in its brackets, and whether it is."""
        before, behind = start, end
        while self.source[before - 1 : before] in (" ", "\t"):
            before -= 1
        while self.source[behind : behind + 1] in (" ", "\t"):
            behind += 1
        opening, closing = self.source[before - 1 : before], self.source[behind : behind + 1]
        is_alone = opening in ("[", *_ERASED) and closing in ("]", *(_OPEN[mark] for mark in _ERASED))
        return (before, behind, True) if is_alone else (start, end, False)

    def _lacuna(self, least: int | None, most: int | None, start: int, end: int, in_brackets: bool) -> None:
        blank = Blank() if least is None else checked_blank(self.source, start, least, most)
        self._reader.lacuna(LeidenLacuna(blank, start, end, in_brackets))


def _dots(text: str) -> int:
    return sum(3 if dot[0] in "…⋯" else 1 for dot in re.findall(f"{_DOT}|{_RAISED}", text))
