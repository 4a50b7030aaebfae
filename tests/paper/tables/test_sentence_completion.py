"""Sentence completion from scratch: what is trained on, and how paragraphs are cut."""

import pytest

from blanklm.paper.tables import sentence_completion
from blanklm.paper.tables.sentence_completion import HELD_OUT_EVERY, OF_FEW, paragraphs, pieces_of


@pytest.fixture
def novels(tmp_path, monkeypatch):
    lines = [f"Paragraph {number} of the novels. It has a second sentence." for number in range(3 * HELD_OUT_EVERY)]
    for part in range(3):
        path = tmp_path / "sentence_completion" / f"train.{part}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines[part::3]))
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path))
    paragraphs.cache_clear()
    yield set(lines)
    paragraphs.cache_clear()


def test_held_out_paragraphs_are_not_trained_on(novels):
    train, held_out = paragraphs()
    assert len(held_out) == 3 and not set(train) & set(held_out) and {*train, *held_out} == novels
    few, held_out = paragraphs(2 * OF_FEW)
    assert len(held_out) == 2 and len(few) == 2 * OF_FEW - 2 and not set(few) & set(held_out)


def test_long_paragraphs_are_cut_between_sentences_and_nothing_is_lost():
    sentences = [f'"Sentence {number} has eight words in all, sir."' for number in range(20)]
    pieces = pieces_of(" ".join(sentences))
    assert " ".join(pieces) == " ".join(sentences)
    assert all(30 <= len(piece.split()) < 60 for piece in pieces[:-1]) and len(pieces) == 5
    assert pieces_of("No end here") == ["No end here"]


def test_the_questions_are_not_trained_on():
    assert all(part.startswith("train.") for part in sentence_completion.PARTS)
