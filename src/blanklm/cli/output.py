"""What commands print: errors, notes and progress bars."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from blanklm.bulk.lines import Answer, Line, listed, one_line_json
from blanklm.training.progress import say as say

if TYPE_CHECKING:
    from rich.console import Console

    from blanklm.api import Watch
    from blanklm.core.canvas import Trajectory


@contextmanager
def progress_bar(total: int | None, unit: str) -> Iterator[Any]:
    """A bar on standard error, for people who wait at a terminal while the results go elsewhere."""
    if not sys.stderr.isatty() or (sys.stdout.isatty() and unit == "texts"):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit, total=total)
        yield lambda done: bar.advance(task, done)


class Patience:
    """Say on a terminal how far a text is that takes long, and how long the rest will take: seldom, for all texts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.pause = clock, 10.0  # seconds before the next note
        self.said = clock()

    def watch(self, line: Line) -> Watch:
        began: list[float] = []

        def look(so_far: Callable[[], Trajectory]) -> bool:
            now = self.clock()
            if not began:
                began.append(now)
            if now - max(self.said, began[0]) > self.pause:
                trajectory = so_far()
                written, open_blanks = len(trajectory.actions), len(trajectory.canvases[-1].blanks)
                rest = (now - began[0]) / max(1, written) * open_blanks
                progress = f"{written:,} tokens written, {open_blanks:,} blanks open: {rest:,.0f} s to go, at least"
                say(f"note: {line.place}{progress} (--beam 1 and fewer blanks are quicker)")
                self.said, self.pause = now, 2 * self.pause
            return True

        return look


def print_error(answer: Answer, as_json: bool) -> None:
    say(f"error: {answer.line.place}{' '.join((answer.error or '').split())}")
    if as_json:
        print(one_line_json(answer.to_json()))
    elif answer.line.number is not None:
        print_line(answer.line, "")  # so that the n-th line out answers the n-th line in


def print_line(line: Line, text: str, before: str = "") -> None:
    """Print an answer that is text, as its line came: one line, whatever it holds, with the same ending."""
    if line.number is None:
        print(before + text)
        return
    if "\n" in text:
        text = text.replace("\n", "\\n")
        say(f"note: {line.place}its line breaks are written \\n: --json keeps them")
    print(before + line.mark + text, end=line.ending)


def terminal() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 200)


def warn_of_unknown(words: tuple[str, ...], line: Line) -> None:
    if words:
        how = "them as unknown words" if len(words) > 1 else "it as an unknown word"
        say(f"warning: {line.place}the model does not know {listed(words)}; it reads {how}")
