"""What people see of a run. Nothing heavy is imported here: the command line uses it too."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blanklm.training.run import Progress

Advance = Callable[[float, float], None]  # called with the loss in nats per token, and the speed in tokens per second


def say(message: str) -> None:
    """Print a message on standard error; of several training processes only the first one does."""
    if os.environ.get("RANK", "0") == "0":
        print(message, file=sys.stderr)


@contextmanager
def progress_bar(progress: Progress, steps: int) -> Iterator[Advance]:
    """Show a bar with loss, speed and time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("step"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}")
    with Bar(*columns, TimeRemainingColumn()) as bar:
        task = bar.add_task("", total=steps, completed=progress.step)

        def advance(loss: float, speed: float) -> None:
            best = "" if math.isinf(progress.best) else f", best valid {progress.best:.3f}"
            words = f"loss {loss:.3f} nats/token{best}, {speed:,.0f} tokens/s"
            bar.update(task, completed=progress.step, description=words)

        yield advance
