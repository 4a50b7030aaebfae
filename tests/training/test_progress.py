"""What people see of a run: how long it still takes, in a line that fits the terminal."""

import re

import pytest

from blanklm.training.config import TrainingConfig
from blanklm.training.progress import Progress, progress_bar, seconds_left


@pytest.mark.parametrize(
    ("limit", "left"),
    [(0.0, 300.0), (120.0, 20.0), (90.0, 0.0), (1000.0, 300.0)],
)
def test_the_time_left_is_that_of_the_steps_or_until_the_clock_ends_the_run(limit, left):
    progress = Progress(step=50, seconds=100.0)
    assert seconds_left(progress, TrainingConfig(steps=200, seconds=limit)) == left


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_bar_gives_way_to_the_words(capfd, monkeypatch, columns):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", columns)
    progress, config = Progress(step=120, seconds=90.0, best=7.688), TrainingConfig(steps=10_000, seconds=120.0)
    with progress_bar(progress, config) as watch:
        watch.estimate(0.75)
        watch.advance(4.743, 579.0)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capfd.readouterr().err)
    assert "about 30 s for about 40 steps of 0.8 s; Ctrl-C saves and stops" in shown
    last = re.split(r"[\r\n]+", shown.strip())[-1]
    assert last.startswith("step 120/160 ") and "loss 4.743, best valid 7.688, 579 tokens/s" in last
    assert re.search(r"(30|29) s left$", last.strip()) and "…" not in last and len(last) <= int(columns)
