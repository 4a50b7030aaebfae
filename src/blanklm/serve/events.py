"""Server-sent events: a fill step by step, a restoration gap by gap; then the results, then the end.

event: step      {"text": 0, "step": 2, "canvas": ..., "blank": ..., "token": ..., "left": ..., "right": ...}
event: restart   {"text": 0}: the steps so far led nowhere, and the search starts over
event: gap       {"text": 0, "gap": ...}: one of several gaps as soon as it is restored, but for its parallels
event: fill      {"text": 0, "result": ...}: the same result as without streaming; of a restoration: restore
event: error     {"text": 0, "error": ...}
event: done      {}
"""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from blanklm.core.canvas import Trajectory
from blanklm.records import to_json
from blanklm.restoration.records import GapRecord
from blanklm.serve.limits import Refusal, deadline_passed
from blanklm.serve.worker import Job

EVENT_SCHEMA = {
    "type": "object",
    "properties": {
        "event": {"enum": ["step", "restart", "fill", "gap", "restore", "error", "done"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}


def event(name: str, data: dict[str, Any]) -> bytes:
    """Encode one server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class Stream(ABC):
    """The events of the jobs of a request; create it before they are submitted."""

    def __init__(self, jobs: Sequence[Job], result_of: Callable[[Job, int], dict[str, Any]]) -> None:
        """``result_of`` returns the record of a finished job or raises."""
        self.jobs, self.result_of = jobs, result_of
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
        for place, job in enumerate(jobs):
            self.follow(job, partial(self._tell, place))
            job.answer.add_done_callback(partial(self._tell, place))

    @abstractmethod
    def follow(self, job: Job, tell: Callable[[Any], None]) -> None:
        """Let a job ``tell`` the news as it goes on."""

    @abstractmethod
    def going_on(self, place: int, news: Any) -> Iterator[bytes]:
        """Yield the events of the news of the job at ``place``."""

    @abstractmethod
    def ended(self, place: int, result: dict[str, Any]) -> Iterator[bytes]:
        """Yield the events of the result of a job."""

    def _tell(self, place: int, news: Any) -> None:
        """Report, from the thread of the worker, that a job has got on or has its answer."""
        with suppress(RuntimeError):  # the loop is closed: nobody is listening
            self._loop.call_soon_threadsafe(self._news.put_nowait, (place, news))

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the events until all jobs have ended or the deadline has passed."""
        running, client = len(self.jobs), self.jobs[0].client
        try:
            while running:
                async with asyncio.timeout(client.deadline - time.monotonic()):
                    place, news = await self._news.get()
                running -= isinstance(news, Future)
                for part in self._end(place) if isinstance(news, Future) else self.going_on(place, news):
                    yield part
            yield event("done", {})
        except TimeoutError:
            yield event("error", deadline_passed().to_json())
        finally:
            client.left = True
            self.jobs = ()  # break the reference cycle between stream and jobs

    def _end(self, place: int) -> Iterator[bytes]:
        try:
            result = self.result_of(self.jobs[place], place)
        except Refusal as refusal:
            yield event("error", {"text": place, **refusal.to_json()})
            return
        yield from self.ended(place, result)


class FillStream(Stream):
    def __init__(self, jobs: Sequence[Job], live: bool, result_of: Callable[[Job, int], dict[str, Any]]) -> None:
        """``live``: send steps when they are taken."""
        self.live = live
        self._sent: list[list[dict[str, Any]]] = [[] for _ in jobs]  # the steps of each text that have been sent
        super().__init__(jobs, result_of)

    def follow(self, job: Job, tell: Callable[[Any], None]) -> None:
        if self.live:
            job.item.watcher.follow = tell

    def going_on(self, place: int, news: Trajectory) -> Iterator[bytes]:
        return self._steps(place, news.to_json()[:-1])  # the last canvas has no action yet

    def ended(self, place: int, result: dict[str, Any]) -> Iterator[bytes]:
        yield from self._steps(place, self.jobs[place].answer.result()[0].trajectory.to_json())
        yield event("fill", {"text": place, "result": result})

    def _steps(self, place: int, steps: list[dict[str, Any]]) -> Iterator[bytes]:
        """Yield the events that lead from what has been sent to ``steps``."""
        sent, self._sent[place] = self._sent[place], steps
        if steps[: len(sent)] != sent:
            yield event("restart", {"text": place})
            sent = []
        for number, step in enumerate(steps[len(sent) :], len(sent)):
            yield event("step", {"text": place, "step": number, **step})


class GapStream(Stream):
    def follow(self, job: Job, tell: Callable[[Any], None]) -> None:
        job.item.ready = tell

    def going_on(self, place: int, news: GapRecord) -> Iterator[bytes]:
        yield event("gap", {"text": place, "gap": to_json(news, 6)})

    def ended(self, place: int, result: dict[str, Any]) -> Iterator[bytes]:
        yield event("restore", {"text": place, "result": result})
