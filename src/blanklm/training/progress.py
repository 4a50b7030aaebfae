"""Where a run stands, and what people see of it. Nothing heavy is imported here: the command line uses it too."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blanklm.training.config import TrainingConfig

Advance = Callable[[float, float], None]  # called with the loss in nats per token, and the speed in tokens per second


@dataclass(frozen=True)
class Place:
    """Where a process stands in its texts."""

    epoch: int = 0
    shard: int = 0  # of the process's shards of this epoch, in their order
    text: int = 0  # texts of that shard that blocks before this one took
    batch: int = 0  # batches already used of the block that begins there


@dataclass
class Progress:
    """Where a run stands; saved and restored with its state."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already used
    tokens: int = 0
    seconds: float = 0.0
    places: list[Place] = field(default_factory=list)  # where each process stands in texts that are streamed
    running_loss: float = 0.0  # nats and tokens since the last line of the log
    running_tokens: int = 0
    best: float = math.inf  # lowest validation bound, nats per token
    best_step: int = 0
    evaluations_since_best: int = 0

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"places": [Place(**place) for place in state.get("places", ())]})


def say(message: str) -> None:
    """Print a message on standard error; of several training processes only the first one does."""
    if os.environ.get("RANK", "0") == "0":
        with suppress(OSError):  # nobody reads it, or its disk is full: that must not stop the work
            print(message, file=sys.stderr)


def seconds_left(progress: Progress, config: TrainingConfig) -> float:
    """Estimate how long a run that has begun still takes: as its steps have taken so far, or until its time is up."""
    left = (config.steps - progress.step) * progress.seconds / max(1, progress.step)
    return max(0.0, min(left, config.seconds - progress.seconds) if config.seconds else left)


def duration(seconds: float) -> str:
    """A time in words, as exact as an estimate is."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@dataclass(frozen=True)
class Watch:
    """What is told of a run while it goes."""

    advance: Advance
    estimate: Callable[[float], None]  # called once, with the seconds that a step takes


@contextmanager
def progress_bar(progress: Progress, config: TrainingConfig) -> Iterator[Watch]:
    """Show a bar with loss, speed and time left, and say early how long the run will take."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.table import Column
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        """Counts down between the steps that are told of."""

        def render(self, task: Any) -> Text:
            end = task.fields["end"]
            return Text("" if end is None else f"{duration(max(0.0, end - time.monotonic()))} left", style="cyan")

    whole = Column(no_wrap=True)  # where there is little room, the bar gives way
    steps_done = TextColumn("step {task.completed:,}/{task.total:,}", table_column=whole)
    words = TextColumn("{task.description}", table_column=whole.copy())
    with Bar(steps_done, BarColumn(), words, TimeLeft(whole.copy()), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=config.steps, completed=progress.step, end=None)

        def show(left: float, seconds: float, **values: Any) -> None:
            """Show a run that takes so many seconds more, at so many a step."""
            total = progress.step + round(left / seconds)
            bar.update(task, completed=progress.step, total=total, end=time.monotonic() + left, **values)

        def advance(loss: float, speed: float) -> None:
            best = "" if math.isinf(progress.best) else f", best valid {progress.best:.3f}"
            said = f"loss {loss:.3f}{best}, {speed:,.0f} tokens/s"
            show(seconds_left(progress, config), progress.seconds / progress.step, description=said)

        def estimate(seconds: float) -> None:
            left = seconds * (config.steps - progress.step)
            if config.seconds:
                left = min(left, config.seconds - progress.seconds)
            show(left, seconds)
            each = f"{seconds:.1f} s" if seconds >= 0.1 else f"{1000 * seconds:.0f} ms"
            say(f"about {duration(left)} for about {round(left / seconds):,} steps of {each}; Ctrl-C saves and stops")

        yield Watch(advance, estimate)
