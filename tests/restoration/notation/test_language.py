"""Letters as editors write them and as models read them."""

import pytest

from blanklm.errors import BlankLMError, NotationError
from blanklm.restoration.notation import parse
from blanklm.restoration.notation.language import language_of, script


def test_the_script_of_a_letter():
    assert [script(letter) for letter in "αΏᾳϲϝΩµaÆﬁбא"] == [*["greek"] * 7, *["latin"] * 3, "cyrillic", "hebrew"]
    assert [script(sign) for sign in " .,·᾽ʹʼ1𐅀\u0323-#"] == [None] * 12


def language(source, asked=None):
    document = parse(source)
    return language_of(document.source, document.passages[0], asked)


def test_the_language_is_told_by_the_letters():
    assert language("τῶι δ[...]") == "greek"
    assert language("dis m[...]") == "latin"
    assert language("dis m[...]", "latin") == "latin"
    assert language('<ab xml:lang="grc"><gap reason="lost"/></ab>') == "greek"
    assert language('<ab xml:lang="la-Latn"><gap reason="lost"/></ab>') == "latin"
    assert language('<ab>αβ <foreign xml:lang="la">abcdef</foreign> <gap reason="lost"/></ab>') == "greek"


@pytest.mark.parametrize(
    ("source", "asked", "message"),
    [
        ("τῶι\nδήμoυ [...]", None, "line 2, column 4: the Latin letter 'o' (U+006F) in a Greek text"),
        ("fecit α [...]", None, "line 1, column 7: the Greek letter 'α' (U+03B1) in a Latin text"),
        ("fecit [...]", "greek", "line 1, column 1: the Latin letter 'f' (U+0066) in a Greek text"),
        ("אב [...]", None, "line 1, column 1: the Hebrew letter 'א' (U+05D0) in a Greek text"),
        ("12 [---]", None, "line 1, column 5: no letter to tell the language by: say which it is, greek or latin"),
        ("<ab>α<hi>b</hi> <gap reason='lost'/></ab>", None, "line 1, column 10: the Latin letter 'b'"),
    ],
)
def test_letters_of_another_script_are_refused_with_their_place(source, asked, message):
    with pytest.raises(NotationError) as caught:
        language(source, asked)
    assert str(caught.value).startswith(message)


def test_an_unknown_language_is_refused():
    with pytest.raises(BlankLMError, match="there is no language 'klingon': known are greek, latin"):
        language("α [...]", "klingon")
