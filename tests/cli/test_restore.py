"""``blanklm restore``: text in, the same notation out; tables and JSON; what is wrong in one line."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys

import pytest

from blanklm.pretrained import HERE
from blanklm.training import checkpoint
from tests.support.models import make_restorer
from tests.support.paths import EDITIONS as FILES
from tests.support.paths import YELP_WORDS

LEIDEN = "ἔδοξεν τῆι βουλῆι κα[. . . .] δήμωι, τοῦ δ[c. 3] [---]"


@pytest.fixture(scope="session")
def greek(tmp_path_factory):
    """The folder of a random Greek model."""
    restorer, folder = make_restorer(), tmp_path_factory.mktemp("model") / "greek"
    checkpoint.save(folder, restorer.model, restorer.tokenizer, {"language": "greek"})
    return folder


@pytest.fixture
def restore(blanklm, greek):
    def run(*arguments, stdin=None):
        return blanklm("restore", *arguments, "--model", greek, "--abstain-below", 0, "--parallels", 0, stdin=stdin)

    return run


def spans(record):
    return [gap["restorations"][0]["text"] for gap in record["gaps"]]


def test_a_text_is_restored_in_its_own_notation(restore):
    code, (line,), said = restore(LEIDEN, "--json", "--top", 4)
    assert (code, said) == (0, "")
    record = json.loads(line)
    written = [span.replace(" ", "␣") if span.isspace() else span for span in spans(record)]
    assert record["text"] == "ἔδοξεν τῆι βουλῆι κα[{}] δήμωι, τοῦ δ[{}] [{}]".format(*written)
    assert len(record["gaps"][0]["restorations"]) == 4
    code, lines, _ = restore(LEIDEN)
    assert code == 0 and "\n".join(lines) == record["text"]


def test_a_file_comes_back_with_its_gaps_restored(restore, tmp_path):
    out = tmp_path / "restored.xml"
    code, lines, said = restore("--file", FILES / "papyrus.xml", "--out", out)
    assert code == 0 and said == ""
    before, after = (FILES / "papyrus.xml").read_bytes(), out.read_bytes()
    assert after.count(b"<supplied") == before.count(b"<supplied") + before.count(b"<gap") and b"<gap" not in after
    assert lines[1].startswith("Gaps 1 to 9 together") and any(line.startswith("Gap 9, line 23") for line in lines)
    code, again, _ = restore("--file", "-", stdin=before)
    assert "\n".join(again).encode() == after.rstrip(b"\n")


def test_the_details_show_candidates_and_lengths(restore):
    code, lines, _ = restore(LEIDEN, "--details")
    text = "\n".join(lines)
    assert code == 0 and "Gap 1, line 1, column 22: 4 letters" in text
    assert f"Gap 2, line 1, column {LEIDEN.index('c. 3') + 1}: 2 to 4 letters" in text
    assert f"Gap 3, line 1, column {LEIDEN.index('---') + 1}: extent unknown" in text
    assert "length: " in text and "%" in text and re.search(r"and \d+ more", text)


def test_on_a_terminal_each_gap_is_told_when_it_is_restored(greek):
    main_end, terminal = pty.openpty()
    command = [sys.executable, "-m", "blanklm", "restore", "α[.] β [..]", "--model", greek, "--abstain-below", "0"]
    done = subprocess.run(command, stderr=terminal, stdout=subprocess.PIPE, timeout=120)
    os.close(terminal)
    said = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", os.read(main_end, 100_000).decode())  # without colours
    first, second = re.search(r"α\[(.+)\] β \[(.+)\]", done.stdout.decode()).groups()
    assert f"gap 1 (line 1, column 3): [{first}] " in said and f"gap 2 (line 1, column 9): [{second}] " in said


def test_a_gap_that_is_left_as_it_is_is_told(blanklm, greek):
    code, lines, said = blanklm("restore", "α\n[...] β", "--model", greek, "--abstain-below", 1)
    assert code == 0 and lines == ["α", "[...] β"]
    assert said.startswith("gap 1 (line 2, column 2) is left as it is: no restoration is as probable as 100%")


def test_uncertain_characters_can_stay_lost(restore):
    _, (line,), _ = restore("α[...] β", "--min-confidence", 1, "--json")
    assert restore("α[...] β", "--sure", 1, "--json")[1] == [line]  # its old name
    record = json.loads(line)
    (gap,) = record["gaps"]
    kept = "".join(c if p >= 1 else "." for c, p in zip(spans(record)[0], gap["confidence"], strict=True))
    assert record["text"] == f"α[{kept}] β"


def test_letters_alone_can_be_counted(restore):
    _, (line,), _ = restore("α[...] β", "--count", "letters", "--json")
    (gap,) = json.loads(line)["gaps"]
    for restoration in gap["restorations"]:
        assert len(restoration["text"].replace(" ", "")) == 3 or gap["abstained"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["α [β"], "error: line 1, column 3: this [ is never closed"),
        (["α"], "error: there is no gap to restore in this text: write [...] for three lost letters"),
        (["α b [...]"], "error: line 1, column 3: the Latin letter 'b' (U+0062) in a Greek text"),
        (["α [. . 5000 . .]"], "error: line 1, column 4: a gap of 5,000 characters is too long"),
        (["<ab>", "--notation", "epidoc"], "error: line 1, column 5: not well-formed XML: mismatched tag"),
        (["", "--notation", "leiden"], "error: line 1, column 1: the document is empty"),
        (["α [...]", "--file", "x"], "error: give a text or --file, not both"),
        (["--file", "/nowhere.xml"], "error: /nowhere.xml: No such file or directory"),
        ([], "error: no text: write blanklm restore"),
        (["α [...]", "--language", "latin"], "error: line 1, column 1: the Greek letter 'α' (U+03B1) in a Latin text"),
        (["α [...]", "--top", "0"], "error: top must be at least 1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(restore, arguments, message):
    code, lines, said = restore(*arguments)
    assert code in (1, 2) and lines == [] and said.startswith(message) and said.count("\n") <= 1


def test_a_model_that_does_not_restore_is_refused(blanklm):
    code, _, said = blanklm("restore", "α [...]", "--model", YELP_WORDS)
    assert code == 1 and said.startswith(f"error: {YELP_WORDS} does not restore: give a model such as greek or latin")


@pytest.mark.parametrize(
    ("text", "restored"),
    [
        ("ἔδοξεν τῆι βουλῆι καὶ τῶι δή[...]", "ἔδοξεν τῆι βουλῆι καὶ τῶι δή[μωι]"),
        ("Iovi Optimo Max[...] votum sol[. . .] libens", "Iovi Optimo Max[imo] votum sol[vit] libens"),
    ],
)
def test_a_model_of_each_language_is_bundled(blanklm, text, restored):
    code, (line,), said = blanklm("restore", text)
    assert (code, line, said) == (0, restored, "")


def test_the_bundled_models_are_small_and_calibrated():
    folders = [HERE / name for name in ("greek", "latin")]
    assert sum(path.stat().st_size for folder in folders for path in folder.iterdir()) < 10e6
    assert all(checkpoint.read_config(folder)["about"]["temperature"] > 0 for folder in folders)


def test_damaged_words_of_a_model_are_one_line(blanklm, greek, tmp_path):
    folder = shutil.copytree(greek, tmp_path / "damaged")
    (folder / "words.tsv.xz").write_bytes(b"no archive")
    code, out, said = blanklm("restore", LEIDEN, "--model", folder)
    assert (code, out) == (1, []) and said.startswith("error: ") and "words.tsv.xz is damaged" in said
    assert said.count("\n") == 1


def test_where_and_when_are_shown_and_in_the_json(restore):
    text = "ἁ πόλις τῶν Δελφῶν ἔδωκεν [...] προξενίαν"
    code, lines, said = restore(text, "--attribute")
    assert (code, said) == (0, "")
    start = lines.index("Where and when, by 30 letters that are preserved")
    block = [line.strip() for line in lines[start + 1 :]]
    assert block[0].endswith("Delphi") and len(block) == 5
    assert re.fullmatch(r"\d+ to \d+ BC \(8\d%\), as likely before as after \d+ BC", block[3])
    assert re.fullmatch(r"\d+ BC [ ▁▂▃▄▅▆▇█]+ (AD )?\d+( BC)?  \(25 years each\)", block[4])
    code, (line,), _ = restore(text, "--attribute", "--json")
    found = json.loads(line)["passages"][0]["attribution"]
    assert found["places"][0]["name"] == "Delphi" and sum(found["dates"].values()) == pytest.approx(1, abs=1e-3)
    code, (line,), _ = restore(text, "--json")
    assert json.loads(line)["passages"][0]["attribution"] is None


def test_little_text_is_said_to_be_little(blanklm):
    code, lines, _ = blanklm("restore", "dis ma", "--attribute")
    assert code == 0 and lines[0] == "dis ma" and lines[-1].strip().startswith("only 5 letters are preserved: ")
