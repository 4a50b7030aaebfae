"""The experiment runner: train, measure, write the row; one experiment after another, or ``jobs`` at a time.

An experiment is a system on a corpus. OUT/CORPUS/SYSTEM holds its training run and what it made on the way,
OUT/results/CORPUS-SYSTEM.json the row of the table. Whatever is in its file already is not done again, and a training
run that was cut off is resumed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.models.model import Model
from blanklm.paper.provenance import Row, read_json, report, write_json, write_result
from blanklm.training.run import Run, TrainingConfig

SMALL_TOKENS, SMALL_BATCH = 100_000, 2048
PATIENCE = 8  # evaluations without a better loss, after which a training that has a budget ends

Say = Callable[[str], None]


def print_line(message: str) -> None:
    """Print at once. Not ``print`` itself, which other libraries replace and which then cannot go to a process."""
    print(message, flush=True)


@dataclass(frozen=True)
class Step:
    """Work that is done once; ``done`` looks whether its files are there."""

    name: str
    work: Callable[[Say], object]
    done: Callable[[], bool]
    after: tuple[str, ...] = ()  # steps that come before it, where they are to be done at all


def run_steps(steps: Sequence[Step], jobs: int = 1, say: Say = print_line) -> None:
    """Do the steps in their order, or up to ``jobs`` at a time, each in a process of its own."""
    if jobs < 1:
        raise BlankLMError(f"--jobs must be at least 1, not {jobs}")
    if jobs > 1:
        _run_in_processes(steps, jobs, say)
        return
    for step in steps:
        if not step.done():
            step.work(say)


def _run_in_processes(steps: Sequence[Step], jobs: int, say: Say) -> None:
    """A step that fails stops only those that come after it, and is named at the end."""
    context, threads = get_context("spawn"), max(1, (os.cpu_count() or 1) // jobs)
    waiting = {step.name: step for step in steps if not step.done()}
    running: dict[str, BaseProcess] = {}
    failed: list[str] = []
    while waiting or running:
        unfinished = {*waiting, *running, *failed}
        ready = [step for step in waiting.values() if unfinished.isdisjoint(step.after)]
        for step in ready[: jobs - len(running)]:
            running[step.name] = context.Process(target=_work, args=(step.work, say, threads), name=step.name)
            running[step.name].start()
            del waiting[step.name]
        if not running:
            break  # what is left needs something that failed
        wait([process.sentinel for process in running.values()])
        for name, process in list(running.items()):
            if not process.is_alive():
                failed += [name] if process.exitcode else []
                del running[name]
    if failed:
        raise BlankLMError(f"{', '.join(failed)} failed: repair the error above and run the same command again")


def _work(work: Callable[[Say], object], say: Say, threads: int) -> None:
    torch.set_num_threads(threads)
    work(say)


@dataclass(frozen=True)
class Budget:
    """What each training of a table may read; by default each system reads as much as its own recipe says."""

    tokens: int = 0
    small: bool = False  # tiny models on a few texts, in minutes on a CPU: to see that all of it runs

    @classmethod
    def parse(cls, written: str) -> Budget:
        """Read "small", or the tokens that every system is to read: "100M", "50000"."""
        if written == "small":
            return cls(SMALL_TOKENS, small=True)
        number = re.fullmatch(r"([1-9]\d{0,11})(M?)", written)
        if number is None:
            raise BlankLMError(f"--budget is small, or the tokens that each system reads, as 100M; not {written!r}")
        return cls(int(number[1]) * (10**6 if number[2] else 1))

    def limit(self, config: TrainingConfig) -> TrainingConfig:
        """Return the settings of a training that reads these tokens, in batches of its own size.

        Validation losses are looked at after every twentieth of it, and all systems have as much patience with them.
        """
        if not self.tokens:
            return config
        batch = min(config.tokens_per_batch, SMALL_BATCH) if self.small else config.tokens_per_batch
        steps = max(1, round(self.tokens / batch))
        warmup, often = min(config.warmup, steps // 10), max(1, steps // 20)
        limited = replace(config, steps=steps, tokens_per_batch=batch, warmup=warmup)
        return replace(limited, evaluate_every=often, patience=PATIENCE)


WHOLE_RECIPE = Budget()


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A system on a corpus, both by name, in the folder of a reproduction."""

    out: Path
    corpus: str
    system: str
    seconds: float = 0.0  # wall-clock limit of training; 0: train for all steps
    budget: Budget = WHOLE_RECIPE

    @property
    def name(self) -> str:
        return f"{self.corpus} {self.system}"

    @property
    def folder(self) -> Path:
        return self.out / self.corpus / self.system

    @property
    def run_folder(self) -> Path:
        """The folder of the model."""
        return self.folder / "run"

    @property
    def row_file(self) -> Path:
        return self.out / "results" / f"{self.corpus}-{self.system}.json"

    @property
    def training_file(self) -> Path:
        return self.run_folder.parent / "training.json"

    @property
    def starts_from(self) -> tuple[Experiment, ...]:
        """Experiments whose models it takes to train."""
        return ()

    @property
    def measured_with(self) -> tuple[Experiment, ...]:
        """Experiments whose models it takes to measure, besides its own."""
        return ()

    @property
    def has_model(self) -> bool:
        """Whether it trains a model, instead of measuring another experiment's."""
        return True

    def trained(self) -> bool:
        return self.training_file.exists()

    def done(self) -> bool:
        return self.row_file.exists()

    def train(self, say: Say) -> None:
        raise NotImplementedError

    def measure(self, say: Say) -> Row:
        raise NotImplementedError

    def row(self) -> Row:
        return read_json(self.row_file)

    def write_row(self, say: Say) -> Row:
        return write_result(self.row_file, self.measure(say))

    def fit(
        self,
        model: Model,
        tokenizer: Tokenizer,
        texts: TokenisedTexts,
        held_out: TokenisedTexts,
        config: TrainingConfig,
        say: Say,
        facts: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """Train, or resume training, and write the report of it, with ``facts`` that are found out afterwards."""
        begun = self.run_folder / "run.json"
        # A run that was cut off keeps its limit, so that its learning rates are those of one run.
        seconds = read_json(begun)["training"]["seconds"] if begun.exists() else self.seconds
        config = replace(self.budget.limit(config), seconds=seconds)
        about = {"name": f"{self.corpus}-{self.system}", "data": self.corpus}
        run = Run(model, tokenizer, texts, held_out, config, self.run_folder, about)
        if begun.exists():
            run.restore()
        else:
            run.begin()
        progress, started = run.progress, time.perf_counter() - run.progress.seconds

        def advance(loss: float, speed: float) -> None:
            best = f", best valid {progress.best:.4f} at {progress.best_step}" if progress.best_step else ""
            say(f"{self.name} step {progress.step}: loss {loss:.4f}{best}, {speed:,.0f} tokens/s")

        run.go(advance)
        result = report(self.name, model, config, progress, time.perf_counter() - started)
        write_json(self.training_file, result | {"epochs": round(progress.tokens / texts.tokens, 1)} | facts())


@dataclass(frozen=True, kw_only=True)
class UntrainedExperiment(Experiment):
    """A bundled model, or ``model`` in its place, measured on so many texts: nothing is trained."""

    texts: int
    model: Path | None = None

    @property
    def has_model(self) -> bool:
        return False


def training_steps(experiments: Iterable[Experiment]) -> dict[str, Step]:
    """The trainings of experiments, each after those that it starts from, by name."""
    steps: dict[str, Step] = {}
    for experiment in experiments:
        steps |= training_steps(experiment.starts_from)
        if experiment.has_model:
            after = tuple(training_steps(experiment.starts_from))
            steps[f"train {experiment.name}"] = Step(
                f"train {experiment.name}", experiment.train, experiment.trained, after
            )
    return steps


def run_experiments(experiments: Sequence[Experiment], jobs: int = 1, say: Say = print_line) -> list[Row]:
    """Train and measure whatever is not done yet, and return the rows of all."""
    steps: dict[str, Step] = {}
    for experiment in experiments:
        if not experiment.done():
            trainings = training_steps((*experiment.measured_with, experiment))
            name = f"measure {experiment.name}"
            steps |= trainings | {name: Step(name, experiment.write_row, experiment.done, tuple(trainings))}
    run_steps(list(steps.values()), jobs, say)
    return [experiment.row() for experiment in experiments]


def choose(kind: str, names: Sequence[str] | None, known: Iterable[str], default: Iterable[str]) -> list[str]:
    """The named corpora or systems in the order of the table; those of ``default`` where none are named."""
    known = list(known)
    for name in names or ():
        if name not in known:
            raise BlankLMError(f"there is no {kind} {name!r} in this table: choose {', '.join(known)}")
    chosen = set(names or default)
    return [name for name in known if name in chosen]
