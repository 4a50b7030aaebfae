"""``blanklm evaluate infilling --blanks spans``; the paper's protocol is tested in test_cli.py."""

import gzip
import json

import pytest

from blanklm.api import BlankLM
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.encoder import EncoderConfig
from blanklm.models.span_blm import SpanBLM, SpanBLMConfig
from blanklm.paper.baselines.left_to_right import LeftToRight
from blanklm.paper.baselines.masked import Masked
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.training import checkpoint

LINES = ["the food was really good . we liked the nice staff .", "i will never come back to this place again !"]
ROW = {"texts", "blanks", "hidden", "written", "written_to_hidden", "exact", "length_error", "failure_rate", "bleu"}
ROW |= {"echoes", "distinct", "hidden_distinct", "intervals"}


@pytest.fixture
def command(tmp_path):
    (tmp_path / "held-out.txt").write_text("\n".join(LINES * 2) + "\n\n")
    return ["evaluate", "infilling", "--blanks", "spans", "--file", tmp_path / "held-out.txt"]


def save(folder, kind, config):
    tokenizer = Tokenizer.train("word", LINES)
    checkpoint.save(folder, kind(config(len(tokenizer))), tokenizer)
    return folder


def predictor(vocabulary):
    return PredictorConfig(vocabulary, EncoderConfig(1, 2, 16, 32), max_length=20)


def both_kinds_of_blanks(vocabulary):
    return SpanBLMConfig(vocabulary, EncoderConfig(1, 2, 16, 32), sides_hidden=16, spans=0.5, max_length=20)


def test_spans_are_measured_by_kind(blanklm, command):
    code, out, _ = blanklm(*command, "--seed", 3, "--json")
    report = json.loads(out[0])
    assert code == 0 and list(report["kinds"]) == ["1", "2", "3", "5", "8", "sentence"]
    assert report["blanks"] == "spans" and "ratios" not in report and "order" not in report
    assert report["kinds"]["2"]["texts"] == 4 and report["kinds"]["8"]["texts"] == 0
    assert report["kinds"]["sentence"]["texts"] == 2
    assert all(set(row) == ROW for row in report["kinds"].values())
    assert report == json.loads(blanklm(*command, "--seed", 3, "--json")[1][0])


def test_the_table_has_a_row_for_each_kind_that_is_chosen(blanklm, command):
    code, out, _ = blanklm(*command, "--kinds", "2,8,sentence")
    assert code == 0 and out[0] == "4 texts" and [line.split()[0] for line in out[2:]] == ["2", "8", "sentence"]
    heads = ["kind", "texts", "hidden", "written", "exact", "length error", "BLEU", "distinct", "echoes", "failures"]
    assert out[1].replace("length error", "length_error").split() == [head.replace(" ", "_") for head in heads]
    assert out[2].split()[1:3] == ["4", "2.00"] and out[3].split()[1:] == ["0"] + ["-"] * 8


@pytest.mark.parametrize("chosen", [{}, {"order": "parallel"}, {"beam": 2}])
def test_a_model_that_knows_both_kinds_of_blanks_is_told_that_these_are_spans(
    blanklm, command, tmp_path, monkeypatch, chosen
):
    asked = []
    fill = BlankLM.fill
    monkeypatch.setattr(BlankLM, "fill", lambda self, texts, **options: asked.append(options) or fill(self, texts))
    flags = [part for name, value in chosen.items() for part in (f"--{name}", value)]
    assert blanklm(*command, "--kinds", "2", *flags)[0] == 0  # knows words only
    folder = save(tmp_path / "both", SpanBLM, both_kinds_of_blanks)
    assert blanklm(*command, "--kinds", "2", "--model", folder, *flags)[0] == 0
    words, both = ({name: value for name, value in options.items() if name != "progress"} for options in asked)
    assert words == chosen and both == chosen | {"blanks": "spans"}


def test_a_baseline_fills_spans_and_a_left_to_right_model_judges(blanklm, command, tmp_path):
    model, judge = (save(tmp_path / kind.__name__, kind, predictor) for kind in (Masked, LeftToRight))
    code, out, _ = blanklm(*command, "--kinds", "1,3", "--model", model, "--judge", judge)
    assert code == 0 and out[1].split()[-2:] == ["perplexity", "(original)"] and float(out[2].split()[-1]) > 1
    code, _, err = blanklm(*command, "--model", model, "--beam", 2)
    assert code == 1 and "--beam" in err


def test_a_published_language_model_judges_whatever_was_hidden(blanklm, command, tmp_path):
    pytest.importorskip("gguf")
    from tests.support.backbones import publish_tied, write_gguf

    folder = publish_tied(tmp_path / "hub", "llama")
    judged = []
    for judge in (folder, write_gguf(tmp_path / "tiny.gguf", folder)):
        code, out, _ = blanklm(*command, "--kinds", "2", "--judge", judge, "--device", "cpu", "--json")
        (row,) = json.loads(out[0])["kinds"].values()
        low, high = row["intervals"]["original_perplexity"]
        assert code == 0 and row["perplexity"] > 1 and low <= row["original_perplexity"] <= high
        judged.append(row["perplexity"])
    assert judged[0] == pytest.approx(judged[1], rel=1e-3)
    words = [part if part != "spans" else "words" for part in command]
    code, out, _ = blanklm(*words, "--ratios", 30, "--judge", folder, "--device", "cpu", "--json")
    assert code == 0 and json.loads(out[0])["ratios"]["0.3"]["perplexity"] > 1


def test_what_does_not_fit_the_protocol_is_refused_in_one_line(blanklm, command, tmp_path):
    words = [part if part != "spans" else "words" for part in command]
    for bad, said in (
        ([*command, "--ratios", "30"], "--ratios"),
        ([*command, "--kinds", "2,many"], "--kinds"),
        ([*command, "--kinds", "0"], "--kinds"),
        ([*command, "--judge", tmp_path / "nothing"], "nothing"),
        ([*words, "--kinds", "2"], "--blanks spans"),
        ([*words, "--kinds", "2", "--ratios", "30"], "--blanks spans"),
    ):
        code, _, err = blanklm(*bad)
        assert code == 1 and len(err.splitlines()) == 1 and err.startswith("error: ") and said in err


def test_questions_and_middles_of_ones_own_are_evaluated(blanklm, tmp_path):
    questions, items = tmp_path / "questions.jsonl", tmp_path / "items.jsonl.gz"
    asked = [
        {"text": "the food was ___ .", "options": ["good", "place"], "answer": "a", "group": "one"},
        {"options": ["the food was good .", "the good was food ."], "answer": 0, "group": "two"},
    ]
    questions.write_text("\n".join(map(json.dumps, asked)))
    items.write_bytes(gzip.compress(b'{"text": "the food ___ good .", "references": ["was", "is very"]}\n'))
    code, out, _ = blanklm("evaluate", "choices", "--file", questions)
    assert code == 0 and out == ["2 questions: 100.0% right (100.0% to 100.0%)", "  100.0%  one", "  100.0%  two"]
    code, out, _ = blanklm("evaluate", "middles", "--file", items, "--json")
    assert code == 0 and json.loads(out[0])["items"] == 1
    code, out, _ = blanklm("evaluate", "middles", "--file", items)
    assert code == 0 and out[0].startswith("1 items: BLEU ")
    for command, message in (
        (("middles", "--file", questions), "line 1 is no item"),
        (("choices", "--file", items), "line 1 is no question"),
        (("choices", "--file", questions, "--beam", 2), "choices does not take --beam: leave it out"),
    ):
        code, _, err = blanklm("evaluate", *command)
        assert code == 1 and message in err
