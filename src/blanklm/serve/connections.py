"""Bounds on connections: how many there are, how long each may take to send the header of a request, what is logged.

uvicorn has neither: a client that never ends its header holds its connection for ever, and at the last file handle
the event loop reports every connection that it cannot accept.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from blanklm.serve.limits import Limits, Refusal

MOST_FILES = 4096  # that the process asks for, if it may
OWN_FILES = 64  # of the process itself: models, libraries, the log
LINGERING = 3  # turns of the event loop until a connection that was accepted and closed has given back its handle
LOGGERS = ("uvicorn.error", "asyncio")


def room(limits: Limits) -> tuple[int, int]:
    """Return how many connections there may be, and how many to accept in one turn, for the file handles there are."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return limits.connections, 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = MOST_FILES if hard == unlimited else min(hard, MOST_FILES)
    if soft != unlimited and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    files = MOST_FILES if soft == unlimited else soft
    at_once = min(512, max(1, (files - OWN_FILES) // 8))
    return max(1, min(limits.connections, files - OWN_FILES - LINGERING * at_once)), at_once


def bounded(limits: Limits, most: int) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with a deadline for headers, and at most ``most`` connections."""

    class Bounded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                message = f"there are {most} connections already: try again later"
                self._end(Refusal(503, "too_many_connections", message))
            else:
                self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_watching()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Begin to wait for a whole header, or stop when there is one."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_watching()
            elif self._late is None:
                self._late = asyncio.get_running_loop().call_later(limits.header_seconds, self._is_late)

        def _stop_watching(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _is_late(self) -> None:
            message = f"the header was not sent within {limits.header_seconds:g} s: try again"
            self._end(Refusal(408, "header_too_slow", message))

        def _end(self, refusal: Refusal) -> None:
            if not self.transport.is_closing():
                body = json.dumps(refusal.to_json()).encode()
                head = f"HTTP/1.1 {refusal.status} {refusal.code}\r\nContent-Type: application/json\r\n"
                head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                self.transport.write(head.encode() + body)
                self.transport.close()

    return Bounded


class OncePerSecond(logging.Filter):
    """Let one line a second through, with the number of those that were left out since."""

    def __init__(self) -> None:
        super().__init__()
        self._next, self._left_out = 0.0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now < self._next:
            self._left_out += 1
            return False
        if self._left_out:
            record.msg, record.args = f"{record.getMessage()} ({self._left_out:,} more lines left out)", ()
        self._next, self._left_out = now + 1.0, 0
        return True


def log_less() -> None:
    """Bound the log of the server and of its event loop."""
    shared = OncePerSecond()
    for name in LOGGERS:
        logging.getLogger(name).addFilter(shared)
