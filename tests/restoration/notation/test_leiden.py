"""Leiden notation: what is read, what is written, what is refused."""

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blanklm.errors import NotationError
from blanklm.restoration.notation import Lacuna, Supplement, leiden, parse


def parts(source):
    (passage,) = parse(source, "leiden").passages
    return [(part.blank.min, part.blank.max) if isinstance(part, Lacuna) else part.text for part in passage.parts]


def restored(source, *texts):
    document = parse(source, "leiden")
    return document.restored({number: Supplement(text) for number, text in enumerate(texts)})


# --- Losses: what is written, its bounds, and the same restored -------------------------------------------------------

LOSSES = [
    ("[...]", (3, 3), "[abc]"),
    ("[. . .]", (3, 3), "[abc]"),
    ("[ . . . ]", (3, 3), "[abc]"),
    ("[.]", (1, 1), "[abc]"),
    ("[…]", (3, 3), "[abc]"),
    ("[ ̣ ̣]", (2, 2), "[abc]"),
    ("[. . 5 . .]", (5, 5), "[abc]"),
    ("[..5..]", (5, 5), "[abc]"),
    ("[.5]", (5, 5), "[abc]"),
    ("[- 5 -]", (5, 5), "[abc]"),
    ("[c. 5]", (4, 6), "[abc]"),
    ("[c.5]", (4, 6), "[abc]"),
    ("[ca. 7]", (6, 8), "[abc]"),
    ("[circa 20]", (16, 24), "[abc]"),
    ("[± 5]", (4, 6), "[abc]"),
    ("[- ca. 7 -]", (6, 8), "[abc]"),
    ("[--- c. 12 letters ---]", (10, 14), "[abc]"),
    ("[c. 1]", (1, 2), "[abc]"),
    ("[.5-7]", (5, 7), "[abc]"),
    ("[ -ca.5-7- ]", (5, 7), "[abc]"),
    ("[---]", (1, None), "[abc]"),
    ("[- - -]", (1, None), "[abc]"),
    ("[-]", (1, None), "[abc]"),
    ("[— — —]", (1, None), "[abc]"),
    ("[–]", (1, None), "[abc]"),
    ("[ -ca.?- ]", (1, None), "[abc]"),
    ("[.?]", (1, None), "[abc]"),
    ("[...?]", (3, 3), "[abc]"),
    ("[c. ?]", (1, None), "[abc]"),
    ("[.. ---]", (2, None), "[abc]"),
    ("[[...]]", (3, 3), "[[[abc]]]"),
    ("[[[...]]]", (3, 3), "[[[abc]]]"),
    ("[[---]]", (1, None), "[[[abc]]]"),
    ("[[- ca. 5 -]]", (4, 6), "[[[abc]]]"),
    ("⟦---⟧", (1, None), "⟦[abc]⟧"),
    ("[···]", (3, 3), "[abc]"),
    ("[˙ ˙ ˙]", (3, 3), "[abc]"),
    ("[⋯]", (3, 3), "[abc]"),
    ("[· · ⁵ · ·]", (5, 5), "[abc]"),
    ("...", (3, 3), "[abc]"),
    (". .", (2, 2), "[abc]"),
    ("+++", (3, 3), "[abc]"),
    ("+ +", (2, 2), "[abc]"),
]


@pytest.mark.parametrize(("written", "bounds", "expected"), LOSSES, ids=lambda value: str(value))
def test_a_loss_its_bounds_and_its_restoration(written, bounds, expected):
    source = f"τῶι {written} δήμωι"
    assert parts(source) == ["τῶι ", bounds, " δήμωι"]
    assert restored(source, "abc") == f"τῶι {expected} δήμωι"
    assert restored(source) == source


@pytest.mark.parametrize(
    ("source", "expected", "written"),
    [
        ("β[ουλῆι καὶ . . . δήμωι]", ["βουλῆι καὶ ", (3, 3), " δήμωι"], "β[ουλῆι καὶ abc δήμωι]"),
        ("δ[ή . .]ι", ["δή ", (2, 2), "ι"], "δ[ή abc]ι"),
        ("[αβ---]", ["αβ", (1, None)], "[αβabc]"),
        ("[... | ...] α", [(3, 3), " ", (3, 3), " α"], "[abc | ...] α"),
        ("[...\n...]α", [(3, 3), " ", (3, 3), "α"], "[abc\n...]α"),
        ("[...\n5 ...]α", [(3, 3), " ", (3, 3), "α"], "[abc\n5 ...]α"),
        ("[... |5 ...]α", [(3, 3), " ", (3, 3), "α"], "[abc |5 ...]α"),
        ("[... vac. ...]α", [(3, 3), " ", (3, 3), "α"], "[abc vac. ...]α"),
        ("[nunc c. 5 tum]", ["nunc ", (4, 6), " tum"], "[nunc abc tum]"),
        ("κα ̣ ̣ι", ["κα", (2, 2), "ι"], "κα[abc]ι"),
        ("[[α[..]β]]", ["α", (2, 2), "β"], "[[α[abc]β]]"),
    ],
)
def test_a_loss_among_what_an_editor_restored(source, expected, written):
    assert parts(source) == expected
    assert restored(source, "abc") == written


@pytest.mark.parametrize("source", ["[Dis · Manibus] votum", "[[abc. def]] votum", "[[ab- ]] votum"])
def test_a_mark_between_letters_is_no_loss(source):
    assert all(isinstance(part, str) for part in parts(source))


def test_a_loss_that_is_restored_in_part_keeps_dots():
    assert restored("[. . 5 . .]", "ab--c") == "[ab..c]"
    assert restored("+++", "a--") == "[a..]"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("δή[μωι] ἔδ̣ο̣ξεν", "δήμωι ἔδ̣ο̣ξεν"),
        ("Imp(eratori) Caes(ari) ((centuria))", "Imperatori Caesari centuria"),
        ("f<e>cit ⟨et⟩ ‹a› 〈b〉 <a=E>nno", "fecit et a b anno"),
        ("fecit {fecit} a", "fecit a"),
        ("[[Getae]] ⟦Getae⟧ [[[Getae]]]", "Getae Getae Getae"),
        ("vixit(!) an(nos) (sic) Aur(---) n(...) (?) a", "vixit annos Aur n a"),
        ("δή|μου | τοῦ|5δή|5 μου |10 τοῦ / καὶ // α || β", "δήμου τοῦδήμου τοῦ καὶ α β"),
        ("γραμ-\nματεύς γραμ-|ματεύς γραμ- / 5 ματεύς", "γραμματεύς γραμματεύς γραμματεύς"),
        ("1 θεοί\n  2 ἔδοξεν\n(3) τῆι\n4. βου\n5a λῆι", "θεοί ἔδοξεν τῆι βου λῆι"),
        ("α vac. β vacat γ (vac. 3) δ v ε vv. ζ (vac. ca. 2) η", "α β γ δ ε ζ η"),
        ("a v b", "a v b"),  # a numeral, in a Latin text
        ("α\n- - - - - -\nβ ---", "α β"),
        ("[Caesar ?] a [α(?)]", "Caesar a α"),
        ("a\u00a0 \t\r\n b", "a b"),
    ],
)
def test_the_text_that_a_model_reads(source, text):
    assert "".join(parts(source)) == text
    assert restored(source) == source


def test_every_letter_remembers_its_place():
    source = "1 ἔδοξεν | τῆι β[ουλῆι\n2 καὶ . . .] (τῶι) <δήμωι>"
    (passage,) = parse(source).passages
    for part in passage.parts:
        if isinstance(part, Lacuna):
            assert source[part.start : part.end] == ". . ."
        else:
            assert [
                source[place] if letter != " " else " " for letter, place in zip(part.text, part.places, strict=True)
            ] == list(part.text)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "line 1, column 1: the document is empty"),
        (" \n ", "line 1, column 1: the document is empty"),
        ("α\n β[γ", "line 2, column 3: this [ is never closed"),
        ("α\nβγ]", "line 2, column 3: this ] closes nothing"),
        ("[α(β]γ)", "line 1, column 5: ] where ) must close the ( that is open"),
        ("[α[β]γ]", "line 1, column 3: a [ within a [ that is still open"),
        ("[[α]", "line 1, column 4: ] where ]] must close the [[ that is open"),
        ("α {β", "line 1, column 3: this { is never closed"),
        ("α (β", "line 1, column 3: this ( is never closed"),
        ("α <β", "line 1, column 3: this < is never closed"),
        ("α <β=γ", "line 1, column 3: this < is never closed"),
        ("α}", "line 1, column 2: this } closes nothing"),
        ("α []", "line 1, column 3: these brackets are empty"),
        ("α [ ? ]", "line 1, column 3: these brackets are empty"),
        ("α [3] β", "line 1, column 4: 3 in brackets may mean so many letters or any number: write [. . 3 . .]"),
        ("α [12 βγ]", "line 1, column 4: 12 in brackets may mean so many letters"),
        ("α [. . 0 . .]", "line 1, column 4: a gap holds at least one character"),
        ("α [c. 0]", "line 1, column 4: a gap holds at least one character"),
        ("α [.7-5]", "line 1, column 4: a gap of at least 7 and at most 5"),
        ("α\n[. . 5000 . .]", "line 2, column 2: a gap of 5,000 characters is too long: at most 1,000"),
        ("[.99999999999999999999]", "line 1, column 2: a gap of 999,999,999 characters is too long"),
        (f"[{'.' * 1001}]", "line 1, column 2: a gap of 1,001 characters is too long"),
        ("[. 3 . 4 .]", "line 1, column 2: how many letters are lost here?"),
        ("---", "line 1, column 1: there is no text"),
        (b"\xce\xb1 \xff", "line 1, column 3: these bytes are not UTF-8"),
    ],
)
def test_whatever_is_wrong_is_said_in_one_line_with_its_place(source, message):
    with pytest.raises(NotationError, match=f"^{re.escape(message)}") as caught:
        parse(source, "leiden")
    assert "\n" not in str(caught.value)


def test_a_text_that_is_too_large_is_not_read(monkeypatch):
    monkeypatch.setattr(leiden, "LONGEST_DOCUMENT", 5)
    with pytest.raises(NotationError, match="more than 5 characters"):
        parse("αβγδεζ")


@pytest.mark.parametrize(
    "source",
    [
        "[α{}β]".replace("{}", " " * 100_000),
        "α" + "-" + " " * 100_000 + "β",
        "(" * 100_000,
        "(" + ". " * 50_000,
        "[" * 100_000,
        "[α]" * 30_000,
        "[.]" * 30_000,
        "[. " * 30_000,
        "<α=" * 30_000,
        "{" * 100_000,
        "vac. " * 20_000,
        "α+ " * 30_000,
        "1 " * 50_000,
        "|5 " * 30_000,
        "\n" * 100_000 + "α",
        "[. 5 " + "." * 100_000 + "]",
        "c. " * 30_000,
    ],
    ids=lambda source: source[:6],
)
def test_nothing_takes_long_to_read(source):
    """A reader that looked ahead from every character would take minutes for these."""
    started = time.process_time()
    with contextlib.suppress(NotationError):
        parse(source, "leiden")
    assert time.process_time() - started < 5


letters = st.text("αβγ", min_size=1, max_size=4)
losses = st.sampled_from([written for written, bounds, _ in LOSSES if bounds and written.startswith("[")])
words = st.recursive(
    st.one_of(letters, losses, st.sampled_from(["...", "| ", "/ ", " vac. ", "\n", " ", "(!)", "-\n"])),
    lambda inner: st.builds(
        lambda pair, i: pair[0] + "".join(i) + pair[1],
        st.sampled_from([("(", ")"), ("<", ">"), ("[[", "]]")]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=10,
)


@given(st.lists(words, min_size=1, max_size=6).map("".join), st.text("αβγ", min_size=1, max_size=5))
def test_any_text_comes_back_and_a_restored_text_has_no_loss(source, fill):
    try:
        document = parse(source, "leiden")
    except NotationError as error:
        assert "\n" not in str(error)
        return
    assert document.restored({}) == source
    written = document.restored({number: Supplement(fill) for number in range(len(document.lacunae))})
    try:
        again = parse(written, "leiden")
    except NotationError as error:
        raise AssertionError(f"{source!r} became {written!r}: {error}") from None
    assert again.lacunae == []
    (before,), (after,) = document.passages, again.passages
    assert "".join(part.text for part in after.parts) == "".join(
        fill if isinstance(part, Lacuna) else part.text for part in before.parts
    )


@given(
    st.one_of(
        st.text(st.sampled_from("[](){}<>=.-–…+|/c?± 05αa\n\u0323v"), max_size=40), st.text(max_size=30), st.binary()
    )
)
def test_anything_is_read_or_refused_in_one_line(source):
    try:
        document = parse(source, "leiden")
    except NotationError as error:
        assert "\n" not in str(error) and re.match(r"line \d+, column \d+: ", str(error))
    else:
        assert document.restored({}) == document.source
        ends = [0]
        for lacuna in document.lacunae:
            assert ends[-1] <= lacuna.start < lacuna.end
            ends.append(lacuna.end)


@pytest.mark.parametrize(
    ("text", "restored", "written"),
    [
        ("α[.]β", " ", "α[␣]β"),
        ("α[..]β", "  ", "α[␣␣]β"),
        ("α . . β", "γ ", "α [γ ] β"),
        ("α[...]β", " -γ", "α[␣.γ]β"),
        ("α[...]β", "- -", "α[.␣.]β"),
        ("α[...]β", "γ δ", "α[γ δ]β"),
    ],
)
def test_a_restored_space_can_be_read_again(text, restored, written):
    document = parse(text)
    out = document.restored({0: Supplement(restored)})
    assert out == written
    again = parse(out)
    assert sum(lacuna.blank.min for lacuna in again.lacunae) == restored.count("-")


@pytest.mark.parametrize("numeral", ["²", "٢", "₂", "२", "2"])
def test_a_number_between_dots_is_a_number_in_any_script(numeral):
    (lacuna,) = parse(f"α[. . {numeral} . .]β").lacunae
    assert (lacuna.blank.min, lacuna.blank.max) == (2, 2)
