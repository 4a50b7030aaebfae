"""Each table is one command, and with the small budget one of minutes on a CPU; here on a few made-up lines."""

import json
import re
import shlex

import pytest

from blanklm.errors import BlankLMError
from blanklm.paper import runner
from blanklm.paper.tables import (
    infilling_systems,
    language_modelling,
    restoration,
    sentence_completion,
    sentiment,
    sentiment_pools,
)
from blanklm.paper.tasks.sentiment import PUBLISHED
from tests.support.paths import ROOT

PARAGRAPH = "It was a dark night, and the rain fell on the old house. He opened the door and looked at the long road."
DOCUMENT = "what is the best way to learn ? read a book every day and write a little of what you know ."
GREEK = "αγαθηι τυχηι εδοξεν τηι βουληι και τωι δημωι διονυσιοσ ανηρ αγαθοσ ων διατελει"
LATIN = "dis manibus sacrum vixit annos xx et iulia pia hic sita est sit tibi terra levis"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A few lines of every corpus, and a moment for every training."""
    question = {"text": "It was a ___ night .", "natural": "It was a ___ night.", "answer": "a"}
    question["options"] = ["dark", "book", "learn", "day", "door"]
    sat = question | {"text": "He ___ the ___.", "options": [["opened", "door"], ["looked", "road"], ["fell", "rain"]]}
    files = {f"sentence_completion/train.{part}.txt": [PARAGRAPH] * 300 for part in range(3)}
    files |= {"sentence_completion/msr.questions.jsonl": [json.dumps(question)] * 4}
    files |= {"sentence_completion/sat.questions.jsonl": [json.dumps({**sat, "natural": sat["text"]})] * 3}
    files |= {f"yahoo/{split}.txt": [f"{split} {DOCUMENT}"] * 40 for split in ("valid", "test")}
    files |= {f"ptb/{split}.txt": [" the company said it expects to sell N million shares "] * 40 for split in SPLITS}
    files |= {f"edh_latin/{split}.txt": [LATIN] * 8 for split in ("train", "valid")}
    files |= {"edh_latin/test.txt": [LATIN.replace("xx", "xv")] * 8, "edh_latin/test.marked.txt": ["dis [man]ibus"]}
    for style, text in enumerate(("the food was bad", "the food was good")):
        files |= {f"yelp/{split}.{style}": [f"{text} in {n} ways ." for n in range(30)] for split in SPLITS}
        files |= {f"yelp/reference.{style}.{k}": ["the food was fine ."] * 30 for k in range(4)}
        files |= {f"yelp/baseline_outputs/{name}.test.{style}.tsf": [text] * 30 for name in PUBLISHED["yelp"]}
    for name, lines in files.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("BLANKLM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(runner, "SMALL_TOKENS", 8_000)
    monkeypatch.setattr(restoration, "SMALL_SECONDS", 0.3)
    monkeypatch.setattr(infilling_systems, "HELD_OUT", 8)
    monkeypatch.setattr(sentiment_pools, "VALIDATION", 2)
    for cached in (infilling_systems._yahoo, language_modelling.tokenised, sentence_completion.paragraphs):
        cached.cache_clear()
    yield tmp_path
    for cached in (infilling_systems._yahoo, language_modelling.tokenised, sentence_completion.paragraphs):
        cached.cache_clear()


SPLITS = ("train", "valid", "test")
SMALL = {  # a table, its corpus, systems of it, and the results that it leaves
    "infilling": ("yahoo", ["lm", "blm"], ["yahoo-lm", "yahoo-blm"]),
    "language-modelling": ("ptb", ["blm"], ["ptb-blm"]),
    "restoration": ("latin", ["latin"], ["latin"]),
    "sentence-completion": ("novels", ["blm"], ["novels-blm"]),
    "sentiment": ("yelp", [], ["yelp"]),
}


@pytest.mark.parametrize("table", SMALL)
@pytest.mark.slow
def test_a_table_is_one_command_that_does_nothing_twice(data, blanklm, table):
    corpus, systems, results = SMALL[table]
    chosen = [option for name in systems for option in ("--system", name)]
    command = ("reproduce", table, "--out", data / "out", "--corpus", corpus, *chosen, "--budget", "small")
    code, lines, said = blanklm(*command)
    assert code == 0 and lines, said
    written = {name: json.loads((data / "out" / "results" / f"{name}.json").read_text()) for name in results}
    for row in written.values():
        trainings = list(row["parts"].values()) if table == "sentiment" else [row.get("training", row)]
        assert row["provenance"]["date"] and row["provenance"]["seconds"] > 0
        assert all(training.get("tokens_read", row.get("tokens_read")) > 0 for training in trainings)
    code, again, said = blanklm(*command)
    assert code == 0 and again == lines and said == ""


def test_a_budget_that_is_none_is_refused(tmp_path, blanklm):
    for bad in ("", "0", "M", "1.5M", "large", "-5"):
        with pytest.raises(BlankLMError, match="--budget is small, or the tokens"):
            runner.Budget.parse(bad)
    code, _, said = blanklm("reproduce", "restoration", "--out", tmp_path, "--budget", "5M")
    assert code == 1 and "give all the same --seconds" in said
    code, _, said = blanklm("reproduce", "blimp", "--out", tmp_path, "--budget", "small")
    assert code == 1 and "does not take --budget" in said


def test_the_commands_that_measure_the_tables_again_are_understood(tmp_path, monkeypatch, blanklm):
    """All but what takes a GPU: the trainings and measurements that each of them plans."""
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    commands = re.findall(r"^(blanklm reproduce [^#\n]*)", guide, re.MULTILINE)
    planned: list[str] = []

    def plan(experiments, jobs, say):
        planned.extend(experiment.name for experiment in experiments)
        return []

    def plan_sentiment(out, corpora=None, seconds=0.0, start=None, jobs=1, say=None, budget=None):
        assert (ROOT / start / "config.json").exists() and budget.tokens
        planned.extend(step.name for step in sentiment.steps(out, "yelp", seconds, start, budget))
        return []

    monkeypatch.setattr(runner, "run_experiments", plan)
    monkeypatch.setattr(sentiment, "run", plan_sentiment)
    monkeypatch.chdir(tmp_path)
    for command in commands:
        before = len(planned)
        code, _, said = blanklm(*shlex.split(command)[1:])
        assert code == 0 and len(planned) > before, (command, said)
    assert len(commands) == 10 and {"yahoo blm", "ptb blm-context", "latin latin", "novels blm"} <= set(planned)
