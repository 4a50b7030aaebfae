"""Give freed memory back to the system.

Tensors of many sizes come and go among small objects that stay. glibc keeps the holes that they leave: within minutes
of mixed requests a server holds more than a hundred megabytes of them. It can return them, but only does so when asked.
Mapping every large tensor by itself (``M_MMAP_THRESHOLD``) avoids the holes too, at the price of page faults in every
pass.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from contextlib import suppress

from starlette.concurrency import run_in_threadpool

SECONDS = 5.0  # between two times: tens of milliseconds after much work, a tenth of one after none


async def give_back_forever() -> None:
    """Give freed memory back now and then, whether requests come or not; on systems with another libc do nothing."""
    trim = _trim()
    while trim is not None:
        await asyncio.sleep(SECONDS)
        await run_in_threadpool(trim, 0)


def _trim() -> Callable[[int], int] | None:
    """Return glibc's ``malloc_trim``, which releases the free pages of all its heaps."""
    with suppress(AttributeError, OSError, TypeError):  # macOS and musl have none, and Windows no such handle
        trim = ctypes.CDLL(None).malloc_trim
        trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
        return trim
    return None
