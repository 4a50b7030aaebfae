"""The command ``blanklm transfer``."""

import json
from functools import partial

import pytest

from blanklm import Transfer
from tests.support.paths import YELP_WORDS

NICE = "The employees were super nice and efficient!"


@pytest.fixture
def reviews(blanklm):
    """The command with the small model of reviews."""
    return partial(blanklm, "transfer", "--model", "sentiment")


@pytest.mark.slow
def test_the_command_gives_what_python_gives(blanklm, reviews):
    code, lines, _ = blanklm("transfer", "--to", "negative", NICE, "--device", "cpu")
    assert (code, lines) == (0, [Transfer.from_pretrained(device="cpu").rewrite(NICE, "negative").text])
    code, lines, _ = reviews("--to", "negative", NICE, "--device", "cpu")
    assert (code, lines) == (0, [Transfer.from_pretrained("sentiment", device="cpu").rewrite(NICE, "negative").text])


def test_smaller_masks_are_tried_by_either_name_of_the_option(reviews):
    options = ("--to", "negative", "--json", "the food was great and the staff was friendly .", "-n", 40)
    code, lines, _ = reviews(*options, "--try-smaller-masks")
    assert code == 0 and len({rewrite["canvas"] for rewrite in json.loads(lines[0])["rewrites"]}) > 1
    assert reviews(*options, "--fewer")[:2] == (0, lines)


def test_the_mask_is_shown_and_changed(reviews):
    code, lines, _ = reviews("--show-mask", NICE, "--mask", "super nice", "--mask", "employees")
    assert (code, lines) == (0, ["The [employees] were [super nice] and efficient!"])
    code, lines, _ = reviews("--to", "negative", "--show-mask", NICE, "--mask", "super nice", "-n", 2)
    assert code == 0 and lines[0] == "The employees were [super nice] and efficient!"
    assert all("The employees were " in line and line.endswith(" and efficient!") for line in lines[1:])


def test_json_has_words_and_rewrites(reviews):
    code, lines, _ = reviews("--to", "negative", "--json", NICE, "-n", 2)
    record = json.loads(lines[0])
    assert code == 0 and record["input"] == NICE and record["to"] == "negative"
    assert [word["text"] for word in record["words"]][:2] == ["The", "employees"]
    assert 1 <= len(record["rewrites"]) <= 2 and record["rewrites"][0]["text"]


def test_a_file_is_answered_line_by_line(reviews, tmp_path):
    (tmp_path / "texts.txt").write_text("the food was great .\n\nawful service .\n", encoding="utf-8")
    code, lines, said = reviews("--to", "negative", "--file", tmp_path / "texts.txt")
    assert code == 1 and len(lines) == 3 and lines[1] == ""
    assert "error: line 2: the text is empty" in said
    assert "note: line 3: the text reads as negative already" in said


def test_where_nothing_is_found_in_the_style_and_where_words_are_unknown_it_is_said(reviews):
    code, lines, said = reviews("--to", "negative", "I love and adore this place!", "--mask", "this")
    assert code == 0 and len(lines) == 1
    assert "note: no rewrite reads as negative" in said and "--mask" in said
    assert "does not know 'qwertz'" in reviews("--to", "negative", "The qwertz was great.")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((NICE,), "choose one with --to"),
        ((NICE, "--to", "angry"), "there is no style 'angry'"),
        ((NICE, "--to", "negative", "--mask", "slow"), "there is no 'slow'"),
        ((NICE, "--to", "negative", "--samples", "0"), "at least 1"),
        ((NICE, "--to", "negative", "--contrast", "-1"), "contrast must be 0 or more"),
        ((NICE, "--to", "negative", "--temperature", "0"), "temperature must be above 0"),
        ((NICE, "--to", "negative", "-m", YELP_WORDS), "does not rewrite texts"),
    ],
)
def test_what_is_wrong_is_one_line(reviews, arguments, message):
    code, lines, said = reviews(*arguments)
    assert code == 1 and lines == [] and message in said and said.count("\n") == 1
