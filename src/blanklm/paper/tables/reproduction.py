"""What the recipes that reproduce a table have in common: the files of a system, and processes that a clock ends."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from blanklm.training.run import WORKERS


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """A system on a corpus, in the folder of a reproduction."""

    out: Path
    corpus: Any  # the recipe's own, which has a name
    name: str
    seconds: float = 0.0  # of training, where the clock is to end it
    workers: int = WORKERS
    compiles: bool = True  # on a GPU: pays where a system has it to itself for some minutes

    @property
    def folder(self) -> Path:
        return self.out / self.corpus.name / self.name

    @property
    def row(self) -> Path:
        return self.out / "results" / f"{self.corpus.name}-{self.name}.json"


@dataclass
class Clock:
    seconds: float
    began: float = field(default_factory=time.monotonic)

    @property
    def part(self) -> float:
        """Of the time there is, how much is over."""
        return (time.monotonic() - self.began) / self.seconds

    def left_until(self, part: float) -> float:
        return (part - self.part) * self.seconds


@dataclass(kw_only=True)
class Together:
    """Processes side by side; one that fails does not stop the others, and says why in OUT/logs."""

    out: Path
    corpus: str  # of the table; "all" where there are several
    clock: Clock
    running: dict[str, BaseProcess] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.out / "logs").mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # to ask for a GPU must not begin to use it

    def name_of(self, work: Callable[..., None], *arguments: Any) -> str:
        return "-".join(map(str, (work.__name__, self.corpus, *arguments)))

    def launch(self, work: Callable[..., None], *arguments: Any) -> str:
        """Begin some work in a process of its own, which has all modules already; the GPU is not touched before."""
        name = self.name_of(work, *arguments)
        process = get_context("fork").Process(target=self._logged, args=(name, work, arguments))
        process.start()
        self.running[name] = process
        return name

    def _logged(self, name: str, work: Callable[..., None], arguments: tuple) -> None:
        log = open(self.out / "logs" / f"{name}.log", "w", buffering=1, encoding="utf-8")  # noqa: SIM115
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        sys.stdout = sys.stderr = log
        try:
            work(*arguments)
        except Exception:
            traceback.print_exc()
            raise SystemExit(1) from None

    def say(self, line: str) -> None:
        print(f"{self.clock.part:6.1%} {line}", flush=True)

    def done(self, names: list[str]) -> bool:
        return all(self.running[name].exitcode is not None for name in names)

    def stop(self) -> list[str]:
        """End what still runs; the names of that and of what failed."""
        late = [name for name, process in self.running.items() if process.exitcode is None]
        for name in late:
            self.running[name].kill()
            self.running[name].join()
        return late + [name for name, process in self.running.items() if process.exitcode and name not in late]

    def tell(self, failed: list[str]) -> None:
        for name in failed:
            print(f"not done: {name}: see {self.out / 'logs' / name}.log")
