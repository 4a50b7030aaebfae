"""The page for blind comparison: what is in it, and what it does in a real browser."""

import base64
import html
import json
import re
import subprocess

import pytest

from blanklm import pretrained
from blanklm.core.canvas import Fill, Template
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.tables import side_by_side
from blanklm.paper.tables.side_by_side import TEXTS, compare, page
from tests.paper.baselines.test_baselines import FillInMiddle, PredictorConfig, Tokenizer, checkpoint
from tests.support.baselines import LINES
from tests.support.browser import chromium
from tests.support.paths import ROOT

SENTENCES = [f'number {i} of the <b>texts</b> & "more" that are long enough to be compared here' for i in range(70)]


class System:
    def __init__(self, word, oracle=False):
        self.word, self.oracle = word, oracle

    def fill(self, texts, hidden=None):
        assert (hidden is not None) == self.oracle
        templates = [Template.parse(text) for text in texts]
        spans = [(self.word,) * len(template.blanks) for template in templates]
        return [Fill(t.render(s), s, 0.0) for t, s in zip(templates, spans, strict=True)]


@pytest.fixture(scope="module")
def rows():
    return compare({"first system": System("<i>one</i>"), "second system": System("two", oracle=True)}, SENTENCES)


def data_of(written):
    return json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', written, re.S)[1])


def test_all_systems_fill_the_same_blanks_of_fifty_texts(rows):
    assert len(rows) == TEXTS and len({row["canvas"] for row in rows}) == TEXTS
    for row in rows:
        template = Template.parse(row["canvas"])
        assert template.render(row["original"]) in SENTENCES
        assert row["fills"]["second system"] == ["two"] * len(template.blanks)
    assert rows == compare({"first system": System("<i>one</i>"), "second system": System("two", True)}, SENTENCES)


def test_the_page_holds_everything_and_names_nobody(rows):
    written = page(rows)
    assert "{{" not in written and not re.search(r"(src|href)=|https?:|@import|url\(", written)
    assert "first system" not in written and "second system" not in written
    data = data_of(written)
    key = json.loads(base64.b64decode(data["key"]))
    assert {tuple(names) for names in key} == {("first system", "second system"), ("second system", "first system")}
    for row, shown, names in zip(rows, data["rows"], key, strict=True):
        assert shown["pieces"] == list(Template.parse(row["canvas"]).pieces) and shown["original"] == row["original"]
        assert shown["options"] == [row["fills"][name] for name in names]


def test_nothing_to_compare_is_one_clear_error():
    with pytest.raises(BlankLMError, match="8 to 60 words"):
        compare({"a": System("x")}, ["too short"])


def test_in_a_browser_votes_are_counted_and_names_revealed(rows, tmp_path, tmp_path_factory):
    browser = chromium(tmp_path_factory)
    written = page(rows)
    key = json.loads(base64.b64decode(data_of(written)["key"]))
    choose_first = """<script>
      const before = document.body.innerText;
      for (let r = 0; r < 10; r++) document.querySelector(`[data-row="${r}"][data-option="0"]`).click();
      document.querySelector('[data-row="9"][data-option="0"]').click();   // taken back
      document.querySelector('[data-row="10"][data-option="-1"]').click();
      document.getElementById("reveal").click();
      document.title = JSON.stringify({ before, done: document.getElementById("done").innerText,
        result: document.getElementById("result").innerText, rows: document.querySelectorAll(".row").length,
        names: [...document.querySelectorAll(".name")].map(name => name.innerText),
        originals: [...document.querySelectorAll(".original")].every(part => !part.hidden) });
    </script>"""
    (tmp_path / "page.html").write_text(written.replace("</body>", choose_first + "</body>"), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [browser, *options, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=60
    )
    seen = json.loads(html.unescape(re.search(r"<title>(.*?)</title>", done.stdout, re.S)[1]))
    assert "first system" not in seen["before"] and "<i>one</i>" in seen["before"] and seen["rows"] == TEXTS
    assert seen["done"] == f"10 of {TEXTS} judged" and seen["originals"]
    for name in ("first system", "second system"):
        best = sum(names[0] == name for names in key[:9])
        assert re.search(rf"{name}\s+{best}\b", seen["result"])
    assert re.search(r"none, or cannot tell\s+1\b", seen["result"])
    assert seen["names"] == [name for names in key for name in names]


def test_from_models_to_page(tmp_path):
    tokenizer = Tokenizer.train("bpe", LINES, vocabulary=300)
    model = FillInMiddle(PredictorConfig(len(tokenizer), EncoderConfig(1, 2, 16, 32), max_length=60))
    checkpoint.save(tmp_path / "fim", model, tokenizer)
    (tmp_path / "texts.txt").write_text("\n".join(["the food was really good and the staff was friendly .", *LINES]))
    models = {"blm": pretrained.DEFAULT, "fim": str(tmp_path / "fim")}
    rows = side_by_side.main(tmp_path / "page.html", tmp_path / "texts.txt", models)
    assert json.loads((tmp_path / "page.json").read_text()) == rows and set(rows[0]["fills"]) == {"blm", "fim"}
    assert (tmp_path / "page.html").read_text() == page(rows)


def test_the_page_of_the_docs_is_that_of_the_results():
    rows = json.loads((ROOT / "results" / "tries" / "english-side-by-side.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "english-side-by-side.html").read_text(encoding="utf-8") == page(rows)
