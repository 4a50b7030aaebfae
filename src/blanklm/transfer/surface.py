"""Realise the surface of English text: turn tokens ("do n't", "a awful") into print ("don't", "an awful")."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from blanklm.core.tokenizer import Tokenizer
from blanklm.data.masking import MaskedText

_JOINED = re.compile(r" (?=(?:n['’]t|['’](?:s|ve|m|ll|re|d))\b|[.,:;!?)](?!\w))|(?<=\() ")  # spaces not in print
_ARTICLE = re.compile(r"\b[Aa]n?(?= $)")
_TAKES_NOT = re.compile(
    r"do|does|did|is|are|was|were|ca|wo|could|would|should|has|have|had|might|must|need|ai", re.IGNORECASE
)
_NEGATIONS = ("n't", "n’t")
_FULL_FORM = {"ca": "can", "wo": "will"}  # of verbs that are cut short before n't
_TAKES_AN = re.compile(r"(?!one\b|once\b|un[ai]|us[eu]|eu)[aeiou]|hour|hono|honest", re.IGNORECASE)


def is_tokenised(text: str, tokenizer: Tokenizer) -> bool:
    """Tell whether a text looks like a research corpus: lower case, a space between all words and punctuation marks."""
    return text == text.lower() and text.split() == [text[a:b] for a, b in tokenizer.places(text)]


def is_print(text: str, tokenizer: Tokenizer) -> bool:
    """Tell whether rewrites of a text are to be put into print; text without any token to join counts as print."""
    return not (is_tokenised(text, tokenizer) and _JOINED.search(text))


def interleave(pieces: Sequence[str], spans: Sequence[str]) -> tuple[str, ...]:
    """Return pieces and spans alternately."""
    return (pieces[0], *chain.from_iterable(zip(spans, pieces[1:], strict=True)))


def to_print(mask: MaskedText, spans: Sequence[str]) -> tuple[str, ...]:
    """Interleave pieces and spans as in print; a span gets the capitals of the words that it replaces."""
    pieces = list(mask.template.pieces)
    written: list[str] = []
    for k, (old, span) in enumerate(zip(mask.spans, spans, strict=True)):
        joined = _JOINED.sub("", " " + re.sub(r"\bi\b", "I", _expand(span, pieces[k])))
        new = joined.removeprefix(" ")
        if len(old) > 1 and old.isupper():
            new = new.upper()
        elif old[:1].isupper() and not "".join((*pieces[: k + 1], *written)).strip():
            new = new[:1].upper() + new[1:]
        if new == joined:  # a punctuation mark or an 's belongs to the word before
            pieces[k] = pieces[k].rstrip()
        elif pieces[k][-1:].isalnum():  # a word that replaces an 's needs a space
            pieces[k] += " "
        if new[:1].isalpha() and (article := _ARTICLE.search(pieces[k])):
            written_article = article[0][0] + ("n" if _TAKES_AN.match(new) else "")  # with its capital
            pieces[k] = pieces[k][: article.start()] + written_article + pieces[k][article.end() :]
        written.append(new)
    return interleave(pieces, written)


def _expand(span: str, before: str) -> str:
    """Write "not" for an "n't" after a word that does not take it, "can" and "will" for "ca" and "wo" without one."""
    words = span.split()
    for i, word in enumerate(words):
        host = words[i - 1] if i else (before.split() or [""])[-1]
        if word in _NEGATIONS and not _TAKES_NOT.fullmatch(host):
            words[i] = "not"
    for i, word in enumerate(words):
        if word in _FULL_FORM and words[i + 1 : i + 2] not in [[negation] for negation in _NEGATIONS]:
            words[i] = _FULL_FORM[word]
    return " ".join(words)
