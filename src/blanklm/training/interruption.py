"""Ctrl-C during a run: the step that is being done is finished, and everything is saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from blanklm.training.progress import say


class Interruption:
    """Whether somebody has pressed Ctrl-C."""

    asked = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        say("stopping: finishing this step and saving the run (Ctrl-C again stops at once)")


@contextmanager
def interruption(one_process: bool) -> Iterator[Interruption]:
    """Take Ctrl-C as a wish to stop after this step; several processes would stop at different ones, so not there."""
    asked = Interruption()
    if not one_process or threading.current_thread() is not threading.main_thread():
        yield asked  # signals are the main thread's
        return
    before = signal.signal(signal.SIGINT, asked.ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
