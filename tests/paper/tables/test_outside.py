"""BLiMP and the middles of stories as commands, on a few made-up items; a word model stands for the bundled ones."""

import json

import pytest

from blanklm.paper.tables import blimp, middles
from tests.support.paths import YELP_WORDS

PAIRS = [("the food was good .", "the good was food ."), ("i love this place .", "i this love place .")]
STORY = "the food was good. we loved it. the place is great. i will be back. it was amazing."


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    root = tmp_path / "data"
    for folder in ("blimp", "anlg", "rocstories"):
        (root / folder).mkdir(parents=True)
    records = [
        {"uid": f"paradigm_{kind}", "term": "order", "good": good, "bad": bad}
        for kind in range(2)
        for good, bad in PAIRS * 5
    ]
    (root / "blimp" / "blimp.jsonl").write_text("\n".join(map(json.dumps, records)))
    item = {
        "obs1": "the food was good .",
        "obs2": "i will be back .",
        "references": ["we loved it .", "it was great ."],
    }
    (root / "anlg" / "test.jsonl").write_text("\n".join([json.dumps(item)] * 4))
    (root / "rocstories" / "natural.txt").write_text("\n".join([STORY, STORY, "only two. sentences."]))
    monkeypatch.setenv("BLANKLM_DATA", str(root))


def test_the_same_pairs_of_every_paradigm_are_drawn():
    asked, phenomena = blimp.pairs(3)
    assert [pair.group for pair in asked] == ["paradigm_0"] * 3 + ["paradigm_1"] * 3
    assert asked == blimp.pairs(3)[0] and set(asked[:2]) <= set(blimp.pairs(2)[0]) | set(asked)
    assert blimp.pairs(2)[0][:2] == asked[:2]  # fewer are the first of more
    assert phenomena == {"paradigm_0": "order", "paradigm_1": "order"}
    assert all((pair.texts[0], pair.texts[1]) in PAIRS and pair.answer == 0 for pair in asked)


def test_blimp_from_the_command_line(tmp_path, blanklm):
    arguments = ("reproduce", "blimp", "--out", tmp_path, "--system", "english-small", "--model", YELP_WORDS)
    code, lines, said = blanklm(*arguments, "--texts", 4)
    assert code == 0, said
    row = json.loads((tmp_path / "results" / "blimp-english-small.json").read_text())
    assert row["in_place"]["questions"] == 8 and row["whole"]["questions"] == 2 and row["whole"]["orders"] == 8
    assert row["in_place"]["accuracy"] == 1.0 and row["phenomena"] == {"order": 1.0} and row["provenance"]["commit"]
    assert lines[-1].startswith("english-small: 100.0% of 8 pairs in place, ")


def test_the_middles_of_stories_from_the_command_line(tmp_path, blanklm):
    options = [x for name in ("english-small", "before", "another", "people") for x in ("--system", name)]
    code, lines, said = blanklm(
        "reproduce", "middles", "--out", tmp_path, *options, "--model", YELP_WORDS, "--texts", 3
    )
    assert code == 0, said
    rows = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "results").iterdir()}
    assert len(rows) == 7 and "rocstories-people" not in rows  # it has one reference
    assert rows["anlg-english-small"]["items"] == 3 and rows["rocstories-before"]["items"] == 2
    assert rows["anlg-before"]["outputs"] == ["the food was good ."] * 3
    assert rows["rocstories-before"]["outputs"] == ["we loved it."] * 2
    assert rows["rocstories-another"]["rouge_l"] == pytest.approx(100)  # the same story twice
    assert "anlg people: BLEU" in "\n".join(lines)


def test_the_third_of_five_sentences_is_hidden():
    (first, _) = middles.items_of("rocstories", 10)
    assert first.text == "the food was good. we loved it. ___ i will be back. it was amazing."
    assert first.references == ("the place is great.",)
