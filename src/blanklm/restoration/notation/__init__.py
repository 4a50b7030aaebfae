"""Damaged texts as scholars write them: Leiden notation and EpiDoc in, the same notation out. Standard library only.

``parse(source)`` reads either into a ``Document``; ``document.restored({0: Supplement("abc")})`` is its source with
the first lacuna restored and everything else untouched.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from blanklm.errors import BlankLMError
from blanklm.restoration.notation import epidoc, leiden
from blanklm.restoration.notation.document import Document, Lacuna, Letters, Passage, Supplement, position

__all__ = ["NOTATIONS", "Document", "Lacuna", "Letters", "Passage", "Supplement", "detect", "parse", "position"]

NOTATIONS: dict[str, Callable[[str | bytes], Document]] = {leiden.NAME: leiden.parse, epidoc.NAME: epidoc.parse}
_XML = re.compile(r"<\?xml|<!DOCTYPE|<!--|</[A-Za-z]|<[A-Za-z][^<>]*/>")  # none of which is Leiden


def detect(source: str | bytes) -> str:
    """``epidoc`` if there is any XML tag that closes, else ``leiden``: ``<ab>`` alone may be letters left out."""
    if isinstance(source, bytes):
        is_wide = source.startswith((b"\xff\xfe", b"\xfe\xff"))
        source = source.decode("utf-16" if is_wide else "latin-1", "replace")
    return epidoc.NAME if _XML.search(source) else leiden.NAME


def parse(source: str | bytes, notation: str | None = None) -> Document:
    """Read a document; the notation is detected where it is not named. NotationError says what is wrong and where."""
    notation = notation or detect(source)
    if notation not in NOTATIONS:
        raise BlankLMError(f"there is no notation {notation!r}: known are {', '.join(NOTATIONS)}")
    return NOTATIONS[notation](source)
