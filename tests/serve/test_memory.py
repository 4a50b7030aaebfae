"""The memory of a server that runs for long."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blanklm import BlankLM
from blanklm.serve import memory, server
from tests.support.paths import YELP_WORDS
from tests.support.serving import client_of

MB = 1_000_000
pytestmark = pytest.mark.skipif(memory._glibc() is None, reason="only glibc keeps such memory")


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def leave_holes(size, number):
    """Allocate blocks and behind each an object that stays; free the blocks, and return what stays."""
    blocks, staying = [], []
    for _ in range(number):
        blocks.append(bytearray(size))
        staying.append(bytearray(size // 40))
    return staying


def test_small_holes_in_the_heap_go_back_to_the_system(model, monkeypatch):
    memory._glibc().malloc_trim(0)
    before = resident()
    staying = leave_holes(64_000, 3000)
    assert resident() > before + 150 * MB  # glibc has kept them
    monkeypatch.setattr(memory, "SECONDS", 0.05)
    with client_of(model):
        until = time.monotonic() + 20
        while resident() > before + 50 * MB:
            assert time.monotonic() < until, f"{(resident() - before) / MB:.0f} MB are still held"
            time.sleep(0.05)
    assert len(staying) == 3000


def held_after(first):
    """The megabytes that a fresh process holds after large blocks were freed, ``first`` having been called."""
    program = (
        "from tests.serve.test_memory import MB, leave_holes, memory, resident\n"
        f"{first}; bytearray(30 * MB)\n"  # from here on glibc would take all smaller blocks from its heap
        "before = resident(); staying = leave_holes(2 * MB, 100); print((resident() - before) // MB)"
    )
    return int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_large_blocks_go_back_to_the_system_when_they_are_freed():
    assert held_after("pass") > 150  # glibc as it is
    assert held_after("memory.map_large_blocks()") < 20


def test_a_server_sets_so_before_it_loads_a_model(monkeypatch):
    done = []
    monkeypatch.setattr(server, "map_large_blocks", lambda: done.append("memory"))
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: done.append("serving"))
    monkeypatch.setattr("blanklm.serve.loading.load", lambda *_: done.append("loading") or loaded)
    monkeypatch.setattr(server.signal, "signal", lambda *_: None)
    loaded = BlankLM.from_pretrained(YELP_WORDS, device="cpu")
    server.run([str(YELP_WORDS)], "127.0.0.1", 0, "cpu", None, [], [], [])
    assert done == ["memory", "loading", "serving"]
