"""The loop learns, resumes bit for bit, survives being killed, and says what is wrong."""

import itertools
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate.utils import DistributedType

from blanklm.core.likelihood import bound
from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import CheckpointError, TrainingError
from blanklm.paper.baselines.insertion import InsertionTransformer
from blanklm.paper.streams import TextsInContext
from blanklm.training import checkpoint
from blanklm.training.config import TrainingConfig
from blanklm.training.epochs import validation_epoch
from blanklm.training.optimizer import Average
from blanklm.training.processes import check_fit_together
from blanklm.training.quantise import grouped_matrices, rounded
from blanklm.training.run import Run, train
from blanklm.training.streamed import StreamedTexts
from tests.support.baselines import make
from tests.support.runs import SENTENCES, Payload, corpus, new_model


@pytest.mark.slow
def test_a_tiny_model_overfits_ten_sentences(tmp_path):
    """Knowing the ten by heart still leaves the choice among them: log 10 nats a text is the floor of the bound."""
    tokenizer, texts = corpus()
    many_canvases = TokenisedTexts.from_ids(tokenizer.encode_many(SENTENCES * 16))
    config = TrainingConfig(
        steps=800, tokens_per_batch=1024, learning_rate=3e-3, warmup=20, weight_decay=0, evaluate_every=800
    )
    train(new_model(tokenizer), tokenizer, many_canvases, texts, config, tmp_path, show_progress=False)
    model = checkpoint.load(tmp_path).model
    excess = -bound(model, [text.tolist() for text in texts], draws=40) - math.log(10)
    assert excess.sum() / texts.tokens < 0.1
    metrics = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    losses = [m["loss"] for m in metrics if "loss" in m]
    assert losses[0] > 3.5 and losses[-1] < 0.6
    assert any((tmp_path / "tensorboard").iterdir())


class Stop(Exception):
    pass


@pytest.mark.parametrize(
    ("ema", "optimizer", "bits"), [(0.0, "adamw", 0), (0.9, "adamw", 0), (0.9, "muon", 0), (0.9, "muon", 3)]
)
@pytest.mark.slow
def test_resuming_continues_bit_for_bit(tmp_path, ema, optimizer, bits):
    """40 steps = 20 steps, broken off some time later, and resumed; with dropout, so that random states matter."""
    tokenizer, texts = corpus()
    config = TrainingConfig(
        steps=40, tokens_per_batch=64, warmup=5, evaluate_every=10, save_every=20, log_every=6, ema=ema,
        optimizer=optimizer, bits=bits, bits_from=0.4,
    )  # fmt: skip

    def run(folder):
        return Run(new_model(tokenizer, dropout=0.2), tokenizer, texts, texts, config, folder, None)

    whole = run(tmp_path / "whole")
    whole.begin()
    whole.go(lambda *_: None)

    broken = run(tmp_path / "broken")
    broken.begin()

    def stop_at_30(*_):
        if broken.progress.step == 30:
            raise Stop

    with pytest.raises(Stop):
        broken.go(stop_at_30)
    torch.manual_seed(12345)
    resumed = run(tmp_path / "broken")
    resumed.restore()
    assert resumed.progress.step == 20
    resumed.go(lambda *_: None)

    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name
    kept = [checkpoint.load(tmp_path / name).model.state_dict() for name in ("whole", "broken")]
    assert all(torch.equal(kept[0][name], kept[1][name]) for name in kept[0])

    def without_time(folder):
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(x).items() if "second" not in k} for x in lines]

    assert without_time(tmp_path / "broken") == without_time(tmp_path / "whole")


@pytest.mark.parametrize("for_gpu", [False, True])
def test_workers_prepare_what_the_process_itself_would(tmp_path, for_gpu):
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=6, tokens_per_batch=30)
    run = Run(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, None)
    run.preparation.on_gpu = for_gpu
    expected = list(map(run.preparation.__getitem__, run._plan()))
    by_workers = list(run.preparation.in_workers(run._plan(), workers=2))
    assert len(by_workers) == len(expected) == 6
    for (planned, drawn, weight), (same_plan, same_drawn, same_weight) in zip(by_workers, expected, strict=True):
        assert (planned.tokens, planned.batch, weight) == (same_plan.tokens, same_plan.batch, same_weight)
        assert drawn.actions.packing.row == (64 if for_gpu else 0)
        torch.testing.assert_close(run.model(drawn), run.model(same_drawn))
        torch.testing.assert_close(run.model(drawn), run.model(run.model.prepare(planned.draw.collate(texts))))


def test_gradients_are_those_of_the_mean_loss_per_token(tmp_path):
    """Not per text; an optimizer that adapts to the scale of gradients would hide it."""
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=1, tokens_per_batch=64)
    run = Run(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, None)
    planned, prepared, weight = run.preparation[next(iter(run._plan()))]
    assert planned.tokens != len(planned.draw.indices)
    model = new_model(tokenizer)
    model.load_state_dict(run.model.state_dict())
    (model(prepared).sum() * weight / planned.tokens).backward()
    run._backward(planned, prepared, weight, planned.tokens)
    for (name, found), expected in zip(run.model.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, msg=name)


def test_the_learning_rate_rises_once_and_never_again():
    config = TrainingConfig(steps=100, warmup=10)
    rates = [config.learning_rate_at(step) for step in range(130)]
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1]) and rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[0] > 0 and rates[100:] == [0.0] * 30


def test_early_stopping_keeps_the_best_model(tmp_path):
    tokenizer, texts = corpus()
    other = TokenisedTexts.from_ids(tokenizer.encode_many(["found be to nowhere was rice the", "back be not will we"]))
    config = TrainingConfig(
        steps=2000, tokens_per_batch=512, learning_rate=3e-3, warmup=5, evaluate_every=10, save_every=1000, patience=3
    )
    progress = train(new_model(tokenizer), tokenizer, texts, other, config, tmp_path, show_progress=False)
    assert progress.step < 2000 and progress.step == progress.best_step + 30
    bounds = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert progress.best == min(m["valid_bound"] for m in bounds if "valid_bound" in m)


def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_model(tmp_path):
    tokenizer, texts = corpus()
    model = new_model(tokenizer)
    config = TrainingConfig(steps=50, tokens_per_batch=64, log_every=1, evaluate_every=5, save_every=5)
    run = Run(model, tokenizer, texts, texts, config, tmp_path, None)
    run.begin()

    def poison(*_):
        if run.progress.step == 7:
            model.word_bias.data.fill_(float("nan"))

    with pytest.raises(TrainingError, match=r"not a number by step 8: lower the learning rate"):
        run.go(poison)
    assert all(torch.isfinite(p).all() for p in checkpoint.load(tmp_path).model.parameters())
    assert (tmp_path / "state-00000005").is_dir()


def test_a_full_disk_while_saving_the_state_leaves_the_one_before(tmp_path, monkeypatch):
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=20, tokens_per_batch=64, evaluate_every=50, save_every=10, log_every=5)
    run = Run(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, None)
    run.begin()
    save_state = run.accelerator.save_state

    def full_at_20(folder):
        if run.progress.step == 20:
            raise OSError(28, "No space left on device")
        save_state(folder)

    monkeypatch.setattr(run.accelerator, "save_state", full_at_20)
    with pytest.raises(CheckpointError, match="No space left"):
        run.go(lambda *_: None)
    again = Run(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, None)
    again.restore()
    assert again.progress.step == 10


def test_what_cannot_be_started_or_resumed_is_named(tmp_path):
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=2, tokens_per_batch=64)

    def go(config=config, texts=texts, **options):
        train(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, show_progress=False, **options)

    with pytest.raises(TrainingError, match="no text to train on"):
        go(texts=TokenisedTexts.from_ids([[]]))
    with pytest.raises(TrainingError, match="no run to resume"):
        go(resume=True)
    go()
    with pytest.raises(TrainingError, match="holds a run already"):
        go()
    with pytest.raises(TrainingError, match="training setting warmup was 500 and is now 9"):
        go(TrainingConfig(steps=9, warmup=9, tokens_per_batch=64), resume=True)
    with pytest.raises(TrainingError, match="other texts"):
        go(texts=TokenisedTexts.from_ids([[5, 6]]), resume=True)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(TrainingError, match=r"run.json is damaged"):
        go(resume=True)
    (tmp_path / "run.json").unlink()
    with pytest.raises(TrainingError, match="holds a model already"):
        go()


def test_a_damaged_state_is_named(tmp_path):
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=4, tokens_per_batch=64, save_every=2, evaluate_every=2)
    train(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, show_progress=False)
    weights = tmp_path / "state-00000004" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(TrainingError, match="state-00000004 is damaged"):
        train(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, resume=True, show_progress=False)


def test_a_state_without_its_random_states_is_refused_and_not_resumed_as_another_run(tmp_path):
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=4, tokens_per_batch=64, save_every=2, evaluate_every=2)
    train(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, show_progress=False)
    (tmp_path / "state-00000004" / "random_states_0.pkl").unlink()
    with pytest.raises(TrainingError, match=r"is damaged \(there is no random_states_0.pkl\)"):
        train(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, resume=True, show_progress=False)


GARBAGE = [
    *(line + b"\n" for line in (b"\xff\xfe", b"not json", b"{}", b"[1]", b'{"step": null}', b'"step"', b"[" * 100_000)),
    b'{"st',
]


def test_garbage_among_the_metrics_is_dropped_when_a_run_is_resumed(tmp_path):
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=4, tokens_per_batch=64, save_every=2, evaluate_every=2, log_every=1)
    train(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, show_progress=False)
    metrics = tmp_path / "metrics.jsonl"
    lines = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(b"".join(lines[:2] + GARBAGE[:-1] + lines[2:] + GARBAGE[-1:]))
    train(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, resume=True, show_progress=False)
    assert metrics.read_bytes().splitlines(keepends=True)[: len(lines)] == lines


def test_a_run_resumed_in_the_middle_of_an_epoch_continues_bit_for_bit(tmp_path):
    """The state stands between two batches of an epoch of many; the batches after it are those that were to come."""
    tokenizer, _ = corpus()
    texts = TokenisedTexts.from_ids(tokenizer.encode_many([f"{a} {b}" for a in SENTENCES for b in SENTENCES]))
    config = TrainingConfig(steps=40, tokens_per_batch=64, warmup=5, evaluate_every=20, save_every=7, log_every=1)

    def run(folder):
        return Run(new_model(tokenizer, dropout=0.2), tokenizer, texts, texts, config, folder, None)

    whole = run(tmp_path / "whole")
    whole.begin()
    whole.go(lambda *_: None)

    def stop_at_31(*_):
        if broken.progress.step == 31:
            raise Stop

    broken = run(tmp_path / "broken")
    broken.begin()
    with pytest.raises(Stop):
        broken.go(stop_at_31)
    resumed = run(tmp_path / "broken")
    resumed.restore()
    assert resumed.progress.step == 28 and resumed.progress.epoch >= 1 and resumed.progress.batch > 1
    resumed.go(lambda *_: None)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name
    losses = [
        [json.loads(line).get("loss") for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "broken")
    ]
    assert losses[0] == losses[1]


def test_a_state_that_is_not_a_number_is_never_saved(tmp_path):
    """Even between two lines of the log."""
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=30, tokens_per_batch=64, log_every=20, save_every=5, evaluate_every=100)
    run = Run(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, None)
    run.begin()
    step = run._step

    def poisoned(*arguments):
        if run.progress.step == 11:
            run.model.word_bias.data.fill_(float("nan"))
        return step(*arguments)

    run._step = poisoned
    with pytest.raises(TrainingError, match="not a number"):
        run.go(lambda *_: None)
    assert [state.name for state in tmp_path.glob("state-*")] == ["state-00000010"]


ENDLESS = """
import sys
from pathlib import Path
from blanklm.training.config import TrainingConfig
from blanklm.training.run import train
from tests.support.runs import corpus, new_model
tokenizer, texts = corpus()
config = TrainingConfig(steps=10**6, tokens_per_batch=64, evaluate_every=1, save_every=1, log_every=1)
train(new_model(tokenizer), tokenizer, texts, texts, config, Path(sys.argv[1]), resume=sys.argv[2] == "resume",
      show_progress=False)
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_leaves_a_model_and_a_state_to_resume(tmp_path):
    folder, steps = tmp_path / "run", []
    for pause in (0.0, 0.13, 0.29):
        command = [sys.executable, "-c", ENDLESS, str(folder), "resume" if steps else "begin"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        written = steps[-1] if steps else -1
        while time.monotonic() < deadline and process.poll() is None:
            states = sorted(folder.glob("state-*"))
            if states and int(states[-1].name[6:]) > written + 2:
                break
            time.sleep(0.01)
        time.sleep(pause)
        os.kill(process.pid, signal.SIGKILL)
        _, stderr = process.communicate()
        checkpoint.load(folder)
        steps.append(int(sorted(folder.glob("state-*"))[-1].name[6:]))
        assert steps[-1] > written, stderr.decode()[-2000:]


def test_ctrl_c_finishes_the_step_evaluates_saves_and_says_so(tmp_path, capsys):
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=40, tokens_per_batch=64, warmup=5, log_every=1)

    def run(folder, interrupt_at=None):
        run = Run(new_model(tokenizer, dropout=0.2), tokenizer, texts, texts, config, folder, None)
        run.restore() if (folder / "run.json").exists() else run.begin()
        run.go(lambda *_: signal.raise_signal(signal.SIGINT) if run.progress.step == interrupt_at else None)
        return run

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", interrupt_at=12)
    assert signal.getsignal(signal.SIGINT) is before
    said = capsys.readouterr().err
    assert f"saved at step 13 of 40 in {tmp_path / 'broken'}: continue with --resume" in said
    assert "untrained" not in checkpoint.load(tmp_path / "broken").about
    whole, resumed = run(tmp_path / "whole"), run(tmp_path / "broken")
    assert resumed.progress.step == 40
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name


def test_a_second_ctrl_c_stops_at_once(tmp_path):
    tokenizer, texts = corpus()
    run = Run(new_model(tokenizer), tokenizer, texts, texts, TrainingConfig(log_every=1), tmp_path, None)
    run.begin()
    interrupts = (signal.raise_signal(signal.SIGINT) for _ in itertools.count())
    with pytest.raises(KeyboardInterrupt):
        run.go(lambda *_: (next(interrupts), next(interrupts)))
    assert not list(tmp_path.glob("state-*"))


def test_a_state_is_saved_whenever_a_minute_of_work_has_passed(tmp_path, monkeypatch):
    monkeypatch.setattr("blanklm.training.run.SAVE_SECONDS", 0.0)
    monkeypatch.setattr("blanklm.training.run.SAVING", 1e9)
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=3, tokens_per_batch=64)
    run = Run(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, None)
    run.begin()
    saved = []
    monkeypatch.setattr(run.files, "save_state", saved.append)
    run.go(lambda *_: None)
    assert saved == [1, 2, 3]


def test_how_long_the_run_takes_is_estimated_early_and_once(tmp_path, monkeypatch):
    monkeypatch.setattr("blanklm.training.run.ESTIMATE_SECONDS", 0.0)
    tokenizer, texts = corpus()
    run = Run(
        new_model(tokenizer), tokenizer, texts, texts, TrainingConfig(steps=6, tokens_per_batch=64), tmp_path, None
    )
    run.begin()
    estimates = []
    run.go(lambda *_: None, lambda seconds: estimates.append((run.progress.step, seconds)))
    assert [step for step, _ in estimates] == [2] and estimates[0][1] > 0


# --- Short of memory, a clock that jumps, files made to do harm ----------------------------------------------------


def weights_after(folder, memory=None, dtype=torch.float32, **options):
    """The weights after a few steps with room for ``memory`` texts at a time."""
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=6, tokens_per_batch=64, warmup=1, evaluate_every=6, save_every=6, **options)
    run = Run(new_model(tokenizer), tokenizer, texts, texts, config, folder, None)
    run.begin()
    run.model.to(dtype)
    forward = run.model.forward

    def limited(drawn):
        if memory is not None and len(drawn.lengths) > memory:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return forward(drawn)

    run.model.forward = limited
    run.go(lambda *_: None)
    return run, {name: tensor.clone() for name, tensor in run.model.state_dict().items()}


def test_half_precision_on_a_cpu_trains_nearly_as_float32_does(tmp_path):
    """Activations are rounded to eight bits of fraction, weights and their updates are not."""
    runs = [weights_after(tmp_path / precision, precision=precision)[0] for precision in ("float32", "bf16")]
    assert all(p.dtype == torch.float32 for p in runs[1].model.parameters())
    exact, rounded = (json.loads((r.folder / "metrics.jsonl").read_text().splitlines()[0])["loss"] for r in runs)
    assert exact != rounded and rounded == pytest.approx(exact, rel=0.01)
    with pytest.raises(TrainingError, match="precision must be auto or bf16 or float32, not 'fp8'"):
        TrainingConfig(precision="fp8")


def test_short_of_memory_a_batch_is_cut_and_the_update_stays_the_same(tmp_path):
    """In doubles: in float32 the optimizer makes as much as it likes of a gradient that is nothing but rounding."""
    _, expected = weights_after(tmp_path / "enough", dtype=torch.float64)
    run, found = weights_after(tmp_path / "short", memory=2, dtype=torch.float64)
    assert run.pieces > 1
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=1e-9, rtol=1e-9)
    records = [
        (folder / "metrics.jsonl").read_text().splitlines() for folder in (tmp_path / "enough", tmp_path / "short")
    ]
    for a, b in zip(*(map(json.loads, lines) for lines in records), strict=True):
        assert a["tokens"] == b["tokens"] and a.get("loss", 0) == pytest.approx(b.get("loss", 0), abs=1e-5)


def test_pieces_are_prepared_where_the_model_of_the_preparation_is_and_then_moved(tmp_path):
    """On a GPU that model stays on the CPU, with its buffers; ``meta`` stands for the other device."""
    tokenizer, texts = corpus()
    run = Run(new_model(tokenizer), tokenizer, texts, texts, TrainingConfig(steps=1), tmp_path, None)
    run.preparation.device = torch.device("meta")
    pieces = run.preparation.in_pieces(next(run._plan()), 2)
    assert len(pieces) == 2 and all(p.lengths.is_meta and p.actions.packing.starts.is_meta for p in pieces)


def test_a_single_text_that_does_not_fit_is_named(tmp_path):
    with pytest.raises(TrainingError, match="out of memory at step 1: lower tokens_per_batch or max_length"):
        weights_after(tmp_path, memory=0)


def test_a_gradient_that_is_not_a_number_stops_the_run(tmp_path):
    """The loss is a number still; the first bad gradient must not reach the weights on disk."""
    tokenizer, texts = corpus()
    config = TrainingConfig(steps=9, tokens_per_batch=64, log_every=1, save_every=2, evaluate_every=100)
    run = Run(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, None)
    run.begin()
    run.model.word_bias.register_hook(lambda gradient: gradient * math.nan if run.progress.step == 5 else gradient)
    with pytest.raises(TrainingError, match="not a number by step 6"):
        run.go(lambda *_: None)
    assert [state.name for state in tmp_path.glob("state-*")] == ["state-00000004"]


def test_the_average_soon_forgets_the_weights_that_a_run_began_with():
    model = new_model(corpus()[0])
    average = Average(model, 0.999)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    for _ in range(30):
        average.update(list(model.parameters()))
    for weights in average.weights:
        torch.testing.assert_close(weights, torch.ones_like(weights))


def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    """A day back at every look: speeds come from a clock that cannot, and the newest state is the one of most steps."""
    _, expected = weights_after(tmp_path / "steady", log_every=1)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 86_400 * next(days))
    days = itertools.count()
    run, found = weights_after(tmp_path / "jumping", log_every=1)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    records = [json.loads(line) for line in (tmp_path / "jumping/metrics.jsonl").read_text().splitlines()]
    assert all(record["seconds"] >= 0 and record.get("tokens_per_second", 1) > 0 for record in records)
    for age, name in enumerate(("state-00000003", "state-00000006")):  # by the clock the older one is newer
        (tmp_path / "jumping" / name).mkdir(exist_ok=True)
        os.utime(tmp_path / "jumping" / name, (now - age * 1e6, now - age * 1e6))
    run.restore()
    assert run.progress.step == 6


@pytest.mark.parametrize("name", ["optimizer.bin", "random_states_0.pkl", "custom_checkpoint_0.pkl"])
def test_a_pickle_in_a_state_that_would_run_something_is_refused(tmp_path, name):
    run, _ = weights_after(tmp_path / "run")
    (path,) = (tmp_path / "run").glob(f"state-*/{name}")
    path.write_bytes(pickle.dumps(Payload(tmp_path / "owned"), protocol=2))
    with pytest.raises(TrainingError, match="is damaged"):
        run.restore()
    assert not (tmp_path / "owned").exists()


def test_streamed_texts_resume_bit_for_bit(tmp_path):
    """In the middle of an epoch, and with other files refused."""
    tokenizer, validation = corpus()
    shards = [tmp_path / f"{i}.txt" for i in range(3)]
    for i, shard in enumerate(shards):
        shard.write_text("".join(f"{sentence}\n" for sentence in SENTENCES[i:]) * 9)
    config = TrainingConfig(steps=20, tokens_per_batch=64, warmup=2, evaluate_every=10, save_every=5, log_every=3)

    def run(folder, files=shards):
        texts = StreamedTexts(files, tokenizer.encode_many)
        return Run(new_model(tokenizer, dropout=0.2), tokenizer, texts, validation, config, tmp_path / folder, None)

    whole = run("whole")
    whole.begin()
    whole.go(lambda *_: None)
    broken = run("broken")
    broken.begin()

    def stop_at_12(*_):
        if broken.progress.step == 12:
            raise Stop

    with pytest.raises(Stop):
        broken.go(stop_at_12)
    torch.manual_seed(12345)
    resumed = run("broken")
    resumed.restore()
    assert resumed.progress.step == 10 and resumed.progress.places[0].batch > 0
    resumed.go(lambda *_: None)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name
    with pytest.raises(TrainingError, match="other texts"):
        run("broken", shards[:2]).restore()
    resumed.progress.places *= 2
    resumed.files.save_state(resumed.progress.step)
    with pytest.raises(TrainingError, match="2 processes shared its texts, not 1"):
        run("broken").restore()


def test_the_clock_ends_a_run_and_lowers_the_rate_before(tmp_path):
    config = TrainingConfig(steps=10**6, warmup=0, seconds=10.0)
    assert config.learning_rate_at(5, 5.0) == pytest.approx(0.5)
    assert config.learning_rate_at(5, 10.0) == pytest.approx(0.0)
    assert TrainingConfig(steps=10**6, warmup=0).learning_rate_at(5, 10.0) == pytest.approx(1.0, abs=1e-6)
    tokenizer, texts = corpus()
    short = TrainingConfig(steps=10**6, tokens_per_batch=64, evaluate_every=10**6, save_every=10**6, seconds=0.5)
    progress = train(new_model(tokenizer), tokenizer, texts, texts, short, tmp_path, show_progress=False)
    assert 0 < progress.step < 10**6 and 0.5 <= progress.seconds < 5
    assert progress.best_step == progress.step  # evaluated once more at the end
    assert (tmp_path / f"state-{progress.step:08d}").is_dir()


# --- Weights that will be stored at a few bits ---------------------------------------------------------------------


def trained_for(bits, folder, bits_from=0.5, **options):
    """Train a tiny model; return the run's progress, and the bound of the model as kept and as stored at few bits."""
    tokenizer, texts = corpus()
    many_canvases = TokenisedTexts.from_ids(tokenizer.encode_many(SENTENCES * 4))
    settings = {"steps": 100, "tokens_per_batch": 512, "warmup": 10, "evaluate_every": 25} | options
    config = TrainingConfig(
        learning_rate=3e-3, weight_decay=0, save_every=10**6, bits=bits, bits_from=bits_from, **settings
    )
    progress = train(new_model(tokenizer), tokenizer, many_canvases, texts, config, folder / "run", show_progress=False)
    kept = checkpoint.load(folder / "run").model

    def bound_at(bits):
        checkpoint.save(folder / f"stored-{bits}", kept, tokenizer, bits=bits)
        model = checkpoint.load(folder / f"stored-{bits}").model
        with torch.no_grad():
            losses = [model.loss(model.prepare(draw.collate(texts))).sum() for draw in validation_epoch(texts, 512)]
        return float(sum(losses)) / texts.tokens

    return progress, kept, bound_at


@pytest.mark.parametrize("ema", [0.0, 0.5])
def test_a_run_for_few_bits_learns_and_reports_the_bound_of_what_is_stored(tmp_path, ema):
    progress, kept, bound_at = trained_for(4, tmp_path, ema=ema)
    bounds = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    bounds = [record["valid_bound"] for record in bounds if "valid_bound" in record]
    assert progress.best == bounds[-1] < bounds[0] - 0.5
    assert bound_at(4) == pytest.approx(progress.best, abs=0.005)  # the embeddings are not rounded in training
    assert any(not torch.equal(matrix, rounded(matrix, 4)) for matrix in grouped_matrices(kept).values())


@pytest.mark.slow
def test_a_run_for_two_bits_is_better_at_two_bits_than_one_that_does_not_know(tmp_path):
    aware, _, aware_at = trained_for(2, tmp_path / "aware")
    plain, _, plain_at = trained_for(0, tmp_path / "plain")
    assert plain.best < aware.best
    assert aware_at(2) < plain_at(2) - 0.03


def test_the_exact_weights_are_trained_and_a_run_that_never_rounds_is_as_one_without(tmp_path):
    few = {"steps": 8, "tokens_per_batch": 64, "warmup": 1, "evaluate_every": 4}
    _, plain, _ = trained_for(0, tmp_path / "plain", **few)
    _, never, _ = trained_for(3, tmp_path / "never", bits_from=1.0, **few)
    _, always, _ = trained_for(3, tmp_path / "always", bits_from=0.0, **few)
    states = [model.state_dict() for model in (plain, never, always)]
    assert all(torch.equal(states[0][name], tensor) for name, tensor in states[1].items())
    assert not all(torch.equal(states[0][name], tensor) for name, tensor in states[2].items())


def test_rounding_begins_at_its_share_of_the_steps_or_the_seconds():
    config = TrainingConfig(steps=110, warmup=10, bits=4, bits_from=0.7)
    assert [config.rounds_at(step) for step in (0, 79, 80, 110)] == [False, False, True, True]
    assert TrainingConfig(steps=110, warmup=10, bits=4, bits_from=0).rounds_at(0)
    assert not TrainingConfig(steps=110, warmup=10).rounds_at(110)
    timed = TrainingConfig(steps=10**6, bits=4, bits_from=0.7, seconds=10)
    assert [timed.rounds_at(2000, seconds) for seconds in (6.9, 7.1)] == [False, True]
    for wrong in ({"bits": 1}, {"bits": 9}, {"bits_from": 1.1}):
        with pytest.raises(TrainingError, match="must be"):
            TrainingConfig(**wrong)


def test_sharded_weights_are_not_rounded():
    tokenizer, texts = corpus()
    accelerator = SimpleNamespace(distributed_type=DistributedType.FSDP, num_processes=1)
    with pytest.raises(TrainingError, match="sharded over processes cannot be rounded in training: leave out bits"):
        check_fit_together(new_model(tokenizer), texts, texts, TrainingConfig(steps=1, bits=4), accelerator)


def test_when_rounding_begins_the_best_model_is_chosen_anew_and_a_resumed_run_keeps_to_it(tmp_path):
    """A bound of exact weights says nothing of the rounded ones, which at two bits are much worse."""
    tokenizer, texts = corpus()
    config = TrainingConfig(
        steps=12, tokens_per_batch=64, warmup=0, evaluate_every=2, save_every=2, learning_rate=3e-3, bits=2,
        bits_from=0.5,
    )  # fmt: skip
    run = Run(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, None)
    run.begin()
    best = []

    def stop_at_10(*_):
        if run.progress.step == 10:
            raise Stop

    def noted(save=run._keep_best):
        best.append(run.progress.best_step)
        save()

    run._keep_best = noted
    evaluate = run._evaluate

    def evaluated():
        run.progress.best -= 100 if run.progress.step == 6 else 0  # nothing could be better
        evaluate()
        stop_at_10()

    run._evaluate = evaluated
    with pytest.raises(Stop):
        run.go(lambda *_: None)
    assert 6 not in best and 8 in best
    resumed = Run(new_model(tokenizer), tokenizer, texts, texts, config, tmp_path, None)
    resumed.restore()
    assert resumed.progress.step == 8 and resumed.rounds and math.isfinite(resumed.progress.best)


def test_a_model_without_support_for_context_says_so(tmp_path):
    model, tokenizer = make(InsertionTransformer, 12), Tokenizer.train("word", ["a b c d e f g h i j"])
    chunks = TextsInContext(np.array([5, 6, 7, 8, 9]), [2, 2, 1], 2)
    with pytest.raises(TrainingError, match="InsertionTransformer does not support context"):
        train(model, tokenizer, chunks, chunks, TrainingConfig(steps=1), tmp_path / "run")
