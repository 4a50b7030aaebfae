"""``choose``, ``repair`` and ``score --words`` from the command line."""

import json

import pytest

from blanklm.api import BlankLM

SMALL = ("--model", "english-small", "--device", "cpu")
CANVAS = "The ___ sat on the ___."
SLIPS = "The goverment has anounced a new polcy."
MENDED = "The government has announced a new policy."


def test_combinations_are_ranked_and_their_probabilities_sum_to_one(blanklm):
    options = ("--options", "1=cat|dog|old man", "--options", "2=mat|moon")
    code, out, err = blanklm("choose", CANVAS, *options, *SMALL, "-n", 6)
    assert (code, err) == (0, "") and len(out) == 6
    shares = [float(line.split("%")[0]) for line in out]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(100, abs=0.5)
    code, out, _ = blanklm("choose", CANVAS, *options, *SMALL, "--json")
    record = json.loads(out[0])
    assert record["input"] == CANVAS and record["combinations"] == record["compared"] == 6
    assert set(record["choices"][0]) == {"text", "spans", "probability", "standard_error", "log_prob"}


def test_whole_texts_are_alternatives(blanklm):
    code, out, _ = blanklm("choose", "--alternative", "He go home.", "--alternative", "He goes home.", *SMALL)
    assert code == 0 and out[0].endswith("He goes home.") and len(out) == 2


def test_each_line_has_its_answer_or_its_error(blanklm, tmp_path):
    lines = [
        {"text": "Paris is the ___ of France.", "options": ["capital", "banana"]},
        {"text": "Paris is the ___ of France."},
        {"text": "___ and ___ .", "alternatives": [["Tom", "Mary"], ["It", "of"]]},
        {"text": "___ .", "options": 3},
        {"text": "___ .", "options": [["a"], ["b"]]},
    ]
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + "no json\n")
    code, out, err = blanklm("choose", "--file", file, "--json", *SMALL)
    records = [json.loads(line) for line in out]
    assert code == 1 and len(records) == 6
    assert records[0]["choices"][0]["spans"] == ["capital"] and records[2]["choices"][0]["spans"] == ["Tom", "Mary"]
    assert ["error" in record for record in records] == [False, True, False, True, True, True]
    assert len(err.splitlines()) == 4 and "line 2: there are no options" in err
    _, shared, _ = blanklm("choose", "--file", file, "--json", "--options", "a|b", *SMALL)
    assert json.loads(shared[1])["combinations"] == 2 and json.loads(shared[0])["combinations"] == 2


def test_a_question_that_fails_does_not_take_the_others_of_its_group_along(blanklm, monkeypatch):
    rank = BlankLM.choose

    def fails(self, questions, *settings, **options):
        if any("bad" in str(question.template) for question in questions):
            raise MemoryError
        return rank(self, questions, *settings, **options)

    monkeypatch.setattr(BlankLM, "choose", fails)
    texts = b"a good ___ .\na bad ___ .\na nice ___ .\n"
    code, out, err = blanklm("choose", "--options", "day|idea", *SMALL, stdin=texts)
    assert code == 1 and [line.split("  ")[-1].split(" ")[1] for line in out if line] == ["good"] * 2 + ["nice"] * 2
    assert err == "error: line 2: out of memory: shorten the text\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((CANVAS, "--options", "1=cat"), "blank 2 has no options"),
        ((CANVAS, "--options", "3=cat"), "blanks are numbered from 1 to 2"),
        ((CANVAS,), "there are no options"),
        ((CANVAS, "--options", "cat|"), "a blank takes at least one word"),
        (("___ " * 6, "--options", "a|b|c|d|e|f|g|h|i|j"), "1,000,000 combinations"),
        ((CANVAS, "--options", "a", "--alternative", "b|c"), "not both"),
        (("--options", "a", "--alternative", "b"), "give a text"),
    ],
)
def test_a_mistake_is_one_line(blanklm, arguments, problem):
    code, _, err = blanklm("choose", *arguments, *SMALL)
    assert code == 1 and problem in err and len(err.splitlines()) == 1


def test_repair_prints_the_text_or_what_was_changed(blanklm):
    code, out, err = blanklm("repair", SLIPS, "Nothing is wrong here.", *SMALL)
    assert (code, out, err) == (0, [MENDED, "Nothing is wrong here."], "")
    _, out, _ = blanklm("repair", SLIPS, "--diff", "--keep", "goverment", *SMALL)
    assert out == ["The goverment has [-anounced-]{+announced+} a new [-polcy-]{+policy+}."]
    _, out, _ = blanklm("repair", SLIPS, "--json", *SMALL)
    record = json.loads(out[0])
    assert record["text"] == MENDED and [edit["start"] for edit in record["edits"]] == [4, 18, 33]


def test_a_bad_line_does_not_keep_others_from_repair(blanklm, tmp_path):
    file = tmp_path / "in.txt"
    file.write_text(f"\n{SLIPS}\n")
    code, out, err = blanklm("repair", "--file", file, *SMALL)
    assert code == 1 and out == ["", MENDED] and "line 1: the text is empty" in err


def test_words_are_scored_where_they_stand(blanklm):
    code, out, _ = blanklm("score", "--words", "The goverment is here.", *SMALL)
    assert code == 0 and [line.split()[1] for line in out] == ["The", "goverment", "is", "here", "."]
    assert out[1].startswith("   0.000%")
    _, out, _ = blanklm("score", "--words", "The dog.", "--json", *SMALL)
    words = json.loads(out[0])["words"]
    assert [(word["start"], word["end"]) for word in words] == [(0, 3), (4, 7), (7, 8)]
    assert set(words[0]) == {"text", "start", "end", "log_prob", "surprise", "expected"}
    assert "leave out --stream" in blanklm("score", "--words", "a", "--stream", *SMALL)[2]


def test_a_line_out_answers_a_line_in_though_a_text_holds_several(blanklm, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text('{"text": "The dog.\\nThe cat."}\n{"text": "A dog."}\n')
    code, out, err = blanklm("repair", "--jsonl", "--file", file, *SMALL)
    assert (code, out) == (0, ["The dog.\\nThe cat.", "A dog."]) and "written \\n" in err
    file.write_text('{"text": "The ___\\nbarks.", "options": ["dog", "moon"]}\n')
    code, out, _ = blanklm("choose", "--jsonl", "--file", file, *SMALL)
    assert code == 0 and sorted(line.split("%  ")[1] for line in out) == ["The dog\\nbarks.", "The moon\\nbarks."]
