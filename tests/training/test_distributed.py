"""Several processes train as one does, stop when one of them dies, and go on from the last state."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor

from blanklm.errors import TrainingError
from blanklm.training import checkpoint, processes
from blanklm.training import run as training_run
from blanklm.training.config import TrainingConfig
from blanklm.training.run import Run
from blanklm.training.streamed import StreamedTexts
from tests.support.paths import ROOT
from tests.support.runs import SENTENCES, corpus, new_model

pytestmark = pytest.mark.slow
CONFIG = TrainingConfig(steps=16, tokens_per_batch=96, warmup=2, evaluate_every=8, save_every=4, log_every=3)


def make_run(folder: Path, streamed: bool, dropout: float) -> Run:
    tokenizer, texts = corpus()
    validation = texts
    if streamed:
        shards = sorted((folder.parent / "shards").glob("*.txt"))
        texts = StreamedTexts(shards, tokenizer.encode_many)
    return Run(new_model(tokenizer, dropout), tokenizer, texts, validation, CONFIG, folder, None)


class Sharding(Accelerator):
    """Accelerate shards on GPUs only, though what it calls in torch works on CPUs too; so it is told that it does."""

    def __init__(self, **options):
        super().__init__(**options)
        policy = {"auto_wrap_policy": "transformer_based_wrap", "transformer_cls_names_to_wrap": ["EncoderLayer"]}
        plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type="SHARDED_STATE_DICT", **policy)
        for state in (AcceleratorState, PartialState):
            state._shared_state["distributed_type"] = DistributedType.FSDP
        AcceleratorState._shared_state["fsdp_plugin"] = plugin


def as_one_of_several(
    folder: str, streamed: bool, dropout: float, resume: bool, die_at: int, memory: int, sharded: bool
) -> None:
    """What each process does; the last one may die, and may have memory for so many texts at a time."""
    torch.set_num_threads(1)
    if sharded:
        processes.Accelerator = Sharding
    run = make_run(Path(folder), streamed, dropout)
    assert isinstance(next(run.model.parameters()), DTensor) == sharded
    last = run.accelerator.process_index == run.accelerator.num_processes - 1
    step, forward = run._step, run.accelerator.unwrap_model(run.model).forward

    def limited(drawn):
        if len(drawn.lengths) > memory:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(drawn)

    def mortal(*arguments):
        if run.progress.step == die_at and last:
            Path(folder, "died").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*arguments)

    run._step = mortal
    if last and memory:
        run.accelerator.unwrap_model(run.model).forward = limited
    run.restore() if resume else run.begin()
    run.go(lambda *_: None)
    if last and memory:
        assert run.pieces > 1


def together(processes, folder, streamed=False, dropout=0.0, resume=False, die_at=-1, memory=0, sharded=False):
    arguments = (str(folder), streamed, dropout, resume, die_at, memory, sharded)
    # What still knows the group of processes goes before Python does: the group's threads must not outlive it.
    run = "from tests.training.test_distributed import as_one_of_several as run"
    code = f"import gc; {run}; run(*{arguments!r}); gc.collect()"
    script = folder.parent / f"{folder.name}.py"
    script.write_text(code)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), str(script)]
    path = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *launch], env=environment, capture_output=True, text=True, timeout=90, cwd=folder.parent
    )


def losses(folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [record.get("loss", record.get("valid_bound")) for record in records], records


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The run of a single process."""
    run = make_run(tmp_path_factory.mktemp("alone") / "run", streamed=False, dropout=0.0)
    run.begin()
    run.go(lambda *_: None)
    return run


def check_the_same(folder, done, alone):
    """The curve to 1e-4, and the weights of the best model."""
    assert done.returncode == 0, done.stderr[-3000:]
    (found, own_records), (expected, records) = losses(folder), losses(alone.folder)
    assert len(expected) == 8
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < 1e-4
    assert [r["tokens"] for r in own_records] == [r["tokens"] for r in records]
    for name, tensor in checkpoint.load(folder).model.state_dict().items():
        torch.testing.assert_close(tensor, alone.model.state_dict()[name], atol=1e-4, rtol=1e-3)


def test_two_processes_of_which_one_is_short_of_memory_train_as_one_does(tmp_path, alone):
    check_the_same(tmp_path / "run", together(2, tmp_path / "run", memory=2), alone)


def test_four_processes_train_as_one_does(tmp_path, alone):
    check_the_same(tmp_path / "run", together(4, tmp_path / "run"), alone)


def test_processes_with_other_texts_or_words_do_not_train_together(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", streamed=False, dropout=0.0)
    monkeypatch.setattr(training_run, "gather_object", lambda own: [*own, "what another process has"])
    with pytest.raises(TrainingError, match="do not have the same texts"):
        run.begin()
    assert not (tmp_path / "run").exists()


def test_weights_sharded_over_processes_train_and_resume_as_whole_ones_do(tmp_path, alone):
    assert together(2, tmp_path / "run", sharded=True, die_at=10).returncode != 0
    assert [state.name for state in (tmp_path / "run").glob("state-*")] == ["state-00000008"]
    check_the_same(tmp_path / "run", together(2, tmp_path / "run", sharded=True, resume=True), alone)


def test_a_run_whose_process_was_killed_stops_at_once_and_resumes_to_the_same_weights(tmp_path):
    """With dropout and streamed texts, so that random states and each process's place in its files matter."""
    (tmp_path / "shards").mkdir()
    for shard in range(5):
        (tmp_path / "shards" / f"{shard}.txt").write_text("".join(f"{s}\n" for s in SENTENCES[shard:]) * 4)
    options = {"streamed": True, "dropout": 0.2}
    assert together(2, tmp_path / "whole", **options).returncode == 0
    broken = tmp_path / "broken"
    done = together(2, broken, die_at=10, **options)
    assert done.returncode != 0 and time.time() - float((broken / "died").read_text()) < 15
    assert "another process of this run died" in done.stderr or "Signal 9 (SIGKILL)" in done.stderr
    assert [state.name for state in broken.glob("state-*")] == ["state-00000008"]
    done = together(2, broken, resume=True, **options)
    assert done.returncode == 0, done.stderr[-3000:]
    weights = [load_file(tmp_path / name / "state-00000016/model.safetensors") for name in ("whole", "broken")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert losses(broken)[0] == pytest.approx(losses(tmp_path / "whole")[0], abs=1e-6)
