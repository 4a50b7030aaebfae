"""What is measured of an English model, on a few lines and the small model."""

import json

from blanklm.paper.tables import english
from blanklm.paper.tasks.spans import KINDS

LINES = [
    "She opened the door of the old house and went out into the cold garden. Nobody was there. It was late.",
    "The train to the city was late again, so we had to wait at the station for more than an hour.",
]


def test_both_kinds_of_blanks_are_measured(tmp_path, monkeypatch):
    (tmp_path / "english").mkdir()
    (tmp_path / "english" / "valid.txt").write_text("\n".join(LINES), encoding="utf-8")
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path))
    monkeypatch.setattr(english, "EVERY", 1)
    monkeypatch.setattr(english, "RATIOS", (0.3,))
    row = json.loads(json.dumps(english.measure("english-small", None, "cpu")))
    assert set(row["words"]) == set(english.DECODINGS)
    assert row["words"]["one word at a time"]["0.3"]["texts"] == 2
    assert {str(kind) for kind in KINDS} >= set(row["spans"]) and row["spans"]["2"]["written"] >= 1
    assert "words" not in english.measure("english-small", None, "cpu", ways=())
    words = english.measure("english-small", None, "cpu", ["all blanks at once"], spans=False)
    low, high = words["words"]["all blanks at once"]["0.3"]["bleu_interval"]
    assert "spans" not in words and list(words["words"]) == ["all blanks at once"] and low <= high
