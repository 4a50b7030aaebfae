"""Training in stages by the clock: which texts are read when, and how it continues where it was cut off."""

import itertools

import pytest

from blanklm.paper.bundled.staged_run import Stage, StagedRun, train_in_stages
from blanklm.training.config import TrainingConfig
from tests.support.runs import corpus, new_model

STAGES = [Stage(0, 10, 0.5), Stage(0, 4, 1.0)]  # all texts, then the first four
CONFIG = TrainingConfig(tokens_per_batch=16, seconds=1000.0, log_every=1, evaluate_every=4, save_every=1, warmup=1)


def new_run(folder):
    tokenizer, texts = corpus()
    return StagedRun(STAGES, texts, new_model(tokenizer), tokenizer, texts, texts, CONFIG, folder, {})


def test_the_second_stage_reads_its_texts_alone(tmp_path, monkeypatch):
    run = new_run(tmp_path)
    monkeypatch.setattr(StagedRun, "elapsed", 0.0)
    first = {int(i) for planned in itertools.islice(run._plan(), 12) for i in planned.draw.indices}
    monkeypatch.setattr(StagedRun, "elapsed", 600.0)
    second = {int(i) for planned in itertools.islice(run._plan(), 12) for i in planned.draw.indices}
    assert first == set(range(10)) and second == set(range(4))


def test_a_run_that_was_cut_off_continues_and_reads_no_canvas_twice(tmp_path, monkeypatch):
    run = new_run(tmp_path)
    run.begin()

    def cut_off(loss, speed):
        if run.progress.step == 3:
            raise KeyboardInterrupt

    seen = [tuple(planned.draw.seeds) for planned in itertools.islice(run._plan(), 20)]
    with pytest.raises(KeyboardInterrupt):
        run.go(cut_off)
    again = new_run(tmp_path)
    again.restore()
    assert again.progress.step >= 2 and again.progress.seconds > 0
    planned = list(itertools.islice(again._plan(), 3))
    assert planned[0].epoch == again.progress.epoch + 1
    assert not {tuple(one.draw.seeds) for one in planned} & set(seen[: again.progress.step])
    monkeypatch.setattr(StagedRun, "elapsed", property(lambda self: 2000.0 if self.progress.step >= 5 else 1.0))
    tokenizer, texts = corpus()
    said = []
    progress = train_in_stages(
        new_model(tokenizer), tokenizer, texts, STAGES, texts, CONFIG, tmp_path, {}, say=said.append
    )
    assert progress.step >= 5 and said[0].startswith("step 3")
