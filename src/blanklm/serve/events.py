"""Server-sent events of a fill: every step as it is taken, then each text's fills, then the end.

event: step      {"text": 0, "step": 2, "canvas": ..., "blank": ..., "token": ..., "left": ..., "right": ...}
event: restart   {"text": 0}: the steps so far led nowhere under the constraints, and the search begins again
event: fill      {"text": 0, "result": ...}: as in an answer that is not streamed
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
from blanklm.serve.limits import Refusal, out_of_time
from blanklm.serve.tasks.canvases import CanvasJob

EVENT_SCHEMA = {
    "type": "object",
    "properties": {
        "event": {"enum": ["step", "restart", "fill", "error", "done"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}


class Steps:
    """The steps of one text that have been sent."""

    def __init__(self, place: int) -> None:
        self.place, self.sent = place, []

    def further(self, steps: list[dict]) -> list[bytes]:
        """The events that take a reader from what has been sent to ``steps``."""
        events = []
        if steps[: len(self.sent)] != self.sent:
            events.append(event("restart", {"text": self.place}))
            self.sent = []
        for number in range(len(self.sent), len(steps)):
            events.append(event("step", {"text": self.place, "step": number, **steps[number]}))
        self.sent = list(steps)
        return events


def event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class Stream:
    """What happens to the jobs of a request, from now on. To be made before they are submitted."""

    def __init__(self, jobs: Sequence[CanvasJob], live: bool, result_of: Callable[[CanvasJob, int], dict]) -> None:
        """``live``: tell steps as they are taken. ``result_of`` a job that has ended is its record, or a Refusal."""
        self.jobs, self.result_of = jobs, result_of
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Queue()
        self._steps = {job: Steps(place) for place, job in enumerate(jobs)}
        self._job_of = {job.answer: job for job in jobs}
        for job in jobs:
            if live:
                job.follow = partial(self._tell, job)
            job.answer.add_done_callback(self._ended)

    def _ended(self, answer: Future) -> None:
        job = self._job_of.get(answer)
        if job is not None:
            self._tell(job)

    def _tell(self, job: CanvasJob, trajectory: Trajectory | None = None) -> None:
        """Called by the worker: a job has a further step, or has ended."""
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._news.put_nowait, (job, trajectory))

    async def events(self) -> AsyncIterator[bytes]:
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
            yield event("error", out_of_time().to_json())
        finally:
            for job in self.jobs:
                job.leave()
                job.follow = None
            self.jobs, self._steps, self._job_of = (), {}, {}  # the jobs hold us: they go when we let them

    def _news_of(self, job: CanvasJob, trajectory: Trajectory | None) -> Iterator[bytes]:
        steps = self._steps[job]
        if trajectory is not None:
            yield from steps.further(trajectory.to_json()[:-1])  # the last has no action yet
            return
        try:
            result = self.result_of(job, steps.place)
        except Refusal as refusal:
            yield event("error", {"text": steps.place, **refusal.to_json()})
            return
        yield from steps.further(job.answer.result()[0].trajectory.to_json())
        yield event("fill", {"text": steps.place, "result": result})
