"""Editions of any signs, in Leiden notation and EpiDoc: read or refused in one line, restored and read again.

BLANKLM_HOSTILE_SECONDS=3600 pytest tests/hostile/test_editions.py     an hour of each
"""

import time
from random import Random

import pytest

from blanklm.errors import BlankLMError, NotationError
from blanklm.restoration.notation import Document, Supplement, parse
from blanklm.restoration.notation.language import language_of

LEIDEN = [
    *"αβγ.-—–…[]()<>{}|/?!+12²٢₃=␣ \n\t", "[[", "]]", "⟦", "⟧", "[...]", "[. . 5 . .]", "[c. 3]", "[---]", "[.. ---]",
    "[- ca. 5 -]", "α\u0323", "vac.", "(vac. 3)", "(sic)", "\r\n", "\ufeff", "\u2028", "\x00", "\ud800", "🙂",
    "[ab...]", "<a=b>", "ca", "letters", "±", "λόγος ",
]  # fmt: skip
ATTRIBUTES = [
    'quantity="{}"', 'atLeast="{}"', 'atMost="{}"', 'extent="{}"', 'unit="character"', 'unit="line"', 'precision="low"',
    'reason="lost"', 'reason="omitted"', 'xml:id="g"', 'unknown="{}"',
]  # fmt: skip
NUMBERS = ["1", "3", "0", "-2", "2.5", "1e3", "1e999", "1_0", "١", "²", "nan", "inf", " 4 ", "", "unknown", "9" * 40]
TAGS = ["ab", "p", "lb", "supplied", "del", "choice", "sic", "corr", "app", "lem", "rdg", "note", "foreign", "w", "div"]
TEXT = [
    "αβγ",
    " ",
    "\n",
    "δ",
    "&amp;",
    "&#945;",
    "&#xD800;",
    "&nbsp;",
    "<!-- x -->",
    "<![CDATA[ε]]>",
    "<?x y?>",
    "-",
    "ζ ",
]
SUPPLEMENTS = ["α", "β", " ", "-", "-", "γδ"]


def any_leiden(random: Random) -> str:
    return "".join(random.choices(LEIDEN, k=random.randrange(1, 14)))


def any_gap(random: Random) -> str:
    names = random.sample(ATTRIBUTES, random.randrange(4))
    return "<gap " + " ".join(name.format(random.choice(NUMBERS)) for name in names) + "/>"


def any_epidoc(random: Random, deep: int = 3) -> str:
    parts = []
    for _ in range(random.randrange(1, 5)):
        kind = random.randrange(4)
        if kind == 0 and deep:
            tag = random.choice(TAGS)
            parts.append(f"<{tag}>{any_epidoc(random, deep - 1)}</{tag}>")
        else:
            parts.append(any_gap(random) if kind == 1 else random.choice(TEXT))
    return "".join(parts)


def outside(document: Document) -> list[str]:
    """The pieces of the source around its lacunae."""
    bounds = [0, *(place for lacuna in document.lacunae for place in (lacuna.start, lacuna.end)), len(document.source)]
    return [document.source[a:b] for a, b in zip(bounds[::2], bounds[1::2], strict=True)]


def any_supplement(random: Random, lacuna) -> Supplement:
    return Supplement("".join(random.choices(SUPPLEMENTS, k=min(lacuna.blank.min, 6))))


def check(source: str, notation: str, random: Random) -> bool:
    """Whether the source is an edition; if so, it can be restored, and what comes out is one too."""
    try:
        document = parse(source, notation)
    except NotationError as error:
        message = str(error)
        assert "\n" not in message and message.startswith(f"line {error.line}, column {error.column}: "), source
        assert error.line <= source.count("\n") + 1
        return False
    for passage in document.passages:
        try:
            language_of(document.source, passage)
        except BlankLMError as error:
            assert "\n" not in str(error)
    assert document.restored({}) == source
    chosen = {number: any_supplement(random, lacuna) for number, lacuna in enumerate(document.lacunae)}
    restored, place = document.restored(chosen), 0
    for piece in outside(document):
        place = restored.index(piece, place) + len(piece)
    again = parse(restored, notation)
    if document.lacunae:
        lost = sum(supplement.text.count("-") for supplement in chosen.values())
        assert sum(lacuna.blank.min for lacuna in again.lacunae) == lost, (source, restored)
    return True


@pytest.mark.parametrize(("generate", "notation"), [(any_leiden, "leiden"), (any_epidoc, "epidoc")])
def test_any_edition_is_refused_in_one_line_or_restored_and_read_again(generate, notation, seconds):
    random, end, editions = Random(25), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        source = generate(random)
        editions += check(f"<ab>α {source}</ab>" if notation == "epidoc" else f"α {source}", notation, random)
    assert editions > 20


def test_any_bytes_are_refused_in_one_line_or_come_back_as_they_were(seconds):
    random, end = Random(26), time.monotonic() + min(seconds, 2)
    while time.monotonic() < end:
        source = random.choice([any_leiden, any_epidoc])(random)
        encoding = random.choice(["utf-8", "utf-16", "latin-1", "utf-8-sig", "cp1253"])
        data = source.encode(encoding, "replace")
        place = random.randrange(len(data) + 1)
        data = data[:place] + random.choice([b"", b"\xff", b"\x00", b"\xed\xa0\x80"]) + data[place:]
        try:
            document = parse(data)
        except BlankLMError as error:
            assert "\n" not in str(error)
            continue
        assert document.encoded(document.restored({})) == data, data
