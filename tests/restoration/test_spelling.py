"""Restorations in the spelling of the text around them."""

import pytest

from blanklm.restoration.spelling import Spelling, accented_words


@pytest.mark.parametrize(
    ("fill", "before", "behind", "letters", "written"),
    [
        ("τοισ θεοισ", "ν", " ", "τοις", "τοις θεοις"),
        ("τοισ θεοισ", "ν", "τ", "τοις", "τοις θεοισ"),
        ("τοισ θεοισ", "ν", "-", "τοις", "τοις θεοισ"),  # another gap follows: the word may go on
        ("οσ", "", "", "θεοι", "ος"),
        ("σ", "ο", " ", "", "ς"),
        ("σ", " ", " ", "", "σ"),  # alone it is a numeral
        ("τοισ", "ν", " ", "τοισ θεοισ", "τοισ"),  # as this editor has it
        ("τοισ", "ν", " ", "τοιϲ", "τοιϲ"),
        ("τοισ", "ν", " ", "ΘΕΟΙΣ", "ΤΟΙΣ"),
        ("τοισ θεοισ", " ", " ", "τοῖς", "τοῖς θεοῖς"),
        ("τοισ θεοισ", " ", "ν", "τοῖς", "τοῖς θεοισ"),  # no word that is known
        ("ι τωι", "βουλῆι κα", " δήμωι", "βουλῆι δήμωι", "ὶ τῶι"),  # a word goes on before another
        ("αι", "κ", "", "τῶι", "αί"),  # and ends the text
        ("αι", "κ", ".", "τῶι", "αί"),
        ("αι", "κ", " τινες", "τῶι", "αὶ"),
        ("ωι", "δήμ", "", "δήμωι τῶι", "ωι"),
        ("ωι", "δῆμ", "", "δήμωι τῶι", "ωι"),  # what stands there does not agree: it stays as it is
        ("ω", "δήμ", "", "τῶι", "ω"),  # iota is not written below here
        ("ω", "δήμ", "", "τῷ δήμῳ", "ῳ"),
        ("αι", "-κ", " ", "τῶι", "αι"),  # another gap may be part of the word
        ("κα", " ", "-", "τῶι", "κα"),
        ("και", " ", " ", "τωι δημωι καὶ αυτωι", "και"),  # few words bear accents here
    ],
)
def test_a_greek_restoration_is_written_as_the_text_around_it(fill, before, behind, letters, written):
    assert Spelling.of(letters, "greek").write(fill, before, behind) == written


@pytest.mark.parametrize(
    ("fill", "before", "behind", "letters", "written"),
    [
        ("manibus", "S", " ", "DIS M", "MANIBUS"),
        ("manibus", "s", " ", "Dis", "manibus"),
        ("manibus", "DIS ", " ", "DIS SACRVM", "MANIBVS"),
        ("manibus vixit", "Dis ", " ", "Dis sacrvm", "manibvs vixit"),
        ("vixit", " ", " ", "uixit uotum", "uixit"),
        ("vixit manibus", " ", " ", "VIXIT UNUM", "VIXIT MANIBUS"),
        ("vixit manibus", " ", " ", "vixit sacrum", "vixit manibus"),
        ("ulius", "I", " ", "IVLIA", "VLIVS"),
        ("iulia maior", " ", " ", "jovi", "julia major"),
        ("iulia maior", " ", " ", "iovi", "iulia maior"),
        ("ulia", "j", " ", "jovi", "ulia"),
    ],
)
def test_a_latin_restoration_is_written_as_the_text_around_it(fill, before, behind, letters, written):
    assert Spelling.of(letters, "latin").write(fill, before, behind) == written


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("DIS MANIBVS SACRVM IVLIAE", "DIS MANIBUS SACRUM IULIAE"),
        ("IVVENTVTI SERVVS QVI VIXIT SILVA TVA", "IUVENTUTI SERVUS QUI VIXIT SILVA TUA"),
        ("uixit seruus iuuenis", "vixit servus iuvenis"),
        ("vixit annis unum", "vixit annis unum"),  # as the models have it: left alone
        ("SVAVIS DVVMVIR", "SUAVIS DUUMVIR"),
    ],
)
def test_the_models_read_u_and_v_apart(written, read):
    known = {"duumvir"}
    assert Spelling.of(written, "latin").read(written, known.__contains__) == read


def test_the_list_of_accents_is_what_the_models_read_and_as_long():
    words = accented_words()
    assert len(words) > 5000 and words["και"] == "καί" and words["τωι"] == "τῶι"
    assert all(len(word) == len(form) for word, form in words.items())
