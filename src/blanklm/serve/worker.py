"""One worker thread that takes jobs off a bounded queue and runs those that go together as one batch.

A job is one text of one request. Jobs of one task and the same *group* (model and options) may share a batch. A batch
always has the oldest job in it, so none waits for ever; the others are those nearest to it in size, so that little of
a batch waits for its longest text.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from blanklm.serve.limits import Limits, Refusal

Run = Callable[[list[Any]], Sequence[Any]]  # items in, one answer each out
LINGER = 0.25  # of the time of the last batch, while texts keep coming; a quarter of that when none comes
RATE_MEMORY = 0.9  # how much of the estimated seconds a text survives each batch


class Stopped(Exception):
    """The job's client has left or its deadline has passed: nobody wants the answer."""


@dataclass(eq=False)
class Job:
    """One unit of work, its deadline (on the clock of ``time.monotonic``) and its answer to come."""

    task: str
    group: Hashable  # within the task
    item: Any
    run: Run  # of any job in the batch, for all their items
    size: int = 1  # tokens in a pass
    deadline: float = float("inf")
    answer: Future = field(default_factory=Future)
    left: bool = False  # the client is gone

    def __post_init__(self) -> None:
        self.answer.set_running_or_notify_cancel()  # only the worker ends it: an awaiter that gives up must not

    def leave(self) -> None:
        self.left = True

    def wanted(self) -> bool:
        return not self.left and time.monotonic() < self.deadline

    @property
    def outcome(self) -> str:
        """How it ended: done, failed or stopped."""
        error = self.answer.exception()
        if error is None and self.answer.result() is not None:
            return "done"
        return "failed" if error is not None and not isinstance(error, Stopped) else "stopped"


class Batcher:
    """``observe`` is called with each batch that has been run and the seconds it took."""

    def __init__(self, limits: Limits, observe: Callable[[list[Job], float], None] = lambda batch, seconds: None):
        self.limits, self.observe = limits, observe
        self._queue: list[Job] = []  # oldest first
        self._changed = threading.Condition()
        self._closing = False
        self.working = 0  # texts in the batch that is being run
        self._seconds_a_text, self._last_seconds = 0.05, 0.0
        self._expected = 0  # texts: of clients who were answered last, and of those who waited then
        self._worker: threading.Thread | None = None

    def start(self) -> None:
        self._closing = False
        self._worker = threading.Thread(target=self._work, name="blanklm-worker", daemon=True)
        self._worker.start()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def ready(self) -> bool:
        return self._worker is not None and self._worker.is_alive() and not self._closing

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue all of the jobs, or none."""
        with self._changed:
            if self._closing:
                raise Refusal(503, "closing", "the server is shutting down: try another or later", None, _later(1))
            if len(self._queue) + len(jobs) > self.limits.queue:
                self._drop_unwanted()
            if len(self._queue) + len(jobs) > self.limits.queue:
                seconds = ceil(len(self._queue) * self._seconds_a_text)
                message = f"{len(self._queue)} texts are waiting already: try again in {max(1, seconds)} s"
                raise Refusal(429, "queue_full", message, None, _later(seconds))
            self._queue += jobs
            self._changed.notify()

    def close(self) -> None:
        """Take no more jobs, finish those that were taken, and end the worker."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._worker.join()

    # --- The worker -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while batch := self._take():
            started, self.working = time.monotonic(), len(batch)
            _run(batch)
            seconds, self.working = time.monotonic() - started, 0
            self._last_seconds, self._expected = seconds, len(batch) + len(self._queue)
            self._seconds_a_text += (1 - RATE_MEMORY) * (seconds / len(batch) - self._seconds_a_text)
            self.observe(batch, seconds)

    def _take(self) -> list[Job]:
        """The next batch; empty when the queue is closed and done."""
        with self._changed:
            while True:
                while not self._queue and not self._closing:
                    self._changed.wait()
                self._linger()
                if not self._queue:
                    return []
                self._drop_unwanted()
                if self._queue:
                    batch = self._choose()
                    chosen = set(batch)
                    self._queue = [job for job in self._queue if job not in chosen]
                    return batch

    def _drop_unwanted(self) -> None:
        queue, self._queue = self._queue, []
        for job in queue:
            if job.wanted():
                self._queue.append(job)
            else:
                job.answer.set_exception(Stopped())

    def _linger(self) -> None:
        """Wait for those just answered to join those who were waiting, while more keeps coming, within the limit.

        Clients that have just had their answers ask again at once. To leave without them would split them for good
        into those who are worked on and those who wait, so where batches take long, a little longer is waited. When
        as many are back as were answered, nobody else is to be expected.
        """
        longest = max(self.limits.batch_wait, LINGER * self._last_seconds)
        until, expected = time.monotonic() + longest, min(self._expected, self.limits.batch)
        while len(self._queue) < expected and not self._closing and time.monotonic() < until:
            if not self._changed.wait(longest / 4):
                return

    def _choose(self) -> list[Job]:
        oldest = self._queue[0]
        others = [job for job in self._queue[1:] if (job.task, job.group) == (oldest.task, oldest.group)]
        others.sort(key=lambda job: abs(job.size - oldest.size))
        batch, tokens = [oldest], oldest.size
        for job in others[: self.limits.batch - 1]:
            tokens += job.size
            if tokens > self.limits.batch_tokens:
                break
            batch.append(job)
        return batch


def _run(batch: list[Job]) -> None:
    """Run a batch; if it fails, run each job alone, so that a bad one does not take others along."""
    try:
        answers = batch[0].run([job.item for job in batch])
    except Exception as error:  # whatever it is, the worker lives on, and the client is told
        if len(batch) == 1:
            batch[0].answer.set_exception(error)
            return
        for job in batch:
            _run([job])
        return
    for job, answer in zip(batch, answers, strict=True):
        job.answer.set_result(answer)


def _later(seconds: int) -> dict[str, str]:
    return {"Retry-After": str(min(60, max(1, seconds)))}
