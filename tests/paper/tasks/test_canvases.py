"""The canvases that people judge fills by, and the sheets that they judge them on."""

import json
from collections import Counter

import pytest

from blanklm.core.template import Template
from blanklm.errors import DataError
from blanklm.paper.provenance import read_json
from blanklm.paper.tasks.canvases import CANVASES, main, read_rows, reading_sheet, tally, write_rows
from tests.support.paths import YELP_WORDS

REQUIRED = (
    "Dear Mr. Smith, thank you for ___. We look forward to ___.",
    "Preheat the oven to ___, then ___ until ___.",
    "The Eiffel Tower is ___ in ___.",
    "They also have ___ which ___.",
    "She opened the ___ and ___.",
    "We are sorry to inform you that ___.",
    "The ___ was late, so ___.",
    "The symptoms include ___, ___ and ___.",
    "I will ___ come back",
)


def fills(*words):
    return [{"id": n, "text": "a ___ b", "fill": f"a {word} b"} for n, word in enumerate(words, 1)]


def test_there_are_a_hundred_canvases_ten_of_each_genre():
    canvases = read_rows(CANVASES)
    assert [canvas["id"] for canvas in canvases] == list(range(1, 101))
    genres = Counter(canvas["genre"] for canvas in canvases)
    assert len(genres) == 10 and set(genres.values()) == {10}
    assert len({canvas["text"] for canvas in canvases}) == 100


def test_every_canvas_is_written_as_a_template_with_a_few_blanks():
    texts = [canvas["text"] for canvas in read_rows(CANVASES)]
    assert all(1 <= len(Template.parse(text).blanks) <= 3 for text in texts)
    assert [str(Template.parse(text)) for text in texts] == texts
    assert set(REQUIRED) <= set(texts)


def test_canvases_are_filled_read_and_counted(tmp_path, capsys):
    out, key, verdicts = tmp_path / "out.jsonl", tmp_path / "key.json", tmp_path / "verdicts.json"
    main([str(out), "--model", YELP_WORDS, "--options", '{"constraints": {"max": 5}}'])
    rows = read_rows(out)
    for canvas, row in zip(read_rows(CANVASES), rows, strict=True):
        assert (row["id"], row["text"], row["verdict"]) == (canvas["id"], canvas["text"], None)
        assert row["fill"] == Template.parse(row["text"]).render(row["spans"]) and all(row["spans"])
    main(["--sheet", str(out), "--key", str(key)])
    sheet = capsys.readouterr().out
    assert all(row["fill"].splitlines()[0] in sheet for row in rows)
    verdicts.write_text(
        json.dumps({number: dict.fromkeys(letters, "awkward") for number, letters in read_json(key).items()})
    )
    main(["--tally", str(verdicts), str(key)])
    assert json.loads(capsys.readouterr().out) == {str(out): {"natural": 0, "awkward": 100, "broken": 0}}


def test_rows_come_back_whatever_is_in_a_fill(tmp_path):
    rows = fills("one\ntwo", "line\u2028separator", "\r", '"é"')
    write_rows(tmp_path / "rows.jsonl", rows)
    assert read_rows(tmp_path / "rows.jsonl") == rows


def test_a_sheet_names_no_system_and_its_key_undoes_the_shuffle():
    systems = {"old": fills(*["old"] * 50), "new": fills(*["fresh"] * 50)}
    sheet, key = reading_sheet(systems)
    assert "system" not in sheet and "new" not in sheet
    assert {key[number]["A"][0] for number in key} == {"old", "new"}  # it is not always the same one that comes first
    assert reading_sheet(dict(reversed(systems.items()))) == (sheet, key)
    good = {number: {a: "natural" if who == ["new"] else "broken" for a, who in key[number].items()} for number in key}
    assert tally(good, key) == {
        "new": {"natural": 50, "awkward": 0, "broken": 0},
        "old": {"natural": 0, "awkward": 0, "broken": 50},
    }


def test_a_fill_that_two_systems_wrote_is_read_once():
    sheet, key = reading_sheet({"old": fills("same"), "new": fills("same")})
    assert sheet.count("a same b") == 1 and key == {"1": {"A": ["old", "new"]}}
    assert tally({"1": {"A": "natural"}}, key)["new"] == {"natural": 1, "awkward": 0, "broken": 0}


def test_a_missing_verdict_and_fills_of_other_canvases_are_errors():
    with pytest.raises(DataError, match="canvas 1, A: None is no verdict: choose natural"):
        tally({}, {"1": {"A": ["old"]}})
    with pytest.raises(DataError, match="not fills of the same canvases"):
        reading_sheet({"old": fills("x"), "new": fills("x", "y")})
