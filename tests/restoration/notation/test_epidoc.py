"""EpiDoc: what is read, what is written, and that nothing else of a file changes. lxml checks, as another reader."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from blanklm.errors import NotationError
from blanklm.restoration.notation import Lacuna, Supplement, detect, epidoc, parse
from tests.support.paths import EDITIONS as FILES

SAMPLES = sorted(FILES.glob("*.xml"))
T = "{http://www.tei-c.org/ns/1.0}"


def hardened():
    return etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)


def read(document):
    """The parts of each passage: its letters, or the bounds of a lacuna."""
    return [
        [(part.blank.min, part.blank.max) if isinstance(part, Lacuna) else part.text for part in passage.parts]
        for passage in document.passages
    ]


def parts(piece):
    (passage,) = read(parse(piece, "epidoc"))
    return passage


# --- What is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gap", "bounds"),
    [
        ('<gap reason="lost" quantity="5" unit="character"/>', (5, 5)),
        ('<gap reason="lost" quantity="5"/>', (5, 5)),
        ('<gap reason="lost" quantity="5" unit="character" precision="low"/>', (4, 6)),
        ('<gap reason="lost" quantity="20" unit="character" precision="low"/>', (16, 24)),
        ('<gap reason="lost" quantity="1" unit="character" precision="low"/>', (1, 2)),
        ('<gap reason="lost" quantity="2.5" unit="character"/>', (2, 3)),
        ('<gap reason="lost" atLeast="2" atMost="7" unit="character"/>', (2, 7)),
        ('<gap reason="lost" atLeast="2" unit="character"/>', (2, None)),
        ('<gap reason="lost" atMost="7" unit="character"/>', (1, 7)),
        ('<gap reason="lost" extent="unknown" unit="character"/>', (1, None)),
        ('<gap reason="lost" extent="4" unit="character"/>', (4, 4)),
        ('<gap reason="lost"/>', (1, None)),
        ('<gap reason="illegible" quantity="3" unit="character"/>', (3, 3)),
        ('<gap reason="lost" quantity="3" unit="character"><certainty match=".."/></gap>', (3, 3)),
    ],
)
def test_the_length_of_a_gap(gap, bounds):
    assert parts(f"<ab>α{gap}β</ab>") == ["α", bounds, "β"]


@pytest.mark.parametrize(
    "gap",
    [
        '<gap reason="lost" quantity="3" unit="line"/>',
        '<gap reason="lost" extent="unknown" unit="line"/>',
        '<gap reason="ellipsis" quantity="3" unit="character"/>',
        '<gap reason="omitted" extent="unknown" unit="character"/>',
    ],
)
def test_lines_and_what_an_editor_left_out_are_no_gaps_to_restore(gap):
    assert parts(f"<ab>α{gap}β</ab>") == ["α β"]


@pytest.mark.parametrize(
    ("piece", "text"),
    [
        ('βου<lb n="2"/>λῆι', "βου λῆι"),
        ('βου\n   <lb n="2" break="no"/>\n  λῆι', "βουλῆι"),
        ('βου\n<lb n="2" type="inWord"/>λῆ<cb break="no"/>\n<lb break="no"/>ι', "βουλῆι"),
        ("<w>καὶ</w><w>τῶι</w>", "καὶ τῶι"),
        ("<choice><sic>α</sic><corr>β</corr></choice>", "β"),
        ("<choice>\n<corr>β</corr>\n<sic>α</sic>\n</choice>γ", "βγ"),
        ("<choice><unclear>α</unclear><unclear>β</unclear></choice>", "α"),
        ("<choice><abbr>στρ</abbr><expan>στρ<ex>ατηγός</ex></expan></choice>", "στρατηγός"),
        ("<app><lem>α</lem><rdg>β</rdg></app>", "α"),
        ("<app><rdg>α</rdg><rdg>β</rdg></app>", "α"),
        ("<subst><del>α</del><add>β</add></subst>", "β"),
        ('<del rend="erasure">α</del>', "α"),
        ("<supplied reason='lost'>α</supplied><supplied reason='omitted'>β</supplied>", "αβ"),
        ("α<supplied reason='subaudible'>β</supplied>", "α"),
        ("α<surplus>β</surplus><note>γ</note><g>δ</g><am>ε</am><orig>ζ</orig>", "αζ"),
        ("α<hi rend='x'>β</hi><unclear>γ</unclear><expan>δ<ex>ε</ex></expan>", "αβγδε"),
        ("α<space/>β<!-- γ --><?pi δ?>", "α β"),
        ("<l>α</l><l>β</l>", "α β"),
        ("&#945;<![CDATA[β]]>&amp;", "αβ&"),
        ('<x xmlns="urn:other">abc</x>α', "α"),
        ("α<gap reason='omitted'><gap/><hi>β</hi></gap>γ", "α γ"),
    ],
)
def test_the_text_that_a_model_reads(piece, text):
    assert "".join(parts(f"<ab>{piece}</ab>")) == text


def test_every_letter_remembers_its_place():
    for path in SAMPLES:
        document = parse(path.read_bytes())
        for passage in document.passages:
            for part in passage.parts:
                if isinstance(part, Lacuna):
                    assert re.match(r"<(t:)?gap\b[^<]*", document.source[part.start : part.end])
                    continue
                for letter, place in zip(part.text, part.places, strict=True):
                    there = document.source[place]
                    assert there == letter or there in "&<" or (letter == " " and there.isspace())


def test_a_whole_file_has_a_passage_for_each_part_of_its_edition():
    document = parse((FILES / "everything.xml").read_bytes())
    assert read(document) == [
        [
            "ἔδοξεν τῆι βουλῆι καὶ τῶι ",
            (5, 5),
            " ειπεν δ",
            (2, 4),
            "α τοῦ ται λ",
            (2, 4),
            " στρατηγός καὶ γδ ε",
            (2, 2),
            " ζη θ",
            (1, None),
            "ι ",
            "imp ",
            "τέλος",
        ],
        ["Imp", (6, 6), " Caesari"],
    ]
    assert [passage.language for passage in document.passages] == ["grc", "grc"]
    assert [part.foreign for part in document.passages[0].parts if not isinstance(part, Lacuna)][-3:] == [
        False,
        True,
        False,
    ]


def test_real_files_are_read():
    (stone,) = read(parse((FILES / "isicily.xml").read_bytes()))
    assert stone == ["E hic PE Clementinae sorori Flavii Maini senatoris infelici vixit annos III"]
    recto, verso = read(parse((FILES / "papyrus.xml").read_bytes()))
    assert recto[0].startswith("βασιλείας τοῦ θειοτάτου") and "ἐν τούτῳ τῷ ἐπιστάλματι" in recto[0]
    assert recto[1] == "di emu Paulu sumbolaeografu eteliothe"
    assert verso[1:] == [
        *[(4, 4), " ", (4, 4), "ω", (1, 1), (2, 2), "α", (2, 2), (1, 1), (2, 2), "μ", (1, 1), "λ", (1, 1)],
        " ἀπὸ τῆς νέας Ἰουστίνου πόλεως.",
    ]


def test_any_piece_can_be_pasted():
    assert parts('<lb n="1"/>α <gap reason="lost"/> β') == ["α ", (1, None), " β"]
    assert parts("<div><ab>α</ab></div>") == ["α"]
    assert parts("<tei:ab>α<tei:gap reason='lost'/></tei:ab>") == ["α", (1, None)]
    assert parts("<TEI><text><body><p>α</p></body></text></TEI>") == ["α"]
    assert parts("<?xml version='1.0'?><div type='edition' xml:lang='grc'><ab>α</ab></div>") == ["α"]


def test_the_notation_is_detected():
    assert {detect(path.read_bytes()) for path in SAMPLES} == {"epidoc"}
    assert detect("<gap reason='lost'/>") == detect("α<ex>β</ex>") == detect("<?xml version='1.0'?>".encode("utf-16"))
    assert detect("<ab> [...] | / >") == "leiden"


# --- What is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_an_unrestored_file_comes_back_byte_for_byte(path):
    document = parse(path.read_bytes())
    assert document.encoded(document.restored({})) == path.read_bytes()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_restored_file_differs_in_its_gaps_alone(path):
    """Another reader sees the tree as it was, with one <supplied> in the place of each gap."""
    document = parse(path.read_bytes())
    filled = {number: Supplement(f"xyz{number}", "low") for number in range(len(document.lacunae))}
    written = document.encoded(document.restored(filled))
    before, after = (etree.fromstring(data, hardened()) for data in (path.read_bytes(), written))
    restored = [e for e in after.iter("{*}supplied") if (e.text or "").startswith("xyz")]
    assert [element.text for element in restored] == [f"xyz{number}" for number in range(len(filled))]
    rest, pieces = 0, []
    for lacuna in document.lacunae:
        pieces.append(document.source[rest : lacuna.start])
        rest = lacuna.end
    pieces.append(document.source[rest:])
    assert (
        re.split(r"<(?:t:)?supplied reason=\"\w+\" cert=\"low\"[^>]*>xyz\d+</(?:t:)?supplied>", written.decode())
        == pieces
    )
    for element in restored:  # take the restorations out again, and put any gap there
        assert element.get("reason") in ("lost", "illegible") and element.get("cert") == "low"
        element.tag = element.tag.replace("supplied", "gap")
        element.text = None
    for tree in (before, after):
        for gap in tree.iter("{*}gap"):
            identifier = gap.get("{http://www.w3.org/XML/1998/namespace}id")
            tail = gap.tail
            gap.clear()
            gap.tail = tail
            if identifier:
                gap.set("id", identifier)
    assert etree.tostring(before, method="c14n") == etree.tostring(after, method="c14n")


def test_a_restoration_is_supplied_with_its_certainty():
    document = parse('<ab>α<gap reason="lost" quantity="3" unit="character"/>β</ab>')
    assert document.restored({0: Supplement("γδε", "medium")}) == (
        '<ab>α<supplied reason="lost" cert="medium">γδε</supplied>β</ab>'
    )
    assert document.restored({0: Supplement("γδε")}) == '<ab>α<supplied reason="lost">γδε</supplied>β</ab>'


def test_a_gap_that_is_restored_in_part_keeps_a_gap_for_the_rest():
    document = parse('<ab>α<gap reason="lost" quantity="5" unit="character" xml:id="g"/>β</ab>')
    assert document.restored({0: Supplement("γδ--ε", "low")}) == (
        '<ab>α<supplied reason="lost" cert="low" xml:id="g">γδ</supplied>'
        '<gap reason="lost" quantity="2" unit="character"/><supplied reason="lost" cert="low">ε</supplied>β</ab>'
    )
    again = parse(document.restored({0: Supplement("γδ--ε", "low")}))
    assert [(gap.blank.min, gap.blank.max) for gap in again.lacunae] == [(2, 2)]


def test_some_gaps_can_stay():
    document = parse('<ab><gap reason="lost" quantity="1"/>α<gap  reason="lost" quantity="1"/></ab>')
    assert document.restored({1: Supplement("β")}) == (
        '<ab><gap reason="lost" quantity="1"/>α<supplied reason="lost">β</supplied></ab>'
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-7", "windows-1253"])
def test_the_encoding_of_a_file_stays(encoding):
    declared = encoding.removesuffix("-sig")
    source = f'<?xml version="1.0" encoding="{declared}"?>\r\n<ab>αβ <gap reason="lost"/> γ</ab>'.encode(encoding)
    document = parse(source)
    assert document.encoded(document.restored({})) == source
    written = document.encoded(document.restored({0: Supplement("δεϛ")}))
    assert etree.fromstring(written).findtext("supplied") == "δεϛ"
    assert written.startswith(source[:30])


# --- What is refused --------------------------------------------------------------------------------------------------

LAUGHS = '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>\n<l>&b;</l>'
OUTSIDE = '<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<l>&x;</l>'
PARAMETER = '<!DOCTYPE l [<!ENTITY % p SYSTEM "http://127.0.0.1/x.dtd"> %p;]>\n<l/>'


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "line 1, column 1: the document is empty"),
        (" \n\t", "line 1, column 1: the document is empty"),
        ("<ab>\n <lb></ab>", "line 2, column 8: not well-formed XML: mismatched tag"),
        ("<ab>\nα & β</ab>", "line 2, column 4: not well-formed XML"),
        ("<ab>α<gap reason='lost' quantity='0' unit='character'/></ab>", "line 1, column 6: a gap holds at least one"),
        ("<ab>\n<gap quantity='-3'/></ab>", "line 2, column 1: a gap holds at least one"),
        ("<ab>α<gap quantity='5000'/></ab>", "line 1, column 6: a gap of 5,000 characters is too long: at most 1,000"),
        ("<ab>α<gap extent='5000' unit='character'/></ab>", "line 1, column 6: a gap of 5,000"),
        ("<ab>α<gap atLeast='5' atMost='2'/></ab>", "line 1, column 6: a gap of at least 5 and at most 2"),
        ("<ab><gap quantity='c. 13'/></ab>", "line 1, column 5: quantity='c. 13' of this gap is not a number"),
        ("<ab><gap quantity='1_0'/></ab>", "line 1, column 5: quantity='1_0' of this gap is not a number"),
        ("<ab><gap quantity='١٠'/></ab>", "line 1, column 5: quantity='١٠' of this gap is not a number"),
        ("<ab><gap quantity='inf'/></ab>", "line 1, column 5: quantity='inf' of this gap is not a number"),
        ("<ab><gap quantity='1e999'/></ab>", "line 1, column 5: quantity='1e999' of this gap is not a number"),
        (LAUGHS, "line 1, column 14: the document declares the entity a"),
        (OUTSIDE, "line 1, column 14: the document declares the entity x"),
        (PARAMETER, "line 1, column 14: the document declares the entity p"),
        ("<ab>α &nbsp; β</ab>", "line 1, column 7: not well-formed XML: undefined entity"),
        (
            '<!DOCTYPE TEI SYSTEM "http://127.0.0.1/x.dtd"><TEI><text><body>\n<p>&mdash;</p></body></text></TEI>',
            "line 2, column 4: the entity &mdash; is not declared",
        ),
        ("<a>" * 300 + "</a>" * 300, "line 1, column 766: more than 256 elements are nested"),
        ("<TEI><teiHeader>α</teiHeader></TEI>", "line 1, column 1: there is no text"),
        ("<ab>\ud800</ab>", "line 1, column 5: U+D800 is not a character"),
        ("<ab/></piece><piece>", "line 1, column 14: not well-formed XML: junk after document element"),
        (b"<ab>\xff</ab>", "line 1, column 5: these bytes are not utf-8"),
        (b'<?xml version="1.0" encoding="utf-7"?><ab/>', "line 1, column 1: the encoding utf-7 is not read"),
    ],
)
def test_whatever_is_wrong_is_said_in_one_line_with_its_place(source, message):
    with pytest.raises(NotationError, match=f"^{re.escape(message)}") as caught:
        parse(source, "epidoc")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"line {caught.value.line}, column {caught.value.column}: ")


def test_a_file_that_is_too_large_is_not_read(monkeypatch):
    monkeypatch.setattr(epidoc, "LONGEST_DOCUMENT", 10)
    with pytest.raises(NotationError, match="more than 10 characters"):
        parse("<ab>αβγδεζηθ</ab>", "epidoc")


# --- Whatever is written ----------------------------------------------------------------------------------------------

text = st.text(st.sampled_from("αβγ δ\n&<>\"'é𐅀\u0323"), max_size=8)
names = st.sampled_from(["ab", "w", "hi", "supplied", "choice", "app", "lem", "rdg", "div", "foreign", "note", "x"])
gaps = st.builds(
    lambda attributes: "<gap " + " ".join(f"{name}='{value}'" for name, value in attributes.items()) + "/>",
    st.fixed_dictionaries(
        {"reason": st.sampled_from(["lost", "illegible", "ellipsis"])},
        optional={
            "quantity": st.sampled_from(["1", "3", "10"]),
            "extent": st.sampled_from(["unknown", "4"]),
            "unit": st.sampled_from(["character", "line"]),
            "precision": st.just("low"),
        },
    ),
)
escaped = text.map(lambda t: t.replace("&", "&amp;").replace("<", "&lt;"))
pieces = st.recursive(
    st.one_of(
        escaped, gaps, st.sampled_from(["<lb/>", "<lb break='no'/>", "<!-- - -->", "<?p a>b?>", "<![CDATA[α]]>"])
    ),
    lambda inner: st.builds(lambda n, i: f"<{n}>{''.join(i)}</{n}>", names, st.lists(inner, max_size=4)),
    max_leaves=12,
)


@given(pieces, st.data())
def test_any_document_comes_back_and_what_is_restored_is_read_again(piece, data):
    source = f"<ab>{piece}</ab>"
    try:
        document = parse(source, "epidoc")
    except NotationError as error:
        assert "there is no text" in str(error)
        return
    assert document.restored({}) == source
    number = len(document.lacunae)
    chosen = data.draw(st.dictionaries(st.integers(0, max(0, number - 1)), st.text("αβ-", min_size=1), max_size=number))
    again = parse(document.restored({k: Supplement(v) for k, v in chosen.items() if k < number}), "epidoc")
    expected = sum(
        len([run for is_restored, run in Supplement(chosen[k]).runs() if not is_restored]) if k in chosen else 1
        for k in range(number)
    )
    assert len(again.lacunae) == expected


@given(st.one_of(st.text(st.sampled_from("<>/&;!?[]-='\" abgap\n\x00lbquantity0123456789"), max_size=60), st.binary()))
def test_anything_else_is_read_or_refused_in_one_line(source):
    try:
        document = parse(source, "epidoc")
    except NotationError as error:
        assert "\n" not in str(error) and re.match(r"line \d+, column \d+: ", str(error))
    else:
        assert document.restored({}) == document.source
