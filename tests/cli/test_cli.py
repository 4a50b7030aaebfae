"""The command line as people and programs use it: results on standard output, one plain line for each mistake."""

import itertools
import json
import os
import pty
import re
import resource
import shlex
import signal
import subprocess
import sys

import pytest

from blanklm import __version__
from blanklm.api import BlankLM
from blanklm.bulk.lines import Line
from blanklm.cli.output import Patience
from blanklm.core.tokenizer import Tokenizer
from blanklm.extras import how_to_install
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.baselines.left_to_right import LeftToRight
from blanklm.paper.baselines.masked import Masked
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.pretrained import locate
from blanklm.training import checkpoint
from tests.support.canvases import CANVAS
from tests.support.paths import ROOT, YELP_WORDS


def test_help_answers_in_half_a_second():
    """Of processor time, so that tests running beside this one do not count."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-m", "blanklm", "--help"], capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.returncode == 0 and "fill" in done.stdout
    assert min(times) < 0.5


def test_fill_prints_the_text(blanklm):
    code, out, err = blanklm("fill", CANVAS)
    assert (code, err) == (0, "") and len(out) == 1
    assert out[0].startswith("They also have ") and " which " in out[0] and out[0].endswith(" .") and "_" not in out[0]


def test_json_has_the_promised_fields(blanklm):
    code, out, _ = blanklm("fill", CANVAS, "the ___ .", "--json", "-n", 3, "--beam", 4)
    records = [json.loads(line) for line in out]
    assert code == 0 and [r["input"] for r in records] == [CANVAS, "the ___ ."]
    for record, blanks in zip(records, (2, 1), strict=True):
        assert len(record["fills"]) == 3
        for fill in record["fills"]:
            assert set(fill) == {"text", "spans", "log_prob"} and len(fill["spans"]) == blanks
    _, out, _ = blanklm("fill", "the ___ .", "--json", "--trace")
    steps = json.loads(out[0])["fills"][0]["trajectory"]
    assert steps[0]["canvas"] == "the ___ ." and {"blank", "token", "left", "right", "log_prob"} < set(steps[0])


def test_trace_draws_the_papers_figure(blanklm):
    _, out, _ = blanklm("fill", "the ___[2] was great .", "--trace")
    table = "\n".join(out)
    for heading in ("Step t", "Canvas c", "Location b", "Word w", "Left", "Right"):
        assert heading in table
    assert "__#1__" in table and "-End-" in table and "Yes" in table and "No" in table
    assert sum(line.strip()[:1].isdigit() for line in out) == 3  # two words, and the end


def test_lines_from_standard_input_come_out_in_order(blanklm):
    canvases = [f"{'very ' * k}good ___[1] ." for k in (5, 0, 3)] * 40
    code, out, _ = blanklm("fill", stdin="\n".join(canvases).encode())
    assert code == 0 and len(out) == 120
    assert all(o.startswith(c.split("___")[0]) for o, c in zip(out, canvases, strict=True))


def test_a_bad_line_is_reported_with_its_number_and_the_rest_are_filled(blanklm):
    lines = [b"the ___ .", b"no blank here", b"", b"bad \xff\xfe ___", b"___[5-2]", b"___ " * 500, b"good ___ ."]
    code, out, err = blanklm("fill", stdin=b"\n".join(lines))
    assert code == 1 and len(out) == 7
    assert out[0].startswith("the ") and out[6].startswith("good ") and out[1:6] == [""] * 5
    for number, words in ((2, "no blank"), (3, "empty"), (4, "not UTF-8"), (5, "minimum 5"), (6, "at most 128")):
        assert any(f"line {number}:" in line and words in line for line in err.splitlines()), err
    assert len(err.splitlines()) == 5

    code, out, _ = blanklm("fill", "--json", stdin=b"\n".join(lines))
    records = [json.loads(line) for line in out]
    assert code == 1 and [("error" in r, r.get("line")) for r in records] == [
        (False, None), (True, 2), (True, 3), (True, 4), (True, 5), (True, 6), (False, None)
    ]  # fmt: skip


def test_jsonl_takes_constraints_for_each_line(blanklm, tmp_path):
    path = tmp_path / "in.jsonl"
    rows = [
        {"text": CANVAS, "constraints": [{"require": ["ice cream"]}, {"max": 1}]},
        {"input": "the ___ .", "constraints": {"max": 1}},
        {"text": "the ___ .", "constraints": [{}, {}]},
        {"text": "the ___ .", "constraints": {"maximum": 1}},
        {"text": "the ___ .", "constraints": {"max": "1"}},
        {"text": "the ___ .", "constraints": 3},
        {"words": "the ___ ."},
        {"text": "the ___ .", "constraints": {"ban": 3}},
        {"text": "the \ud800 ___ ."},
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\nnot json\n" + "[" * 100_000 + "\n")
    code, out, err = blanklm("fill", "--file", path, "--json")
    records = [json.loads(line) for line in out]
    assert code == 1 and len(records) == 11
    assert "ice cream" in records[0]["fills"][0]["spans"][0]
    assert len(records[1]["fills"][0]["spans"][0].split()) == 1
    for record, words in zip(
        records[2:],
        (
            "2 constraints",
            "'maximum'",
            "whole number",
            "must be an object",
            'an object with a "text"',
            "list of words",
            "not valid Unicode",
            "not JSON",
            "not JSON",
        ),
        strict=True,
    ):
        assert words in record["error"]
    assert "Traceback" not in err


def test_constraint_options_apply_to_all_blanks_or_one(blanklm):
    _, out, _ = blanklm(
        "fill", CANVAS, "--json", "--max", 2, "--require", "1=ice cream", "--ban", "is", "--only", "2=was"
    )
    spans = json.loads(out[0])["fills"][0]["spans"]
    assert spans[0] == "ice cream" and set(spans[1].split()) == {"was"} and len(spans[1].split()) <= 2
    code, _, err = blanklm("fill", CANVAS, "--ban", "3=good")
    assert code == 1 and "numbered from 1 to 2" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fill", ""], "the text is empty"),
        (["fill", "no blank"], "there is no blank in the text: write ___"),
        (["fill", "a [MASK] here"], "there is no blank in the text: write ___ in place of [MASK]"),
        (["fill", "a <mask> here"], "there is no blank in the text: write ___ in place of <mask>"),
        (["fill", "a __ here"], "there is no blank in the text: write ___ in place of __"),
        (["fill", "a snake_case"], "there is no blank in the text: write ___ where"),
        (["fill", "___ " * 10_000], "takes 10,000 tokens"),
        (["fill", "___[x]"], "is not a blank with a length"),
        (["fill", "a ___ .", "--min", "3", "--max", "2"], "minimum length 3 is greater than the maximum 2"),
        (["fill", "a ___[1] .", "--require", "ice cream"], "required words take 2, and the maximum length is 1"),
        (["fill", "a ___ .", "--require", "qwertyuiop"], "not in the model's vocabulary"),
        (["fill", "the qwertyuiop ___ .", "--strict"], "does not know 'qwertyuiop'"),
        (["fill", "a ___", "--model", "nonesuch"], "there is no model 'nonesuch'"),
        (["fill", "a ___", "--file", "x"], "not both"),
        (["fill", "--file", "no-such-file.txt"], "there is no file no-such-file.txt"),
        (["fill", "a ___", "-n", "0"], "at least 1"),
        (["fill", "a ___", "--beam", "-1"], "at least 1"),
        (["fill", "a ___", "--order", "parallel", "-n", "2"], "gives one fill"),
        (["fill", "a ___", "--device", "warp"], "cannot use the device 'warp'"),
        (["fill"], "no text: write blanklm fill"),
        (["sample", "--temperature", "0"], "temperature must be above 0"),
        (["sample", "--top-p", "2"], "top_p must be at most 1"),
        (["score", ""], "the text is empty"),
        (["score", "a " * 200], "200 tokens, and this model takes at most 128"),
        (["score", "a " * 20, "--method", "exact"], "at most 16"),
        (["fill", "___[" + "9" * 5000 + "]"], "is not a blank with a length"),
        (["fill", "a \ud800 ___"], "is not valid Unicode"),
        (["fill", "a ___", "--device", "cuda"], "cannot use the device 'cuda'"),
        (["fill", "a ___", "--ban", "² x"], "is not one word"),
        (["sample", "--seed", "-1"], "seed must be 0 or more"),
        (["sample", "--temperature", "inf"], "temperature"),
        (["fill", "a ___", "--order", "parallel", "-n", "0"], "at least 1"),
        (["fill", "a ___", "--length-penalty", "nan"], "must be a number"),
        (["score", "good", "--seed", "-1"], "seed must be 0 or more"),
        (["score", "good", "--stream", "--method", "exact"], "leave out --method"),
        (["score", "good", "--orders", "0"], "at least 1"),
        (["info", "nonesuch"], "there is no model"),
        (["data", "nonesuch"], "there is no corpus"),
        (["train", "no-such-file.txt", "--out", "x"], "there is no file"),
    ],
)
def test_each_mistake_gets_one_plain_line(blanklm, arguments, message):
    code, out, err = blanklm(*arguments)
    assert code == 1 and not out
    assert len(err.splitlines()) == 1 and err.startswith("error: ") and message in err, err


def test_the_same_line_is_sampled_anew_each_time_and_the_same_whatever_else_is_there(blanklm):
    lines = ["the food is ___[4-8] ."] * 100
    out = blanklm("sample", "--file", "-", stdin="\n".join(lines).encode())[1]
    assert len(set(out)) > 90
    lines[3] = "no blank"
    again = blanklm("sample", "--file", "-", stdin="\n".join(lines).encode())[1]
    assert again[3] == "" and again[:3] == out[:3] and again[4:] == out[4:]


def test_options_and_a_lines_own_constraints_hold_together(blanklm):
    rows = [{"text": "the ___ .", "constraints": {"min": 4}}, {"text": "the ___ .", "constraints": {"ban": ["food"]}}]
    code, out, err = blanklm(
        "fill", "--jsonl", "--max", 2, "--ban", "staff", stdin="\n".join(map(json.dumps, rows)).encode()
    )
    assert code == 1 and "line 1: blank 1: the minimum length 4 is greater than the maximum 2" in err
    assert len(out[1].split()) <= 4 and not {"food", "staff"} & set(out[1].split())


def test_the_perplexity_of_a_stream(blanklm):
    code, out, _ = blanklm("score", "--stream", "--orders", 2, "--json", stdin=b"the food was good .\ngreat !\n")
    record = json.loads(out[0])
    assert code == 0 and record["tokens_with_eos"] == 9 and record["chunk"] == 128
    assert record["interval"][0] < record["perplexity"] < record["interval"][1]


@pytest.mark.parametrize(
    "arguments", [["fill", "a ___", "--nope"], ["fill", "a ___", "--beam", "x"], ["train", "t.txt"], ["nope"]]
)
def test_a_mistyped_command_gets_one_line_too(blanklm, arguments):
    code, out, err = blanklm(*arguments)
    assert code == 2 and not out and len(err.splitlines()) == 1 and err.startswith("error: ") and "--help" in err


def test_no_command_shows_the_help(blanklm):
    code, out, _ = blanklm()
    assert code == 2 and any("fill" in line for line in out)


def test_unknown_words_are_warned_about_and_filled_around(blanklm):
    code, out, err = blanklm("fill", "the qwertyuiop was ___ .")
    assert code == 0 and out[0].startswith("the qwertyuiop was ")
    assert err.startswith("warning: the model does not know 'qwertyuiop'") and len(err.splitlines()) == 1


def test_a_damaged_model_is_named(blanklm, tmp_path):
    from blanklm.pretrained import DEFAULT, HERE

    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_bytes((HERE / DEFAULT / name).read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    for command in (["fill", "a ___", "--model", tmp_path], ["info", tmp_path]):
        code, _, err = blanklm(*command)
        assert code == 1 and "damaged" in err and len(err.splitlines()) == 1


def test_sample_and_score(blanklm):
    code, out, _ = blanklm("sample", "-n", 3, "--seed", 1)
    again = blanklm("sample", "-n", 3, "--seed", 1)[1]
    assert code == 0 and len(out) == 3 and out == again
    code, out, _ = blanklm("score", "the food was good .", "good the was food .", "--method", "exact")
    assert code == 0 and len(out) == 3 and float(out[0].split()[0]) > float(out[1].split()[0])
    code, out, err = blanklm("score", "--json", "--orders", 4, stdin=b"the food was good .\n\ngreat !\n")
    assert code == 1 and "line 2" in err and [json.loads(x).get("tokens") for x in out] == [5, None, 2]


def test_what_there_is(blanklm, monkeypatch):
    monkeypatch.setattr("blanklm.pretrained.DEFAULT", "english")
    code, out, _ = blanklm("models", "--json")
    listed = {record["name"]: record for record in json.loads(out[0])}
    assert code == 0 and {"name", "megabytes", "language", "licence", "summary"} < set(listed["english"])
    assert [name for name, record in listed.items() if record["default"]] == ["english"]
    assert listed["english"]["megabytes"] < 70 and listed["english-small"]["megabytes"] < 9
    assert json.loads(blanklm("info", "--json")[1][0])["model"] == "english"
    corpora = [json.loads(line)["name"] for line in blanklm("data", "--json")[1]]
    assert {"ptb", "yelp", "yahoo", "english"} < set(corpora)


@pytest.mark.parametrize("name", ["english", "english-small", "greek", "latin", "sentiment", "tone"])
def test_info_counts_parameters_however_they_are_stored(blanklm, name):
    code, out, _ = blanklm("info", name, "--json")
    assert code == 0 and json.loads(out[0])["parameters"] == checkpoint.load(locate(name)).model.parameter_count


def test_scoring_a_text_with_a_blank_says_that_it_is_not_filled(blanklm):
    for text, noted in (("the food was ___ .", True), ("the food was good .", False)):
        code, _, error = blanklm("score", text, "--orders", 2)
        assert code == 0 and ("to fill it, use blanklm fill" in error) == noted


def test_evaluate_infilling(blanklm, tmp_path):
    texts = tmp_path / "held-out.txt"
    lines = "the food was really good .\n\ni will never come back here !\n"
    texts.write_text(lines * 4 + lines.replace("\n", " ") * 25 + "\r\n")
    code, out, _ = blanklm("evaluate", "infilling", "--file", texts, "--ratios", "20,50", "--seed", 3, "--json")
    report = json.loads(out[0])
    assert code == 0 and report["cut"] == 1 and report["too_long"] == 0 and list(report["ratios"]) == ["0.2", "0.5"]
    assert report["order"] == "parallel"
    for row in report["ratios"].values():
        assert row["failure_rate"] == 0 and row["texts"] == 9 and row["bleu"] > row["no_infill_bleu"] >= 0
        assert row["length_error"] >= 0 and row["words_per_second"] > 0
    again = json.loads(
        blanklm("evaluate", "infilling", "--file", texts, "--ratios", "20,50", "--seed", 3, "--json")[1][0]
    )
    assert [r["bleu"] for r in again["ratios"].values()] == [r["bleu"] for r in report["ratios"].values()]
    code, out, _ = blanklm("evaluate", "infilling", "--file", texts, "--ratios", "30", "--beam", 3)
    assert code == 0 and len(out) == 3 and "no infill" in out[1]
    for bad in (
        ["--ratios", "many"],
        ["--ratios", "0"],
        ["--ratios", "0.3"],
        ["--ratios", "120"],
        ["--file", "none.txt"],
    ):
        code, _, err = blanklm("evaluate", "infilling", "--file", texts, *bad)
        assert code == 1 and len(err.splitlines()) == 1 and err.startswith("error: ")


def test_a_model_to_compare_with_is_evaluated_alike_and_another_judges(blanklm, tmp_path):
    lines = ["the food was really good .", "i will never come back here !"]
    texts, tokenizer = tmp_path / "held-out.txt", Tokenizer.train("word", lines)
    texts.write_text("\n".join(lines * 2))
    config = PredictorConfig(len(tokenizer), EncoderConfig(1, 2, 16, 32), max_length=20)
    for kind in (Masked, LeftToRight):
        checkpoint.save(tmp_path / kind.__name__, kind(config), tokenizer)
    command = ["evaluate", "infilling", "--file", texts, "--model", tmp_path / "Masked", "--ratios", "40"]
    code, out, _ = blanklm(*command, "--json", "--judge", tmp_path / "LeftToRight")
    (row,) = json.loads(out[0])["ratios"].values()
    assert code == 0 and row["failure_rate"] == 0 and row["perplexity"] > 1 and row["original_perplexity"] > 1
    code, _, err = blanklm(*command, "--beam", 2)
    assert code == 1 and err.startswith("error: ") and "--beam" in err
    code, out, _ = blanklm("evaluate", "infilling", "--file", texts, "--judge", tmp_path / "LeftToRight")
    assert code == 0 and "perplexity" in out[1] and len(out[2].split()) == 8


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m blanklm fill --model {YELP_WORDS} --file /dev/stdin | head -n 1"
    done = subprocess.run(
        command, shell=True, input="the ___[1] .\n" * 2000, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.count("\n") == 1 and "Traceback" not in done.stderr


def test_on_a_terminal_the_filled_spans_are_highlighted():
    main_end, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    command = [sys.executable, "-m", "blanklm", "fill", CANVAS, "--model", YELP_WORDS]
    subprocess.run(command, stdout=terminal, stdin=terminal, env=environment, timeout=60)
    os.close(terminal)
    shown = os.read(main_end, 10_000).decode()
    assert "They also have \x1b[4;32m" in shown and shown.count("\x1b[4;32m") == 2


def test_a_bad_line_of_a_stream_is_reported_and_the_rest_scored(blanklm):
    code, lines, said = blanklm("score", "--stream", "--orders", 2, stdin=b"good food .\nbad \xff line\nnice staff .\n")
    assert code == 1 and "error: line 2: not UTF-8" in said and lines[-1].startswith("perplexity")


@pytest.mark.parametrize("constraint", ['{"max": 1e20}', '{"max": 1' + "0" * 20 + "}", '{"min": 1' + "0" * 400 + "}"])
def test_a_constraint_beyond_all_numbers_spoils_its_own_line_only(blanklm, constraint):
    lines = ['{"text": "the ___ ."}', f'{{"text": "the ___ .", "constraints": {constraint}}}', '{"text": "a ___ ."}']
    code, out, err = blanklm("fill", "--jsonl", stdin="\n".join(lines).encode())
    assert code == 1 and [bool(line) for line in out] == [True, False, True]
    assert (
        len(err.splitlines()) == 1
        and "line 2: " in err
        and "whole number from 1 to 999,999,999" in err
        and len(err) < 300
    )


@pytest.mark.parametrize(
    "command",
    [
        ["fill"],
        ["sample", "--file", "-"],
        ["score", "--orders", 2],
        ["transfer", "--to", "negative", "--model", "sentiment", "--samples", 1],
    ],
)
def test_text_that_is_no_text_spoils_its_own_line_only(blanklm, command):
    blank = command[0] in ("fill", "sample")
    good = b"the food ___ ." if blank else b"the food was great ."
    code, out, err = blanklm(*command, stdin=b"\n".join((good, good + b"\xff", good)))
    assert code == 1 and [bool(line) for line in out if "all 2 texts" not in line] == [True, False, True]
    records = [{"text": good.decode()}, {"text": good.decode() + "\ud800"}, {"text": good.decode()}]
    lines = "\n".join(map(json.dumps, records)).encode()
    code, out, err = blanklm(*command, "--jsonl", stdin=lines)
    assert code == 1 and [bool(line) for line in out if "all 2 texts" not in line] == [True, False, True]
    assert len(err.splitlines()) == 1 and "line 2: " in err and "U+D800, is not valid Unicode" in err
    alone = [argument for argument in command if argument not in ("--file", "-")]
    code, out, err = blanklm(*alone, good.decode() + "\udcff")
    assert (code, out) == (1, []) and len(err.splitlines()) == 1 and "U+DCFF, is not valid Unicode" in err


@pytest.mark.parametrize("where", ["fill", "score"])
def test_an_error_of_any_class_spoils_its_own_line_only(blanklm, monkeypatch, where):
    """Whatever a text brings about in the model that nobody thought of."""
    from blanklm.api import BlankLM

    work = getattr(BlankLM, where)

    def fails(self, texts, *settings, **options):
        if any("bad" in str(getattr(text, "template", text)) for text in texts):
            raise ZeroDivisionError("by nobody's\nfault")
        return work(self, texts, *settings, **options)

    monkeypatch.setattr(BlankLM, where, fails)
    code, out, err = blanklm(where, stdin=b"good food ___ .\nbad food ___ .\nnice food ___ .\n")
    assert code == 1 and [bool(line) for line in out if "all 2 texts" not in line] == [True, False, True]
    assert "line 2: this text cannot be worked on (ZeroDivisionError: by nobody's fault): please report it" in err


def test_what_is_around_a_text_comes_back_and_one_line_in_is_one_line_out(tmp_path):
    """Byte-order mark, CRLF, a lone CR before it, no newline at the end; line breaks within a text are written \\n."""
    command = [sys.executable, "-m", "blanklm", "fill", "--model", YELP_WORDS]
    plain = b"\xef\xbb\xbfthe ___[1] .\r\nthe good ___[1] .\r\r\nno blank\r\nnice ___[1] !"
    done = subprocess.run(command, input=plain, capture_output=True)
    lines = done.stdout.split(b"\n")
    assert lines[0].startswith(b"\xef\xbb\xbfthe ") and lines[0].endswith(b" .\r") and lines[1].endswith(b" .\r\r")
    assert lines[2] == b"\r" and lines[3].startswith(b"nice ") and lines[3].endswith(b"!") and lines[4:] == [b""]
    records = [{"text": "the ___[1]\nand\r\nmore ."}, {"text": "a ___[1] ."}]
    raw = "\n".join(map(json.dumps, records)).encode()
    done = subprocess.run([*command, "--jsonl"], input=raw, capture_output=True)
    first, second, rest = done.stdout.split(b"\n")
    assert rest == b"" and first.endswith(b"\\nand\r\\nmore .") and second.startswith(b"a ")
    assert b"note: line 1: its line breaks are written \\n" in done.stderr
    done = subprocess.run([*command, "--jsonl", "--json"], input=raw, capture_output=True)
    assert json.loads(done.stdout.splitlines()[0])["fills"][0]["text"].endswith("\nand\r\nmore .")


def test_a_warning_or_an_error_never_prints_a_long_text_whole(blanklm):
    long = "x" * 100_000
    for arguments in (
        ["fill", f"{long} ___[1] ."],
        ["fill", f"___[{long}] ."],
        ["fill", "a ___", "--require", long],
        ["fill", "a ___", "--model", long],
        ["fill", f"{long} ___", "--strict"],
        ["restore", f"{long}[...] \ud800"],
        ["transfer", long, "--to", "negative"],
    ):
        _, _, err = blanklm(*arguments)
        assert len(err) < 1200 and len(err.splitlines()) == 1, arguments[0]


def test_what_the_model_reads_otherwise_than_the_user_may_think_is_said_in_one_line(blanklm, tmp_path):
    code, _, err = blanklm("score", "the qwertyuiop was good .", "--orders", 2)
    assert code == 0 and err.startswith("warning: the model does not know 'qwertyuiop'") and err.count("\n") == 1
    code, _, err = blanklm("score", "--stream", "--orders", 2, stdin=b"good qwerty .\nnice qwerty uiop .\n")
    assert code == 0 and "does not know 'qwerty', 'uiop'" in err and err.count("\n") == 1
    (tmp_path / "t.txt").write_text("the food was ___ .\ngood food .\n")
    _, _, err = blanklm("evaluate", "infilling", "--file", tmp_path / "t.txt", "--ratios", "30")
    assert err == "note: ___ counts as a word (texts that have it: 1); evaluate hides words of whole texts itself\n"


def test_training_words_on_ordinary_text_is_noted(blanklm, tmp_path):
    for text, noted in (("The food was good, and cheap.\n", True), ("the food was good , and cheap .\n", False)):
        (tmp_path / "t.txt").write_text(text * 40)
        out = tmp_path / f"run-{noted}"
        arguments = ("train", tmp_path / "t.txt", "--out", out, "--size", "tiny", "--steps", 1, "--tokenizer", "word")
        code, _, err = blanklm(*arguments)
        assert code == 0 and ('"end." and "end" are different words: try --tokenizer bpe' in err) == noted


def test_the_version_is_shown(blanklm):
    assert blanklm("--version") == (0, [f"blanklm {__version__}"], "")


def test_help_shows_flags_without_a_type_and_what_is_repeated_with_a_plain_one(blanklm):
    for command in ((), ("fill",), ("train",), ("serve",), ("transfer",), ("reproduce",)):
        code, lines, _ = blanklm(*command, "--help")
        assert code == 0 and lines and not any("<bool>" in line or "list[" in line for line in lines), command


@pytest.mark.parametrize("command", ["fill", "choose", "score", "repair"])
def test_without_a_text_at_a_terminal_the_example_is_of_the_same_command(blanklm, command):
    options = ["--options", "a|b"] if command == "choose" else []
    code, _, err = blanklm(command, *options)
    assert code == 1 and err.startswith(f"error: no text: write blanklm {command} ")


@pytest.mark.parametrize(
    ("command", "text", "noted"),
    [
        ("fill", "the ___[1] was [MASK] .", "[MASK]"),
        ("score", "the food was <mask> .", "<mask>"),
        ("repair", "the food was [MASK] .", "[MASK]"),
        ("score", "the food was good .", None),
    ],
)
def test_a_mask_that_is_read_as_text_is_noted(blanklm, command, text, noted):
    code, out, err = blanklm(command, text)
    assert code == 0 and out
    note = f"note: {noted} is read as it is written: a blank is ___, and blanklm fill fills it"
    assert (note in err) == (noted is not None)


def test_a_mask_where_options_go_is_named(blanklm):
    code, _, err = blanklm("choose", "the food was <mask> .", "--options", "good|bad")
    assert code == 1 and "there is no blank in the text: write ___ in place of <mask>" in err


def test_info_begins_with_what_a_model_is_for_and_reads_as_words(blanklm):
    code, out, _ = blanklm("info", "latin-attribution")
    assert code == 0 and out[1].split()[0] == "name" and out[2].startswith("summary")
    assert any(line.startswith("places ") and line.endswith(", ... (48 in all)") and len(line) < 250 for line in out)
    english = "\n".join(blanklm("info", "english")[1])
    assert re.search(r"whole_words +yes", english) and re.search(r"norm_epsilon +1e-05", english)


def test_an_extra_that_is_missing_comes_with_a_command_for_this_place(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert how_to_install("serve").endswith("pip install '.[serve]'")
    monkeypatch.chdir(tmp_path)
    assert how_to_install("serve").endswith(f"pip install '{ROOT}[serve]'")
    monkeypatch.setattr("blanklm.extras.HERE", tmp_path)
    monkeypatch.setattr("blanklm.extras._origin", lambda: None)
    packages = shlex.split(how_to_install("ray"))
    assert any(package.startswith("ray") for package in packages) and "blanklm" not in " ".join(packages[-2:])


@pytest.mark.parametrize(
    "constraint", [["--require", "<eos>"], ["--only", "<eos>"], ["--only", "<eos>", "--only", "a"]]
)
def test_special_tokens_are_never_written_not_even_where_they_are_asked_for(blanklm, constraint):
    code, out, err = blanklm("fill", "the ___ .", *constraint)
    assert code == 1 and out == [] and "'<eos>' is a special token, which is never written" in err


def test_a_trace_has_no_table_where_there_is_no_room_for_one():
    main_end, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "20"}
    command = [sys.executable, "-m", "blanklm", "fill", "the ___[2] .", "--trace", "--model", YELP_WORDS]
    subprocess.run(command, stdout=terminal, stdin=terminal, env=environment, timeout=60)
    os.close(terminal)
    shown = os.read(main_end, 10_000).decode()
    assert "__#1__" in shown and "0. #1" in shown and "2. -End-" in shown


def run_with(descriptors, *arguments, **settings):
    """Run a command by a shell that opens or closes its ``descriptors``: code, standard output and error."""
    command = f'"{sys.executable}" -m blanklm "$@" {descriptors}'
    environment = dict(settings.pop("env", os.environ))
    environment.pop("PYTHONUNBUFFERED", None)  # with it, nothing is left to be written at the end
    done = subprocess.run(
        ["sh", "-c", command, "sh", *map(str, arguments)], capture_output=True, timeout=60, env=environment, **settings
    )
    return done.returncode, done.stdout, done.stderr


def test_streams_that_are_closed_full_or_of_another_encoding_do_not_end_a_command():
    fill = ["fill", "the café qwerty ___[1] .", "--model", YELP_WORDS]
    code, out, _ = run_with("2>&-", *fill)
    assert code == 0 and out.startswith("the café qwerty ".encode())
    assert run_with("2>/dev/full", *fill)[:2] == (0, out)
    code, nothing, err = run_with(">/dev/full", *fill)
    assert code == 1 and nothing == b"" and err.splitlines()[-1] == b"error: output: No space left on device"
    assert run_with(">&-", *fill)[:2] == (0, b"")
    for encoding in ("ascii", "latin-1"):
        code, shown, err = run_with("", *fill, env=os.environ | {"PYTHONIOENCODING": encoding})
        assert code == 0 and shown.decode(encoding).startswith(
            ("the café ", "the café ".encode("ascii", "backslashreplace").decode())
        )
        assert b"Traceback" not in err
    latin = os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    code, shown, _ = run_with("", "fill", "--model", YELP_WORDS, input=f"{fill[1]}\n".encode(), env=latin)
    assert (code, shown) == (0, out)  # files and pipes are UTF-8, as what is read


def test_a_reader_that_leaves_is_told_by_the_usual_exit_code():
    process = subprocess.Popen(
        [sys.executable, "-m", "blanklm", "models"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert (process.wait(60), process.stderr.read()) == (141, b"")


def test_ctrl_c_says_that_the_command_stopped(tmp_path):
    os.mkfifo(tmp_path / "endless")
    command = [sys.executable, "-m", "blanklm", "fill", "--file", str(tmp_path / "endless"), "--model", YELP_WORDS]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with open(tmp_path / "endless", "wb"):  # opened when the command reads it
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (130, b"stopped\n")


def test_a_text_that_takes_long_says_how_far_it_is_and_how_long_the_rest_takes(capsys):
    """Seldom: 10 s, 20 s, 40 s apart, however many texts there are."""
    clock = itertools.count(step=1.0)
    patience = Patience(lambda: float(next(clock)))
    model = BlankLM.from_pretrained(YELP_WORDS)
    lines = [Line(3, "a ___ b"), Line(4, "___ " * 30)]
    watched = [model.prepare(line.text, None, patience.watch(line)) for line in lines]
    fills = model.fill(watched)
    assert fills == model.fill([line.text for line in lines])
    notes = capsys.readouterr().err.splitlines()
    assert (
        1 <= len(notes) <= 3
        and "blanks open" in notes[0]
        and "s to go, at least" in notes[0]
        and notes[-1].startswith("note: line 4")
    )
