"""Keep the memory of a server flat: let glibc return what is freed.

Tensors of many sizes come and go among small objects that stay. glibc maps large blocks one by one and returns them
when they are freed, but after the first of some megabytes it takes all up to that size (at most 32 MB) from its heaps.
There they leave holes, which it keeps: some hundred megabytes after minutes of mixed requests, and more by the hour.
"""

from __future__ import annotations

import asyncio
import ctypes
from contextlib import suppress

from starlette.concurrency import run_in_threadpool

M_MMAP_THRESHOLD = -3  # of mallopt
LARGE = 131_072  # bytes: where glibc begins, and where it now stays; page faults cost scoring up to a few per cent
SECONDS = 5.0  # between two times that smaller holes are returned: milliseconds


def _glibc() -> ctypes.CDLL | None:
    with suppress(AttributeError, OSError, TypeError):  # macOS and musl lack the function, and Windows such a handle
        library = ctypes.CDLL(None)
        library.malloc_trim.argtypes = [ctypes.c_size_t]
        return library
    return None


def map_large_blocks() -> None:
    """Let every large block be mapped by itself, in the whole process and for good; with another libc do nothing."""
    if (library := _glibc()) is not None:
        library.mallopt(M_MMAP_THRESHOLD, LARGE)


async def give_back_forever() -> None:
    """Return the free pages of all heaps now and then, whether requests come or not; with another libc do nothing."""
    library = _glibc()
    while library is not None:
        await asyncio.sleep(SECONDS)
        await run_in_threadpool(library.malloc_trim, 0)
