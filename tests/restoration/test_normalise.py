"""Text as the models read it."""

import unicodedata

from blanklm.restoration.normalise import fold, normalise, normalise_with_positions


def test_accents_case_and_final_sigma_are_folded_and_places_are_kept():
    text = "Ἀγαθῆι τύχηι·  ὁ δῆμος,\nΑΘΗΝΑΙΩΝ"
    normalised, positions = normalise_with_positions(text)
    assert normalised == "αγαθηι τυχηι ο δημοσ αθηναιων"
    assert len(positions) == len(normalised) and positions == sorted(positions)
    for character, index in zip(normalised, positions, strict=True):
        assert character == " " or fold(text[index]) == character
    decomposed = unicodedata.normalize("NFD", text)
    assert normalise(decomposed) == normalised
    assert normalise("DIS Manibus, Jūlia — [x]") == "dis manibus iulia - x"
    assert normalise("ϲεβαϲτόϲ ϝ Ϙ") == "σεβαστοσ ϛ ϟ"
    assert normalise("α 15 β") == "α β"


def test_folding_keeps_every_character():
    assert fold("Ὑπὲρ τῆς") == "υπερ τησ" and fold("ᾳ,0") == "α,0"
