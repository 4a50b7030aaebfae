"""Tables: what is bold, and what they show of results that a run brings."""

import json

import pytest

from blanklm.paper.render import outside, source
from blanklm.paper.render.source import in_bold
from tests.support.paths import ROOT


def test_bold_is_what_is_ahead_of_all_beyond_the_intervals_of_both():
    assert in_bold([50.0, 40.0], [[45.0, 55.0], [35.0, 44.0]]) == ["**50.0**", "40.0"]
    assert in_bold([50.0, 40.0], [[45.0, 55.0], [35.0, 46.0]]) == ["50.0", "40.0"]
    assert in_bold([50.0, 40.0], [[45.0, 55.0], [35.0, 44.0]], lowest=True) == ["50.0", "**40.0**"]
    assert in_bold([50.0, None, 40.0], [[45.0, 55.0], None, [35.0, 44.0]]) == ["**50.0**", "", "40.0"]


def test_nothing_is_bold_where_a_row_has_no_interval_or_stands_alone():
    assert in_bold([90.0, 40.0], [[89.0, 91.0], None]) == ["90.0", "40.0"]
    assert in_bold([90.0], [[89.0, 91.0]]) == ["90.0"] and in_bold([90, None], [[89, 91], None], "d") == ["90", ""]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Copies of the results there are, to which a test may add."""
    (tmp_path / "src" / "blanklm").mkdir(parents=True)
    (tmp_path / "results").mkdir()
    for folder in (ROOT / "results").iterdir():
        (tmp_path / "results" / folder.name).symlink_to(folder)
    (tmp_path / "results" / "sentence-completion").unlink()
    (tmp_path / "results" / "sentence-completion").mkdir()
    for path in (ROOT / "results" / "sentence-completion").iterdir():
        (tmp_path / "results" / "sentence-completion" / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    source.checkout.cache_clear()
    yield tmp_path / "results"
    source.checkout.cache_clear()


def test_a_model_of_the_novels_alone_stands_between_the_published_rows_and_the_bundled_models(results):
    before = outside.choosing()
    answers = {"accuracy": 0.5, "interval": [0.4, 0.6], "questions": 100}
    row = {"label": "BLM, the novels alone", "msr": answers, "sat": answers, "provenance": {"commit": "0" * 40}}
    (results / "sentence-completion" / "novels-blm.json").write_text(json.dumps(row))
    added = [line for line in outside.choosing().splitlines() if line not in before.splitlines()]
    assert added == ["| BLM, the novels alone | 50.0% (40.0% to 60.0%) |  |  | 50.0% (40.0% to 60.0%) |"]
    assert [line.split(" |")[0] for line in outside.choosing().splitlines()][3:6] == [
        "| the same in both directions (published)",
        "| BLM, the novels alone",
        "| english",
    ]
