"""Editions: what the model is given to read, what is written, and what is said of each lacuna."""

import math

import pytest

from blanklm.core.template import Blank
from blanklm.errors import BlankLMError, NotationError
from blanklm.restoration.candidates import Candidate, GapRestoration, Restoration
from blanklm.restoration.edition import restore, restore_document
from blanklm.restoration.notation import parse
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.parallels import Parallels
from blanklm.restoration.passages import certainty
from blanklm.restoration.records import Parallel
from blanklm.restoration.restorer import Restorer
from tests.support.models import make_restorer


class Scripted(Restorer):
    """Restores as it is told: for each gap in turn {text: probability}."""

    def __init__(self, *answers, abstains=()):
        random = make_restorer()
        super().__init__(random.model, random.tokenizer, {"language": "greek"})
        self.answers, self.abstains, self.read = answers, abstains, []

    def restore(self, parts, options, progress, ready):
        self.read.append([(part.min, part.max) if isinstance(part, Blank) else part for part in parts])
        gaps = []
        for number, answer in enumerate(self.answers[: sum(isinstance(part, Blank) for part in parts)]):
            candidates = tuple(Candidate(text, math.log(p)) for text, p in answer.items())
            places = tuple({character: 0.25 * (i + 1)} for i, character in enumerate(candidates[0].text))
            reason = "it does not know" if number in self.abstains else None
            gaps.append(GapRestoration(candidates, places, {len(candidates[0].text): 1.0}, reason))
            ready(number, gaps[-1])
            progress(1)
        return Restoration.of(gaps, 1)


def edition_of(source, restorer, **options):
    return restore(source, model=restorer, **{"parallels": 0, **options})


def test_the_best_restoration_is_written_in_the_notation_of_the_text():
    told = Scripted({"ι τωι": 0.93, "ι των": 0.05})
    assert edition_of("τῆι βουλῆι κα[. . 5 . .] δήμωι", told).text == "τῆι βουλῆι κα[ὶ τῶι] δήμωι"
    assert told.read == [["τῆι βουλῆι κα", (5, 5), " δήμωι"]]
    gap = '<gap reason="lost" quantity="5" unit="character"/>'
    written = edition_of(f"<ab>κα{gap} δήμωι</ab>", told).text
    assert written == '<ab>κα<supplied reason="lost" cert="high">ὶ τῶι</supplied> δήμωι</ab>'


def test_known_approximate_and_unknown_lengths_stand_side_by_side():
    told = Scripted({"αβγ": 0.9}, {"δ": 0.6}, {"ε ζ": 0.1})
    edition = edition_of("ω[...]ψ [c. 2] χ [---]", told)
    assert told.read == [["ω", (3, 3), "ψ ", (1, 3), " χ ", (1, None)]]
    assert edition.text == "ω[αβγ]ψ [δ] χ [ε ζ]"
    assert edition.passages[0].hypotheses[0].restorations == ["αβγ", "δ", "ε ζ"]
    assert [gap["restorations"][0]["certainty"] for gap in edition.to_json()["gaps"]] == ["high", "medium", "low"]


def test_another_candidate_can_be_chosen():
    edition = edition_of("α[..]β[..]", Scripted({"γδ": 0.9, "εζ": 0.1}, {"ηθ": 0.9}, abstains=[1]))
    assert edition.text == "α[γδ]β[..]"
    assert edition.written({0: 1}) == "α[εζ]β[..]"
    assert edition.written({1: 0}) == "α[γδ]β[ηθ]"  # also where the model abstained


def test_characters_that_are_not_sure_stay_lost():
    told = Scripted({"γδε": 0.9})  # confidence 0.25, 0.5, 0.75
    assert edition_of("α[...]", told, min_confidence=0.5).text == "α[.δε]"
    assert edition_of("α[...]", told, sure=0.6).text == "α[..ε]"
    assert edition_of('<ab>α<gap reason="lost" quantity="3"/></ab>', told, sure=0.6).text == (
        '<ab>α<gap reason="lost" quantity="2" unit="character"/><supplied reason="lost" cert="high">ε</supplied></ab>'
    )
    with pytest.raises(BlankLMError, match="min_confidence must be at most 1, not 2"):
        edition_of("α[...]", told, sure=2)


def test_restorations_look_like_the_text_around_them():
    told = Scripted({"οσ": 0.9, "ου": 0.1})
    assert edition_of("τοῖς θε[..] ἔδοξεν", told).text == "τοῖς θε[ὸς] ἔδοξεν"
    assert edition_of("τοις θε[..] εδοξεν", told).text == "τοις θε[ος] εδοξεν"
    assert edition_of("τοις θε[..][..]", Scripted({"οστα": 0.9})).text == "τοις θε[οσ][τα]"
    assert edition_of("ΘΕ[..]", told).text == "ΘΕ[ΟΣ]"


def test_a_passage_of_each_language_has_its_own_model():
    restorers = {"greek": Scripted({"α": 0.9}), "latin": make_restorer("abcdefghijklmnopqrstuvwxyz ")}
    gap = '<gap reason="lost" quantity="1" unit="character"/>'
    source = f"<div><div><ab>κ{gap}ι</ab></div><div><ab>e{gap}</ab></div><div><ab>no gap but β</ab></div></div>"
    edition = restore_document(parse(source), restorers, RestoreOptions(abstain_below=0, parallels=0))
    assert [passage.language for passage in edition.passages] == ["greek", "latin"]
    assert [passage.gaps for passage in edition.passages] == [[1], [2]]
    assert edition.text.startswith('<div><div><ab>κ<supplied reason="lost" cert="high">α</supplied>ι</ab>')


def test_what_is_marked_as_foreign_is_not_read_and_not_refused():
    told = Scripted({"β": 0.9})
    assert edition_of('<ab>α <foreign xml:lang="la">imp</foreign> <gap reason="lost" quantity="1"/></ab>', told).text
    assert told.read == [["α ", " ", (1, 1)]] or told.read == [["α ", (1, 1)]]


def test_gaps_that_touch_stay_where_it_is_not_known_where_one_ends():
    told = Scripted({"αβγ": 0.9}, {"δ": 0.9})
    edition = edition_of("ω[c. 5][c. 5]ψ [.]", told)
    assert edition.text == "ω[c. 5][c. 5]ψ [δ]"
    assert [restored.reason is None for restored in edition.lacunae] == [False, False, True]
    assert "touches another gap" in edition.lacunae[0].reason


@pytest.mark.parametrize(
    ("touching", "read", "restored"),
    [
        ("[..][.]", (3, 3), "[αβ][ γ]"),
        ("[---][..]", (3, None), "[α][β γ]"),
        ("[.][---]", (2, None), "[α][β γ]"),
        ("[.][.-2][.]", (3, 4), "[α][β ][γ]"),
    ],
)
def test_gaps_that_touch_are_restored_as_one_and_cut(touching, read, restored):
    touching = touching.replace("[.-2]", "[.1-2]")
    told = Scripted({"αβ γ": 0.6, "αγ β": 0.3})
    edition = edition_of(f"ω{touching}ψ", told)
    assert told.read == [["ω", read, "ψ"]] and edition.text == f"ω{restored}ψ"
    first = edition.lacunae[0].candidates[0]
    assert first.probability == pytest.approx(0.9 if first.text == "α" else 0.6)
    (passage,) = edition.passages
    assert ["".join(h.restorations) for h in passage.hypotheses] == ["αβ γ"]


def test_gaps_that_stand_side_by_side_in_epidoc_are_restored_as_one():
    told = Scripted({"αβγ": 0.9})
    source = '<ab>ω<gap reason="lost" extent="unknown"/><gap reason="illegible" quantity="2"/>ψ</ab>'
    assert edition_of(source, told).text == '<ab>ω<supplied reason="lost" cert="high">αβγ</supplied>ψ</ab>'
    assert told.read == [["ω", (3, None), "ψ"]]


def test_everything_is_said_in_json(monkeypatch):
    calls = []

    class OneParallel:
        def __init__(self, language):
            self.language = language

        def find(self, *arguments):
            calls.append((self.language, *arguments))
            return [Parallel("και τωι", 3, ("HD1",), "α", "β")]

    monkeypatch.setattr(Parallels, "of", OneParallel)
    edition = edition_of("α\n κα[. .] τῶι", Scripted({"ι ": 0.5, "σ ": 0.25}), parallels=2)
    (gap,) = edition.to_json()["gaps"]
    assert (gap["gap"], gap["line"], gap["column"], gap["written"]) == (1, 2, 5, ". .")
    assert "α\n κα[. .] τῶι"[gap["start"] : gap["end"]] == ". ." and edition.passages[0].parts == ["α κα", 1, " τῶι"]
    assert (gap["min"], gap["max"], gap["abstained"], gap["reason"]) == (2, 2, False, None)
    assert gap["restorations"] == [
        {"text": "ὶ ", "probability": 0.5, "certainty": "medium", "written": "ὶ ", "formula": None},
        {"text": "ς ", "probability": 0.25, "certainty": "low", "written": "ς ", "formula": None},
    ]
    assert gap["confidence"] == [0.25, 0.5] and gap["places"] == [{"ι": 0.25}, {" ": 0.5}]
    assert gap["lengths"] == {"2": 1.0} and (gap["before"], gap["behind"]) == ("α κα", " τῶι")
    assert gap["parallels"] == [{"words": "και τωι", "texts": 3, "examples": ["HD1"], "before": "α", "behind": "β"}]
    assert calls == [("greek", "α κα", "ι ", " τῶι", 2)]


def test_a_real_model_keeps_every_length_and_everything_else():
    source = "ἔδοξεν τῆι βουλῆι κα[. . . .] δήμ[c. 5] τοῦ [---] | α[βγ] <δ> {ε}"
    edition = restore(source, model=make_restorer(), top=3, abstain_below=0, parallels=0)
    spans = [restored.candidates[0].text for restored in edition.lacunae]
    letters = [sum(character.isalpha() for character in span) for span in spans]
    assert letters[0] == 4 and 4 <= letters[1] <= 6 and len(spans[2]) >= 1
    expected = "ἔδοξεν τῆι βουλῆι κα[{}] δήμ[{}] τοῦ [{}] | α[βγ] <δ> {{ε}}".format(
        *(span.replace(" ", "␣") if span.isspace() else span for span in spans)  # where spaces alone are restored
    )
    assert edition.text == expected
    for restored in edition.lacunae:
        assert len(restored.candidates) <= 3 and len(restored.confidence) == len(restored.candidates[0].text)
        assert math.isclose(sum(restored.lengths.values()), 1, abs_tol=0.05)


def test_certainty_in_words():
    assert [certainty(p) for p in (1.0, 0.9, 0.89, 0.5, 0.49, 0.0)] == [
        "high",
        "high",
        "medium",
        "medium",
        "low",
        "low",
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("ἔδοξεν", r"there is no gap to restore in this text: write \[...\]"),
        ("<ab>ἔδοξεν</ab>", "there is no gap to restore in this text: mark it as <gap"),
        ("δήμoυ [...]", "line 1, column 4: the Latin letter 'o'"),
        ("[...]", "line 1, column 2: no letter to tell the language by"),
        ("ⲁ [...]", "line 1, column 1: the Coptic letter"),
    ],
)
def test_what_cannot_be_restored_is_said(source, message):
    with pytest.raises(BlankLMError, match=message):
        restore(source, model=make_restorer(), parallels=0)


def test_a_letter_that_the_model_lacks_is_refused_with_its_place():
    with pytest.raises(NotationError, match="line 1, column 3: the model does not know the letter 'ψ'"):
        restore("αβψ [...]", model=make_restorer("αβ .-#"), parallels=0)


def test_a_language_without_a_model_is_refused(monkeypatch):
    monkeypatch.setattr("blanklm.pretrained.bundled", lambda: ["english"])
    with pytest.raises(BlankLMError, match="no model for Greek is bundled: name one"):
        restore("α [...]")
