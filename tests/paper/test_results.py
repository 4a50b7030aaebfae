"""Every result says where it comes from: commit, date, machine, versions, command, seconds, what was read."""

import json
import re
from datetime import datetime

import pytest

from blanklm.paper.provenance import recorded
from tests.support.paths import ROOT

RESULTS = {str(path.relative_to(ROOT / "results").with_suffix("")): path for path in ROOT.glob("results/**/*.json")}
PUBLISHED = {"infilling/paper", "language-modelling/paper", "restoration/paper", "sentiment-paper"}  # by others
PUBLISHED |= {"sentence-completion/published", "blimp/published", "restoration/attribution-published"}
# Measured before there was one writer of results. This list only ever becomes shorter: whatever is measured again
# leaves it.
BEFORE = {
    "": """
        sentiment-amazon sentiment-choice sentiment-yelp
    """,
    "benchmarks": """
        core-cpu core-cuda curve-cpu filling-cpu likelihood-gpu peers-cpu scale-cpu serving-cpu
        streaming-cpu training-cpu training-gpu
    """,
    "infilling": """
        yahoo-bert-lm yahoo-blm-english yahoo-blm-greedy yahoo-blm-minilm yahoo-blm-model yahoo-blm-parallel
        yahoo-blm yahoo-insertion-free yahoo-insertion yahoo-lm yahoo-mlm-left-to-right yahoo-mlm-one-shot yahoo-mlm
        yahoo-seq2seq-fill yahoo-seq2seq-full yahoo-speed yelp-bert-lm yelp-blm-greedy yelp-blm-minilm
        yelp-blm-model yelp-blm-parallel yelp-blm yelp-insertion-free yelp-insertion yelp-lm yelp-mlm-left-to-right
        yelp-mlm-one-shot yelp-mlm yelp-seq2seq-fill yelp-seq2seq-full
    """,
    "language-modelling": """
        ptb-blm-128 ptb-blm-context ptb-blm ptb-insertion ptb-lm wikitext2-blm-128 wikitext2-blm-context
        wikitext2-blm wikitext2-insertion wikitext2-lm
    """,
    "models": """
        yelp-words
    """,
    "restoration": """
        greek-lblm greek-pythia-word greek-pythia greek-words greek latin-words latin
    """,
}
ONE_WRITER = "2026-11-18"  # since when there is one
WITH_SECONDS = "2026-11-20"  # since when it writes the seconds


def results() -> dict[str, dict]:
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in RESULTS.items()}


def missing(row: dict) -> list[str]:
    """What a result does not say of where it comes from."""
    about = row.get("provenance", {})
    hardware, versions = about.get("hardware", {}), about.get("versions", {})
    trained = row if "tokens_per_second" in row and "training" in row else row.get("training")
    says = {
        "commit": re.fullmatch("[0-9a-f]{40}", about.get("commit") or ""),
        "clean": about.get("clean") is True,
        "date": about.get("date") and datetime.fromisoformat(about["date"]).tzinfo,
        "hardware": hardware.get("cpu") and hardware.get("cores") and hardware.get("memory_gib"),
        "versions": versions.get("python") and versions.get("torch"),
        "command": about.get("command"),
        "seconds": about.get("seconds") or about.get("date", "") < WITH_SECONDS,
        "steps": not isinstance(trained, dict) or trained.get("steps"),
        "tokens read": not isinstance(trained, dict) or trained.get("tokens_read"),
    }
    return [name for name, said in says.items() if not said]


@pytest.mark.parametrize("name", sorted(set(RESULTS) - PUBLISHED))
def test_a_result_says_where_it_comes_from(name):
    row = results()[name]
    assert not recorded(row) or missing(row) == []


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_what_others_published_names_its_source(name):
    assert len(results()[name]["source"]) > 20


def test_results_without_provenance_are_those_of_the_list_alone_and_old():
    listed = {f"{folder}/{name}".strip("/") for folder, names in BEFORE.items() for name in names.split()}
    before = {name: row["provenance"] for name, row in results().items() if not recorded(row)}
    assert set(before) == listed
    for name, about in before.items():
        assert re.fullmatch("[0-9a-f]{40}", about["file_commit"]) and about["file_date"] < ONE_WRITER, name


def test_a_result_that_says_too_little_is_noticed():
    row = next(row for row in results().values() if row.get("tokens_read") and recorded(row))
    assert missing(row) == [] and missing({}) != []
    for name in ("commit", "date", "hardware", "versions", "command"):
        about = {key: value for key, value in row["provenance"].items() if key != name}
        assert name in missing(row | {"provenance": about})
    assert missing(row | {"provenance": row["provenance"] | {"clean": False}}) == ["clean"]
    assert missing(row | {"provenance": row["provenance"] | {"date": "2027-01-01T00:00:00+00:00"}}) == ["seconds"]
    assert missing({name: value for name, value in row.items() if name != "tokens_read"}) == ["tokens read"]
