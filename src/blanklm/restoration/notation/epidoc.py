"""EpiDoc XML: ``<gap>`` in, ``<supplied>`` out, every other byte of the file as it was.

The file is read by expat (standard library) because it says at which byte each tag begins: a restoration replaces the
characters of one ``<gap>`` in the source, and no serialiser rewrites the rest. Nothing outside the file is ever
read: no DTD, no external entity; a file that declares entities is refused, so they cannot expand without limit.

What a model reads is the edited text: corrections, regularised spellings and expanded abbreviations, the lemma of an
apparatus entry, what an editor or a scribe supplied; not what stands in notes, in another reading, or is marked as
superfluous. An element that is not mentioned here is read through.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, isfinite, nan
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from blanklm.core.template import Blank
from blanklm.errors import NotationError
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

NAME = "epidoc"
LONGEST_DOCUMENT = 20_000_000  # characters
DEEPEST = 256  # nested elements

TEI = "http://www.tei-c.org/ns/1.0"
XML = "http://www.w3.org/XML/1998/namespace"
_TAG = re.compile(r"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_DECIMAL = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?\s*")  # as in XML
_PREFIX = re.compile(r"<([^\s:/>]+:)?")
_WHOLE = re.compile(r"<\?xml\s|<!DOCTYPE|<(?:[\w.-]+:)?(?:TEI|teiCorpus)\b")  # else a piece of a document
_DECLARED = re.compile(rb"""<\?xml[^>]*?\bencoding\s*=\s*["']([A-Za-z][\w.-]*)["']""")
_ENCODINGS = re.compile(r"utf-?8|us-ascii|ascii|iso-8859-\d+|latin-?1|windows-125\d|cp125\d", re.IGNORECASE)
_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}  # byte order marks

_WHOLE_NAMES = {"TEI", "TEI.2", "teiCorpus"}
_ELSEWHERE = {"teiHeader", "facsimile", "standOff", "sourceDoc", "front", "back"}  # of a whole document
_NOT_READ = {"note", "desc", "figDesc", "head", "label", "fw", "am", "surplus", "g", "certainty", "precision"}
_NOT_READ |= {"listApp", "bibl", "listBibl", "figure", "graphic"}
_PASSED_OVER = {"choice": {"sic", "orig", "abbr"}, "subst": {"del"}}  # for what stands beside them
_ONE_OF = {"choice", "app"}  # of what is left of their children, the first is read
_ONLY_ELEMENTS = {"choice", "app", "subst"}  # white space between their children is no white space of the text
_BREAKS, _IN_WORD = {"lb", "cb", "pb", "gb"}, {"worddiv", "inWord"}  # the latter as older files have it
_APART = _BREAKS | {"milestone", "space", "ab", "p", "lg", "l", "div", "item", "table", "row", "cell"}
_CHARACTERS = {"character", "characters", "char", "chars", "letter", "letters", "chara"}


@dataclass(frozen=True)
class GapElement(Lacuna):
    prefix: str  # namespace prefix of its tag in the source
    reason: str
    identifier: str | None  # its xml:id

    def written(self, supplement: Supplement) -> str:
        cert = f' cert="{supplement.certainty}"' if supplement.certainty else ""
        reason, named = quoteattr(self.reason), f" xml:id={quoteattr(self.identifier)}" if self.identifier else ""
        pieces = []
        for is_restored, run in supplement.runs():
            if is_restored:
                element = f"{self.prefix}supplied"
                pieces.append(f"<{element} reason={reason}{cert}{named}>{escape(run)}</{element}>")
            else:
                pieces.append(f'<{self.prefix}gap reason={reason} quantity="{len(run)}" unit="character"{named}/>')
            named = ""  # an identifier must be unique
        return "".join(pieces)


def parse(source: str | bytes) -> Document:
    """Read a whole document, or any well-formed piece of one.

    Of a whole document, each ``<div type="edition">`` is read, or the whole body if there is none. Each ``<div>`` is a
    separate passage.
    """
    text, encoded = (source, str.encode) if isinstance(source, str) else _decoded(source)
    check_source(text, LONGEST_DOCUMENT)
    return Document(text, NAME, tuple(_EpiDocParser(text).passages()), encoded)


def _decoded(source: bytes) -> tuple[str, Callable[[str], bytes]]:
    """Return the text of a file, and a function that encodes a text likewise, with references for what it cannot."""
    mark = next((mark for mark in _MARKS if source.startswith(mark)), b"")
    declared = _DECLARED.match(source[len(mark) : len(mark) + 200])
    encoding = _MARKS.get(mark) or (declared[1].decode() if declared else "utf-8")
    if not mark and not _ENCODINGS.fullmatch(encoding):
        raise NotationError(f"line 1, column 1: the encoding {encoding} is not read here: save it as UTF-8", 1, 1)
    text = decoded(source[len(mark) :], encoding)
    return text, lambda restored: mark + restored.encode(encoding, "xmlcharrefreplace")


@dataclass
class _Element:
    name: str  # without its namespace; empty for an element of another namespace
    is_read: bool
    is_edition: bool
    is_foreign: bool
    language: str | None
    is_restored: bool = False  # lost, and supplied by the editor
    has_read: bool = False  # one of its children


class _EpiDocParser:
    """Handle the events of expat, in the order of the source."""

    def __init__(self, source: str) -> None:
        self.source = source
        before, behind = ("", "") if _WHOLE.search(source) else (f'<piece xmlns:tei="{TEI}">', "</piece>")
        self._data = f"{before}{source}{behind}".encode()
        self._shift = len(before)
        self._bytes = self._characters = 0  # the last byte offset that was converted, and its character offset
        self._stack: list[_Element] = []
        self._gap: tuple[dict[str, str], int, int] | None = None  # the open one: attributes, offset, depth
        self._reader = PassageReader()
        self._read: list[tuple[bool, PassageReader]] = []  # whether it is in an edition, its reader

    def passages(self) -> list[Passage]:
        parser = expat.ParserCreate("utf-8", " ")
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._entity_declared
        parser.SkippedEntityHandler = self._entity_skipped
        self._parser = parser
        try:
            parser.Parse(self._data, True)
        except expat.ExpatError as error:
            message = expat.ErrorString(error.code)
            raise refusal(self.source, self._offset(parser.ErrorByteIndex), f"not well-formed XML: {message}") from None
        self._end_passage(False)
        any_edition = any(is_edition for is_edition, _ in self._read)
        passages = [reader.passage() for is_edition, reader in self._read if is_edition or not any_edition]
        passages = [passage for passage in passages if passage.parts]
        if not passages:
            raise refusal(self.source, 0, 'there is no text: neither in a <div type="edition"> nor elsewhere')
        return passages

    def _offset(self, byte: int) -> int:
        """Convert an offset in the data to one in the source; called in rising order, so that each is counted once."""
        self._characters += len(self._data[self._bytes : byte].decode("utf-8", "ignore"))
        self._bytes = byte
        return min(max(self._characters - self._shift, 0), len(self.source))

    def _here(self) -> int:
        return self._offset(self._parser.CurrentByteIndex)

    # --- Elements -----------------------------------------------------------------------------------------------

    def _start(self, qualified: str, attributes: dict[str, str]) -> None:
        offset = self._here()
        namespace, _, name = qualified.rpartition(" ")
        name = name if namespace in ("", TEI) else ""
        if len(self._stack) >= DEEPEST:
            raise refusal(self.source, offset, f"more than {DEEPEST} elements are nested")
        element = self._within(name, attributes)
        if name == "div":
            self._end_passage(bool(self._stack) and self._stack[-1].is_edition)
            self._reader.language = element.language
        self._stack.append(element)
        if not element.is_read:
            return
        if self._reader.language is None:
            self._reader.language = element.language
        if name in _BREAKS and (attributes.get("break") == "no" or attributes.get("type") in _IN_WORD):
            self._reader.join()
        elif name in _APART:
            self._reader.space(offset)
        elif name == "gap":
            self._gap = attributes, offset, len(self._stack)
            element.is_read = False  # what stands in it describes it

    def _within(self, name: str, attributes: dict[str, str]) -> _Element:
        """Return what an element is, given those that it is in."""
        language = attributes.get(f"{XML} lang") or attributes.get("lang")
        around = self._stack[-1] if self._stack else _Element("", name not in _WHOLE_NAMES, False, False, None)
        is_read, is_edition = around.is_read, around.is_edition
        if name == "text" and around.name in _WHOLE_NAMES:
            is_read = True
        kind = attributes.get("type", "textpart") if name == "div" else ""
        if kind == "edition":
            is_edition = True
        elif kind not in ("", "textpart"):
            is_read = is_edition = False
        if name in _NOT_READ or name == "" or name in _ELSEWHERE:
            is_read = False
        if name == "gap" and around.name in _ONLY_ELEMENTS:  # TEI has no gap there
            is_read = False
        if name == "supplied" and attributes.get("reason") == "subaudible":
            is_read = False
        if name in _PASSED_OVER.get(around.name, ()) or (around.name in _ONE_OF and around.has_read):
            is_read = False
        elif around.name in _ONE_OF and is_read:
            around.has_read = True
        is_foreign = around.is_foreign or name == "foreign"
        is_restored = around.is_restored or (name == "supplied" and attributes.get("reason", "lost") == "lost")
        return _Element(name, is_read, is_edition, is_foreign, language or around.language, is_restored)

    def _end(self, qualified: str) -> None:
        offset = self._here()
        element = self._stack.pop()
        if self._gap is not None and len(self._stack) == self._gap[2] - 1:
            (attributes, start, _), self._gap = self._gap, None
            end = self._tag_end(start)
            if not self.source.endswith("/>", start, end):
                end = self._tag_end(offset)
            self._add_gap(attributes, start, end, element.is_foreign)
            return
        if element.name == "div":
            self._end_passage(element.is_edition)
        elif element.is_read and (element.name in _APART - _BREAKS or element.name == "w"):
            self._reader.space(offset)

    def _tag_end(self, start: int) -> int:
        tag = _TAG.match(self.source, start)
        assert tag is not None  # expat has read a tag there
        return tag.end()

    def _text(self, text: str) -> None:
        element = self._stack[-1]
        if element.is_read and element.name not in _ONLY_ELEMENTS:
            self._reader.letters(text, self._here(), element.is_foreign, element.is_restored)

    def _end_passage(self, is_edition: bool) -> None:
        language = self._stack[-1].language if self._stack else None
        self._read.append((is_edition, self._reader))
        self._reader = PassageReader(language)

    # --- Gaps ---------------------------------------------------------------------------------------------------

    def _add_gap(self, attributes: dict[str, str], start: int, end: int, is_foreign: bool) -> None:
        blank = self._blank(attributes, start)
        reason = attributes.get("reason", "lost")
        if blank is None or is_foreign or reason not in ("lost", "illegible"):
            self._reader.space(start)  # lost lines, or what the editor omitted: it stays as it is
            return
        prefix = _PREFIX.match(self.source, start)
        name = prefix[1] if prefix and prefix[1] else ""
        self._reader.lacuna(GapElement(blank, start, end, name, reason, attributes.get(f"{XML} id")))

    def _blank(self, attributes: dict[str, str], start: int) -> Blank | None:
        """Return the length of a gap; None if it is not counted in characters."""
        if attributes.get("unit", "character").lower() not in _CHARACTERS:
            return None
        extent = attributes.get("extent", "")
        if re.fullmatch(r"-?[0-9]+", extent):  # as older files have it
            attributes = {"quantity": extent, **attributes}
        quantity, least, most = (self._number(attributes, name, start) for name in ("quantity", "atLeast", "atMost"))
        if least is not None or most is not None:
            bounds = ceil(least) if least is not None else 1, floor(most) if most is not None else None
            return checked_blank(self.source, start, *bounds)
        if quantity is None:
            return Blank()
        blank = checked_blank(self.source, start, floor(quantity), ceil(quantity))
        if attributes.get("precision") == "low":
            return checked_blank(self.source, start, *about(ceil(quantity)))
        return blank

    def _number(self, attributes: dict[str, str], name: str, start: int) -> float | None:
        if name not in attributes:
            return None
        value = float(attributes[name]) if _DECIMAL.fullmatch(attributes[name]) else nan
        if not isfinite(value):
            raise refusal(self.source, start, f"{name}={attributes[name]!r} of this gap is not a number")
        return value

    # --- Entities -----------------------------------------------------------------------------------------------

    def _entity_declared(self, name: str, *declaration: object) -> NoReturn:
        message = f"the document declares the entity {name}: files that declare entities are not read"
        raise refusal(self.source, max(0, self.source.rfind("<!ENTITY", 0, self._here())), message)

    def _entity_skipped(self, name: str, is_parameter: bool) -> None:
        if not is_parameter and self._stack and self._stack[-1].is_read:
            message = f"the entity &{name}; is not declared in this file, and no DTD is read: write the character"
            raise refusal(self.source, self._here(), message)
