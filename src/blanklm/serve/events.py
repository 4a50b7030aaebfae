"""Server-sent events of a fill: each step when it is settled, then the fills of each text, then the end.

event: step      {"text": 0, "step": 2, "canvas": ..., "blank": ..., "token": ..., "left": ..., "right": ...}
event: restart   {"text": 0}: the steps so far led nowhere, and the search starts over
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
from blanklm.serve.worker import Job

EVENT_SCHEMA = {
    "type": "object",
    "properties": {
        "event": {"enum": ["step", "restart", "fill", "error", "done"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}


def event(name: str, data: dict[str, Any]) -> bytes:
    """Encode one server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class Stream:
    """The events of the jobs of a request; create it before they are submitted."""

    def __init__(self, jobs: Sequence[Job], live: bool, result_of: Callable[[Job, int], dict[str, Any]]) -> None:
        """``live``: send steps when they are taken. ``result_of`` returns the record of a finished job or raises."""
        self.jobs, self.result_of = jobs, result_of
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[tuple[int, Trajectory | Future[Any]]] = asyncio.Queue()
        self._sent: list[list[dict[str, Any]]] = [[] for _ in jobs]  # the steps of each text that have been sent
        for place, job in enumerate(jobs):
            if live:
                job.item.watcher.follow = partial(self._tell, place)
            job.answer.add_done_callback(partial(self._tell, place))

    def _tell(self, place: int, news: Trajectory | Future[Any]) -> None:
        """Report, from the thread of the worker, that a job has taken a step or has its answer."""
        with suppress(RuntimeError):  # the loop is closed: nobody is listening
            self._loop.call_soon_threadsafe(self._news.put_nowait, (place, news))

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the events until all jobs have ended or the deadline has passed."""
        running, client = len(self.jobs), self.jobs[0].client
        try:
            while running:
                async with asyncio.timeout(client.deadline - time.monotonic()):
                    place, news = await self._news.get()
                if isinstance(news, Trajectory):
                    steps = self._steps(place, news.to_json()[:-1])  # the last canvas has no action yet
                else:
                    running -= 1
                    steps = self._end(place)
                for part in steps:
                    yield part
            yield event("done", {})
        except TimeoutError:
            yield event("error", deadline_passed().to_json())
        finally:
            client.left = True
            self.jobs = ()  # break the reference cycle between stream and jobs

    def _steps(self, place: int, steps: list[dict[str, Any]]) -> Iterator[bytes]:
        """Yield the events that lead from what has been sent to ``steps``."""
        sent, self._sent[place] = self._sent[place], steps
        if steps[: len(sent)] != sent:
            yield event("restart", {"text": place})
            sent = []
        for number, step in enumerate(steps[len(sent) :], len(sent)):
            yield event("step", {"text": place, "step": number, **step})

    def _end(self, place: int) -> Iterator[bytes]:
        job = self.jobs[place]
        try:
            result = self.result_of(job, place)
        except Refusal as refusal:
            yield event("error", {"text": place, **refusal.to_json()})
            return
        yield from self._steps(place, job.answer.result()[0].trajectory.to_json())
        yield event("fill", {"text": place, "result": result})
