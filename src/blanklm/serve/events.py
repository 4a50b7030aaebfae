"""Server-sent events of a fill: each step when it is taken, then the fills of each text, then the end.

event: step      {"text": 0, "step": 2, "canvas": ..., "blank": ..., "token": ..., "left": ..., "right": ...}
event: restart   {"text": 0}: the steps so far violated the constraints, and the search starts over
event: fill      {"text": 0, "result": ...}: the same result as without streaming
event: error     {"text": 0, "error": ...}
event: done      {}
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from blanklm.core.canvas import Trajectory
from blanklm.serve.limits import Refusal, deadline_passed
from blanklm.serve.tasks.canvases import CanvasJob

EVENT_SCHEMA = {
    "type": "object",
    "properties": {
        "event": {"enum": ["step", "restart", "fill", "error", "done"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}


class StepLog:
    """The steps of one text that have been sent."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.sent: list[dict[str, Any]] = []

    def update(self, steps: list[dict[str, Any]]) -> list[bytes]:
        """Return the events that lead from what has been sent to ``steps``."""
        events = []
        if steps[: len(self.sent)] != self.sent:
            events.append(event("restart", {"text": self.place}))
            self.sent = []
        for number in range(len(self.sent), len(steps)):
            events.append(event("step", {"text": self.place, "step": number, **steps[number]}))
        self.sent = list(steps)
        return events


def event(name: str, data: dict[str, Any]) -> bytes:
    """Encode one server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class Stream:
    """The events of the jobs of a request; create it before they are submitted."""

    def __init__(
        self, jobs: Sequence[CanvasJob], live: bool, result_of: Callable[[CanvasJob, int], dict[str, Any]]
    ) -> None:
        """``live``: send steps when they are taken. ``result_of`` returns the record of a finished job or raises."""
        self.jobs, self.result_of = jobs, result_of
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[tuple[CanvasJob, Trajectory | None]] = asyncio.Queue()  # None: the job has ended
        self._logs = {job: StepLog(place) for place, job in enumerate(jobs)}
        self._job_of = {job.answer: job for job in jobs}
        for job in jobs:
            if live:
                job.follow = partial(self._tell, job)
            job.answer.add_done_callback(self._end)

    def _end(self, answer: Future[Any]) -> None:
        job = self._job_of.get(answer)
        if job is not None:
            self._tell(job)

    def _tell(self, job: CanvasJob, trajectory: Trajectory | None = None) -> None:
        """Report, from the thread of the worker, that a job has taken a step or has ended."""
        with suppress(RuntimeError):  # the loop is closed: nobody is listening
            self._loop.call_soon_threadsafe(self._news.put_nowait, (job, trajectory))

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the events until all jobs have ended or the deadline has passed."""
        running = len(self.jobs)
        try:
            while running:
                async with asyncio.timeout(self.jobs[0].deadline - time.monotonic()):
                    job, trajectory = await self._news.get()
                running -= trajectory is None
                for part in self._news_of(job, trajectory):
                    yield part
            yield event("done", {})
        except TimeoutError:
            yield event("error", deadline_passed().to_json())
        finally:
            for job in self.jobs:
                job.leave()
                job.follow = None
            self.jobs, self._logs, self._job_of = (), {}, {}  # break the reference cycle between stream and jobs

    def _news_of(self, job: CanvasJob, trajectory: Trajectory | None) -> Iterator[bytes]:
        log = self._logs[job]
        if trajectory is not None:
            yield from log.update(trajectory.to_json()[:-1])  # the last canvas has no action yet
            return
        try:
            result = self.result_of(job, log.place)
        except Refusal as refusal:
            yield event("error", {"text": log.place, **refusal.to_json()})
            return
        yield from log.update(job.answer.result()[0].trajectory.to_json())
        yield event("fill", {"text": log.place, "result": result})
