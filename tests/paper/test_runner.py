"""The experiment runner: steps in their order or in processes, failures, and the provenance of rows."""

import json
import pickle
import re
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from blanklm.errors import BlankLMError
from blanklm.paper import provenance, runner
from blanklm.paper.runner import Experiment, Step
from blanklm.paper.tables import infilling, language_modelling, restoration, sentiment
from blanklm.training.config import TrainingConfig
from tests.support.paths import ROOT


def leave(path: Path, fails: bool, say) -> None:
    if fails:
        raise ValueError("no")
    assert not path.exists()
    path.write_text("done")


def step(folder: Path, name: str, *after: str, fails: bool = False) -> Step:
    return Step(name, partial(leave, folder / name, fails), (folder / name).exists, after)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_steps_are_done_once_and_after_those_they_need(tmp_path, jobs):
    steps = [step(tmp_path, "first"), step(tmp_path, "second", "first", "of another list"), step(tmp_path, "third")]
    (tmp_path / "third").write_text("before")
    runner.run_steps(steps, jobs)
    times = [(tmp_path / name).stat().st_mtime_ns for name in ("third", "first", "second")]
    assert times == sorted(times) and (tmp_path / "third").read_text() == "before"
    runner.run_steps(steps, jobs)
    assert [(tmp_path / name).stat().st_mtime_ns for name in ("third", "first", "second")] == times


@pytest.mark.slow
def test_in_processes_a_failure_stops_only_what_comes_after_it(tmp_path, capfd):
    steps = [step(tmp_path, "bad", fails=True), step(tmp_path, "later", "bad"), step(tmp_path, "other")]
    with pytest.raises(BlankLMError, match="bad failed: repair the error above and run"):
        runner.run_steps(steps, jobs=2)
    assert (tmp_path / "other").exists() and not (tmp_path / "later").exists()
    assert "ValueError: no" in capfd.readouterr().err
    with pytest.raises(BlankLMError, match="at least 1"):
        runner.run_steps(steps, jobs=0)


@dataclass(frozen=True, kw_only=True)
class Counted(Experiment):
    """A system that starts from the one before it in the alphabet; its row counts the models there are."""

    @property
    def starts_from(self):
        return () if self.system == "a" else (Counted(out=self.out, corpus=self.corpus, system="a"),)

    def train(self, say):
        assert all(other.trained() for other in self.starts_from)
        provenance.write_json(self.training_file, {"steps": 1})

    def measure(self, say):
        return {"models": len(list(self.out.glob("*/*/training.json")))}


@pytest.mark.parametrize("jobs", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_experiments_are_trained_and_measured_and_their_rows_say_where_they_come_from(tmp_path, jobs):
    experiments = [Counted(out=tmp_path, corpus="text", system=name) for name in "bca"]
    rows = runner.run_experiments(experiments, jobs)
    assert all(row["models"] >= 2 for row in rows[:2])
    assert rows == [json.loads((tmp_path / "results" / f"text-{name}.json").read_text()) for name in "bca"]
    again = runner.run_experiments(experiments, jobs)
    assert again == rows  # with the same date
    for row in rows:
        assert set(row["provenance"]) == {"commit", "clean", "date", "hardware", "versions", "command", "seconds"}


def test_the_provenance_of_a_checkout_and_of_an_installed_package(monkeypatch, tmp_path):
    here = provenance.provenance()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", here["date"])
    assert here["hardware"]["cores"] >= 1 and here["hardware"]["memory_gib"] > 0 and here["versions"]["torch"]
    if (ROOT / ".git").exists():
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        assert here["commit"] == head and isinstance(here["clean"], bool)
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert provenance.provenance()["commit"] is provenance.provenance()["clean"] is None


def test_unknown_names_are_refused_and_known_ones_put_in_the_order_of_the_table():
    assert runner.choose("system", ["b", "a"], "abc", "abc") == ["a", "b"]
    assert runner.choose("system", None, "abc", "ac") == ["a", "c"]
    with pytest.raises(BlankLMError, match="there is no system 'd' in this table: choose a, b, c"):
        runner.choose("system", ["d"], "abc", "abc")


def test_the_steps_of_every_table_can_be_sent_to_processes(tmp_path):
    steps = sentiment.steps(tmp_path, "yelp")
    for table in (infilling, language_modelling, restoration):
        for experiment in table.experiments(tmp_path):
            steps += runner.training_steps([experiment]).values()
            pickle.dumps(experiment.write_row)
    for one in steps:
        pickle.dumps(one.work)


def test_a_copy_of_the_code_is_told_its_commit_and_commands_name_no_folders(monkeypatch):
    monkeypatch.setenv("BLANKLM_COMMIT", "abc")
    monkeypatch.setattr("sys.argv", ["/anywhere/english.py", "/elsewhere/out.json", "--seconds", "3"])
    told = provenance.provenance()
    assert (told["commit"], told["clean"]) == ("abc", True)
    assert told["command"] == "english.py out.json --seconds 3"


def test_every_system_reads_as_many_tokens_whatever_its_batches():
    budget = runner.Budget.parse("100M")
    for batch in (8192, 32_768, 131_072):
        config = budget.limit(TrainingConfig(steps=7, tokens_per_batch=batch, evaluate_every=10**6, warmup=300))
        assert abs(config.steps * config.tokens_per_batch - 10**8) < batch and config.tokens_per_batch == batch
        assert config.evaluate_every == config.steps // 20 and config.warmup == min(300, config.steps // 10)
        assert config.patience == runner.PATIENCE
    own = TrainingConfig(steps=7)
    assert runner.WHOLE_RECIPE.limit(own) == own
    assert runner.Budget.parse("5000").tokens == 5000 and runner.Budget.parse("small").small
