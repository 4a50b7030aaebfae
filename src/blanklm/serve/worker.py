"""One worker thread with a bounded queue of jobs, which it runs in batches.

A job is one text of one request. Jobs of the same task and *group* (model and options) may share a batch. A batch
always contains the oldest job, so that none waits forever, and the jobs closest to it in size, so that little time is
spent waiting for the longest text.
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

Run = Callable[[list[Any]], Sequence[Any]]  # from items to one answer per item
MAX_LINGER = 0.25  # as a share of the time of the last batch
DECAY = 0.9  # of the moving average of seconds per text


class Stopped(Exception):
    """The job was stopped, because its client has left or its deadline has passed."""


class Client:
    """Whoever waits for the answers of a request until a deadline, on the clock of ``time.monotonic``.

    Items of jobs refer to the client, not to the job: a job that its own item refers to would outlive its answer.
    """

    def __init__(self, deadline: float = float("inf")) -> None:
        self.deadline, self.left = deadline, False

    def waits(self) -> bool:
        return not self.left and time.monotonic() < self.deadline

    def check(self, done: int = 0) -> None:
        """Raise Stopped if nobody waits any more; long work calls this as it progresses."""
        if not self.waits():
            raise Stopped


@dataclass(eq=False)
class Job:
    """One unit of work with its future answer."""

    task: str
    group: Hashable  # within the task
    item: Any
    run: Run  # called once for the items of all jobs in a batch
    client: Client
    size: int = 1  # tokens in one forward pass
    texts: int = 1
    answer: Future = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.answer.set_running_or_notify_cancel()  # only the worker may end it, not a client that gives up waiting

    @property
    def outcome(self) -> str:
        """Return how a finished job ended: done, failed or stopped."""
        error = self.answer.exception()
        if error is None and self.answer.result() is not None:
            return "done"
        return "failed" if error is not None and not isinstance(error, Stopped) else "stopped"


class Worker:
    """A queue and the thread that empties it.

    ``observe`` is called with each batch and the seconds it took, ``expired`` with the jobs that left the queue
    because nobody waited for them any more.
    """

    def __init__(
        self,
        limits: Limits,
        observe: Callable[[list[Job], float], None] = lambda batch, seconds: None,
        expired: Callable[[list[Job]], None] = lambda jobs: None,
    ) -> None:
        self.limits, self.observe, self.expired = limits, observe, expired
        self._queue: list[Job] = []  # oldest first
        self._changed = threading.Condition()
        self._closing = False
        self.working = 0  # texts in the running batch
        self._seconds_per_text, self._last_seconds = 0.05, 0.0
        self._expected = 0  # texts of the last batch and of the queue behind it: as many are likely to come again
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="blanklm-worker", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def ready(self) -> bool:
        return self._thread is not None and self._thread.is_alive() and not self._closing

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue all of the jobs, or none."""
        with self._changed:
            if self._closing:
                raise Refusal(503, "closing", "the server is shutting down: try again later", None, _retry_after(1))
            if len(self._queue) + len(jobs) > self.limits.queue:
                self._drop_abandoned()
            if len(self._queue) + len(jobs) > self.limits.queue:
                seconds = min(60, max(1, ceil(len(self._queue) * self._seconds_per_text)))
                message = f"{len(self._queue)} texts are waiting already: try again in {seconds} s"
                raise Refusal(429, "queue_full", message, None, _retry_after(seconds))
            self._queue += jobs
            self._changed.notify()

    def close(self) -> None:
        """Refuse new jobs, finish those in the queue, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    # --- The thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while batch := self._take():
            started, self.working = time.monotonic(), len(batch)
            _run(batch)
            seconds, self.working = time.monotonic() - started, 0
            self._last_seconds, self._expected = seconds, len(batch) + len(self._queue)
            self._seconds_per_text += (1 - DECAY) * (seconds / len(batch) - self._seconds_per_text)
            self.observe(batch, seconds)

    def _take(self) -> list[Job]:
        """Wait for the next batch and return it; empty once the queue is closed and empty."""
        with self._changed:
            while True:
                while not self._queue and not self._closing:
                    self._changed.wait()
                self._linger()
                if not self._queue:
                    return []
                self._drop_abandoned()
                if self._queue:
                    batch = self._choose()
                    chosen = set(batch)
                    self._queue = [job for job in self._queue if job not in chosen]
                    return batch

    def _drop_abandoned(self) -> None:
        """Stop the queued jobs whose answers nobody waits for any more."""
        queue, self._queue = self._queue, []
        gone: list[Job] = []
        for job in queue:
            (self._queue if job.client.waits() else gone).append(job)
        for job in gone:
            job.answer.set_exception(Stopped())
        if gone:
            self.expired(gone)

    def _linger(self) -> None:
        """Wait a little for the clients of the last batch to send again, as long as texts keep coming.

        Clients that have just got their answers often send the next text at once. A batch that starts without them
        would split the clients for good into two groups, each waiting for the other. The slower the batches, the
        longer the wait; it ends when as many texts are in the queue as are expected.
        """
        longest = max(self.limits.batch_wait, MAX_LINGER * self._last_seconds)
        until, expected = time.monotonic() + longest, min(self._expected, self.limits.batch)
        while len(self._queue) < expected and not self._closing and time.monotonic() < until:
            if not self._changed.wait(longest / 4):
                return

    def _choose(self) -> list[Job]:
        """Return the oldest job and those of its group closest to it in size, within the limits of a batch."""
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


def call_each(items: list[Callable[[], Any]]) -> list[Any]:
    """Run jobs whose items are the work itself."""
    return [item() for item in items]


def _run(batch: list[Job]) -> None:
    """Run a batch; if it fails, run each job by itself, so that a bad one fails alone."""
    try:
        answers = batch[0].run([job.item for job in batch])
    except Exception as error:  # whatever it is, the worker survives and the client is told
        if len(batch) == 1:
            batch[0].answer.set_exception(error)
            return
        for job in batch:
            _run([job])
        return
    for job, answer in zip(batch, answers, strict=True):
        job.answer.set_result(answer)


def _retry_after(seconds: int) -> dict[str, str]:
    return {"Retry-After": str(seconds)}
