"""Tables: what is bold, and what they show of results that a run brings."""

import json
import shutil

import pytest

from blanklm.paper.render import commands, outside, source
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
    """A copy of the results there are, to which a test may add."""
    (tmp_path / "src" / "blanklm").mkdir(parents=True)
    shutil.copytree(ROOT / "results", tmp_path / "results")
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


def test_the_command_of_every_result_stands_beside_it_as_it_was_typed(results):
    about = {"commit": "a" * 40, "clean": True, "date": "2026-12-01T10:00:00+00:00", "seconds": 1234.5}
    about |= {"command": "__main__.py reproduce blimp --out runs", "hardware": {"gpu": None, "cpu": "X", "cores": 4}}
    (results / "sentence-completion" / "new.json").write_text(json.dumps({"provenance": about}))
    table = commands.commands().splitlines()
    assert (
        "| `sentence-completion/new` | `blanklm reproduce blimp --out runs` | aaaaaaa | 2026-12-01 | 4 x X | 1,234 |"
        in table
    )
    without = [line for line in table if "`infilling/" in line or "published" in line]
    assert without == [] and len(table) > 30
